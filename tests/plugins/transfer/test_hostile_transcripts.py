"""Transcripts that are odd on purpose: nothing is lost in silence, no part spoils the whole, and a session is whole or
not there."""

import json
import os
import signal
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from test_taken_over import took, whole
from told_transcripts import AT, IDS, TELL, Line, claude_lines, codex_lines, write

from sagent.plugins.audit.verify import verify
from sagent.plugins.transfer.writer import Taken
from tests.cli.program import Shell


def claude_file(home: Path, rows: Sequence[object], project: str = "-there") -> Path:
    return write(home / f".claude/projects/{project}/{IDS['claude']}.jsonl", rows)


def codex_file(home: Path, rows: Sequence[object]) -> Path:
    name = f"rollout-2026-12-01T15-25-34-{IDS['codex']}.jsonl"
    return write(home / ".codex/sessions/2026/12/01" / name, rows)


def results(taken: Taken) -> list[str]:
    return [result.text for message in whole(taken.session) for result in message.results]


@pytest.mark.parametrize(
    "first",
    [
        {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}, "isSnapshotUpdate": False},
        {"type": "a line of a later version"},
        "no object",
    ],
)
def test_program_is_recognised_by_a_later_line(first: object, shell: Shell) -> None:
    write(shell.cwd / "given.jsonl", [first, *claude_lines()])
    done = shell.run("resume", "given.jsonl", "--save-only", "--json", model="")
    assert done.code == 0, done.err
    assert done.json["program"] == "claude"


def test_unreadable_agents_leave_the_rest(tmp_path: Path) -> None:
    below = TELL["claude"](tmp_path).with_suffix("") / "subagents"
    (below / "agent-folder.jsonl").mkdir()
    os.mkfifo(below / "agent-pipe.jsonl")
    (below / "agent-link.jsonl").symlink_to("/nonexistent")
    taken = took(tmp_path, "claude")
    assert taken.children == 1
    assert taken.left_out["a sub-agent whose file cannot be read"] == 3


def test_agents_of_a_circle_are_taken_once(tmp_path: Path) -> None:
    with closing(sqlite3.connect(TELL["opencode"](tmp_path))) as database, database:
        for _ in range(12):
            database.execute("insert into session values ('ses_child','ses_child','c','/t','x','1',1,2)")
    taken = took(tmp_path, "opencode")
    assert taken.children == 1
    assert taken.left_out["a sub-agent that is too deep, or was taken over already"] == 12


def test_copied_agent_of_codex_is_taken_once(tmp_path: Path) -> None:
    main = TELL["codex"](tmp_path)
    for file in main.parent.glob("*.jsonl"):
        if file != main:
            (main.parent / f"rollout-2027{file.name[12:]}").write_bytes(file.read_bytes())
    assert took(tmp_path, "codex").children == 1


def test_more_agents_than_open_files(tmp_path: Path) -> None:
    import resource

    below = TELL["claude"](tmp_path).with_suffix("") / "subagents"
    talk = (below / "agent-a1.jsonl").read_bytes()
    for number in range(80):
        (below / f"agent-b{number}.jsonl").write_bytes(talk)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 40, before[1]))
    try:
        taken = took(tmp_path, "claude")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert taken.children == 81
    assert verify(taken.session).problems == ()


@pytest.mark.parametrize("program", ["claude", "pi"])
def test_lines_that_stand_there_twice_count_once(program: str, tmp_path: Path) -> None:
    file = TELL[program](tmp_path)  # pyright: ignore[reportArgumentType] -- one of them
    before = [one.parts for one in whole(took(tmp_path, program).session)]  # pyright: ignore[reportArgumentType]
    file.write_bytes(file.read_bytes() * 2)
    taken = took(tmp_path, program)  # pyright: ignore[reportArgumentType]
    assert [one.parts for one in whole(taken.session)] == before
    assert taken.left_out["a line with the id of an earlier one"] > 5


class TestNothingIsLostInSilence:
    def test_content_of_another_type(self, tmp_path: Path) -> None:
        first, *rest = claude_lines()
        last: Line = {**first, "uuid": "z", "parentUuid": "u14"}
        odd = [{**last, "message": {"role": "user", "content": {"text": "hidden"}}}]
        odd += [{**last, "uuid": "y", "parentUuid": "z",
                 "message": {"role": "user", "content": [{"type": "text", "text": ["hidden"]}]}}]  # fmt: skip
        claude_file(tmp_path, [first, *rest, *odd])
        left = took(tmp_path, "claude").left_out
        assert left["content that is neither a text nor a list"] == 1
        assert left["a text that is of another type"] == 1

    def test_parts_of_results_in_codex(self, tmp_path: Path) -> None:
        call = {"type": "function_call", "name": "x", "arguments": "{}", "call_id": "z"}
        parts = [{"type": "input_file", "filename": "a"}, {"type": "input_text", "text": "kept"}]
        answer = {"type": "function_call_output", "call_id": "z", "output": parts}
        rows = [{"type": "response_item", "payload": each} for each in (call, answer)]
        codex_file(tmp_path, [*codex_lines(IDS["codex"]), *rows])
        taken = took(tmp_path, "codex")
        assert taken.left_out["a part of a result: input_file"] == 1
        assert "kept" in results(taken)

    def test_parts_of_results_in_gemini(self, tmp_path: Path) -> None:
        named = {"fileData": {"fileUri": "gs://x"}}
        answer = {"functionResponse": {"id": "c9", "name": "x", "response": {"output": "o"}, "parts": [named]}}
        call: Line = {"id": "c9", "name": "x", "args": {}, "status": "success", "result": [named, answer]}
        other = {"functionResponse": {"id": "none", "name": "x", "response": {"output": "o"}}}
        lines: list[Line] = [
            {"id": "m8", "type": "gemini", "timestamp": AT, "content": "", "toolCalls": [call]},
            {"id": "m9", "type": "user", "timestamp": AT, "content": [{"text": "before it"}, other]},
        ]
        with TELL["gemini"](tmp_path).open("a") as file:
            for line in lines:
                file.write(f"{json.dumps(line)}\n")
        taken = took(tmp_path, "gemini")
        assert taken.left_out["a part of a message: fileData"] == 2
        assert "before it" in [one.content for one in whole(taken.session)]

    def test_text_files_of_results_in_opencode(self, tmp_path: Path) -> None:
        text = {"type": "file", "mime": "text/plain", "url": "data:text/plain;base64,aGVsbG8="}
        named = {"type": "file", "mime": "text/plain", "url": "file:///a.txt"}
        state: Line = {"status": "completed", "input": {}, "output": "o", "attachments": [text, named]}
        with closing(sqlite3.connect(TELL["opencode"](tmp_path))) as database, database:
            reply = json.dumps({"role": "assistant", "providerID": "x", "modelID": "y"})
            part = json.dumps({"type": "tool", "tool": "t", "callID": "q", "state": state})
            database.execute("insert into message values ('z', ?, 9999999999999, ?)", (IDS["opencode"], reply))
            database.execute("insert into part values ('z', 'z', ?, ?)", (IDS["opencode"], part))
        taken = took(tmp_path, "opencode")
        assert any("hello" in text for text in results(taken))
        assert taken.left_out["a file that the transcript only names"] == 1


def test_id_in_two_projects_is_refused_with_the_files(shell: Shell) -> None:
    home = Path(shell.environment["HOME"])
    for project in ("-a", "-b"):
        file = claude_file(home, claude_lines(), project)
    done = shell.run("resume", IDS["claude"], "--save-only", model="")
    assert done.code == 2
    assert str(file) in done.err
    assert shell.run("resume", str(file), "--save-only", model="").code == 0


def test_agents_beside_their_parents_are_not_listed(shell: Shell) -> None:
    file = claude_file(Path(shell.environment["HOME"]), claude_lines())
    write(file.with_name("agent-a1.jsonl"), claude_lines())
    listed = json.loads(shell.run("resume", "--list", "--json", model="").out)
    assert [row["id"] for row in listed] == [IDS["claude"]]


def test_killed_import_leaves_no_session(shell: Shell) -> None:
    home = Path(shell.environment["HOME"])
    first = claude_lines()[0]
    rows = [{**first, "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None,
             "message": {"role": "user", "content": f"prompt {number}"}} for number in range(20_000)]  # fmt: skip
    claude_file(home, rows)
    child = shell.start("resume", IDS["claude"], "--save-only", model="")
    state = home / ".local/state/sagent/sessions"
    end = time.monotonic() + 60
    while time.monotonic() < end and not any(file.stat().st_size > 10_000 for file in state.rglob("root.jsonl")):
        assert child.poll() is None
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert shell.run("sessions", "list", "--ids", model="").out == ""
    claude_file(home, claude_lines())
    done = shell.run("resume", IDS["claude"], "--save-only", model="")
    assert shell.run("sessions", "list", "--ids", model="").out == done.out
    assert len([*state.rglob("root.jsonl")]) == 1, "what was left is gone"
