"""The Unix filter: what goes in, what comes out, and with which exit code."""

# Parts of recordings, JSON and SDK objects are read as what they must be; a wrong one fails the test.
# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false, reportIndexIssue=false, reportOptionalSubscript=false

import fcntl
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import chdir
from pathlib import Path

import pytest
from program import PROGRAM, Shell

from sagent.cli.flags import meant_command, plugins_of
from sagent.config.plugins import Installed
from sagent.plugin import Command
from sagent.session.contents import MessageEntry, SwitchedEntry
from sagent.session.log import read_log
from sagent.testing.server import Call, Cut, ErrorEvent, Fail, FakeProviderServer, Raw, Received, Stall, Turn, Usage
from tests.depth import deep, later
from tests.intact import faults
from tests.surroundings import PYTHON
from tests.waiting import wait_until

COMMANDS = Installed().named(Command)
READ = Turn(text="Looking.", calls=(Call("Read", {"file_path": "a.txt"}),))


def test_text_prints_only_the_answer(shell: Shell) -> None:
    shell.serve([READ, Turn(text="It says hello.", thinking="hm"), Turn(text="1"), Turn(text="2")])
    (shell.cwd / "a.txt").write_text("hello\n")
    done = shell.run("what is in a.txt?")
    assert (done.code, done.out) == (0, "It says hello.\n")
    (root,) = Path(shell.environment["HOME"]).rglob("root.jsonl")
    head = json.loads(root.read_text().splitlines()[-1])
    names = {line.split(" head ")[-1] for line in done.err.splitlines()}
    assert names & {head["id"], head["parent"]}, done.err  # the log may be closed behind it
    assert shell.run("--log-level", "error", "again").err == ""
    assert "head" not in shell.run("--ephemeral", "again").err


def test_json_is_one_object(shell: Shell) -> None:
    server = shell.serve(
        [READ, Turn(text="It says hello.", usage=Usage(input=10, cache_read=100, output=7, reasoning=2))]
    )
    (shell.cwd / "a.txt").write_text("hello\n")
    done = shell.run("--output-format", "json", "what is in a.txt?")
    found = done.json
    assert done.code == 0
    assert done.err == ""
    assert set(found) == {
        "result", "is_error", "error", "stop_reason", "session_id", "session_path", "head", "model", "num_turns",
        "duration_ms", "usage", "cost_usd", "permission_denials", "sandbox",
    }  # fmt: skip
    assert found["result"] == "It says hello."
    assert found["is_error"] is False
    assert found["error"] is None
    assert (found["stop_reason"], found["num_turns"]) == ("end", 2)
    assert found["model"] == "anthropic/claude-sonnet-4-6"
    billed = server.billed[0] + server.billed[1]
    assert found["usage"] == {
        "input": billed.input, "output": billed.output, "cache_read": 100,
        "cache_write": billed.cache_write + billed.cache_write_1h, "reasoning": 2,
    }  # fmt: skip
    cost = found["cost_usd"]
    assert isinstance(cost, dict)
    assert (
        cost["total"]
        == cost["executor"]
        == pytest.approx((billed.input * 3 + billed.cache_read * 0.3 + billed.output * 15) / 1e6)
    )
    assert cost["by_agent"] == {"root": cost["total"]}
    assert cost["unpriced"] == []
    assert faults(Path(str(found["session_path"])), str(found["head"])) == []


def test_stream_json_tells_all_as_lines(shell: Shell) -> None:
    shell.serve([READ, Turn(text="It says hello.")])
    (shell.cwd / "a.txt").write_text("hello\n")
    done = shell.run("--output-format", "stream-json", "what is in a.txt?")
    lines = done.lines
    kinds = [line["type"] for line in lines]
    assert kinds[0] == "session"
    assert kinds[-1] == "result"
    assert kinds.count("session") == kinds.count("result") == 1
    assert "".join(str(line["text"]) for line in lines if line["type"] == "text_delta") == "Looking.It says hello."
    started = next(line for line in lines if line["type"] == "tool_started")
    finished = next(line for line in lines if line["type"] == "tool_finished")
    assert (started["name"], started["arguments"]) == ("Read", {"file_path": "a.txt"})
    assert "hello" in str(finished["text"])
    assert lines[-1]["result"] == "It says hello."
    assert done.code == 0


@pytest.mark.costly
@pytest.mark.parametrize(
    ("argv", "stdin", "prompt"),
    [
        (["from the", "arguments"], "", "from the arguments"),
        ([], "from stdin\n", "from stdin"),
        (["explain this"], "x = 1\n", "explain this\n\n<stdin>\nx = 1\n</stdin>"),
        (["ünï©ode"], b"\xfe broken\xc3\xa4\xc3", "ünï©ode\n\n<stdin>\n\ufffd brokenä\ufffd\n</stdin>"),
        (["a"], "größe".encode("utf-16"), "a\n\n<stdin>\ngröße\n</stdin>"),
        (["a"], "plain words".encode("utf-16-le"), "a\n\n<stdin>\nplain words\n</stdin>"),
        (["a"], b"one\0two\0", "a\n\n<stdin>\none\0two\0\n</stdin>"),
        (["a"], "Привет, мир".encode("koi8-r"), "a\n\n<stdin>\nПривет, мир\n</stdin>"),
        (["--", "models"], "", "models"),
    ],
)
def test_prompt_by_argument_stdin_or_both(shell: Shell, argv: list[str], stdin: str | bytes, prompt: str) -> None:
    server = shell.serve([Turn(text="ok")])
    assert shell.run(*argv, stdin=stdin).code == 0
    messages = server.requests[0].json["messages"]
    assert isinstance(messages, list)
    assert "".join(part["text"] for part in messages[0]["content"] or ()) == prompt


@later
def test_piped_binary_is_warned_about(shell: Shell) -> None:
    shell.serve([Turn(text="ok")] * 2)
    assert "not UTF-8 text" in shell.run("what is this?", stdin=b"PK\x03\x04\x14\xfe\xff").err
    assert "not UTF-8 text" not in shell.run("what is this?", stdin="grüße \ufffd").err


@later
def test_unwritten_pipe_does_not_hang(shell: Shell) -> None:
    shell.serve([Turn(text="ok")])
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [*PROGRAM, "--model", "claude-sonnet-4-6", "hello"],
            cwd=shell.cwd, env=shell.environment, stdin=reading, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(reading)
        os.close(writing)
    assert (done.returncode, done.stdout) == (0, b"ok\n")
    assert b"no input on stdin" in done.stderr


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        ([], ["prompt"]),
        (["  "], ["prompt"]),
        (["--modle", "x", "hi"], ["--modle", "--model"]),
        (["--permission-mode", "everything", "hi"], ["everything", "plan", "ask", "edit", "full"]),
        (["--output-format", "yaml", "hi"], ["yaml", "json"]),
        (["--tools", "Raed", "hi"], ["Raed", "Read"]),
        (["--effort", "hihg", "hi"], ["hihg", "high"]),
        (["--max-budget-usd", "lots", "hi"], ["lots"]),
        (["--max-turns", "0", "hi"], ["0"]),
        (["--provider", "anthropik", "hi"], ["anthropik", "anthropic"]),
        (["--allow-providers", "openai", "hi"], ["anthropic", "openai"]),
        (["--session", "/dev/null/x", "--ephemeral", "hi"], ["--session", "--ephemeral"]),
        (["--cwd", "/no/such/place", "hi"], ["/no/such/place"]),
        (["--continue", "hi"], ["no session"]),
    ],
)
def test_bad_usage_exits_2_and_names_valid(shell: Shell, argv: list[str], names: list[str]) -> None:
    server = shell.serve([Turn(text="ok")])
    done = shell.run(*argv, model="claude-sonnet-4-6")
    assert done.code == 2
    assert done.out == ""
    for name in names:
        assert name in done.err
    assert "Traceback" not in done.err
    assert server.requests == []


def test_usage_errors_are_json_too(shell: Shell) -> None:
    shell.serve([])
    done = shell.run("--output-format", "json", "--tools", "Raed", "hi")
    assert done.code == 2
    assert done.json["is_error"] is True
    assert done.json["error"]["kind"] == "usage"


def test_no_key_names_the_variable(shell: Shell) -> None:
    done = shell.run("hi", model="anthropic/claude-sonnet-4-6")
    assert done.code == 2
    assert "ANTHROPIC_API_KEY" in done.err
    done = shell.run("hi", model="")
    assert done.code == 2
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "Ollama", "sagent demo"):
        assert name in done.err


def test_first_provider_with_a_key_is_used(shell: Shell) -> None:
    server = shell.serve([Turn(text="ok")])
    del shell.environment["ANTHROPIC_API_KEY"]
    shell.environment |= {"MOONSHOT_API_KEY": "k", "MOONSHOT_BASE_URL": server.url + "/v1"}
    done = shell.run("--output-format", "json", "hi", model="")
    assert done.code == 0
    assert str(done.json["model"]).startswith("moonshot/kimi")


@pytest.mark.costly
@pytest.mark.parametrize(
    ("argv", "model"),
    [
        (["--provider", "openai-compatible", "--base-url", "{url}", "--model", "a/b:7b"], "openai-compatible/a/b:7b"),
        (["--base-url", "{url}/v1", "--model", "some-model"], "openai-compatible/some-model"),
        (["--base-url", "{url}", "--model", "claude-test"], "anthropic/claude-test"),
        (["--base-url", "{url}/v1"], "openai-compatible/fake-model"),
        (["--model", "openai/gpt-unheard-of", "--base-url", "{url}/v1"], "openai/gpt-unheard-of"),
    ],
)  # fmt: skip
def test_any_server_and_model_from_shell(shell: Shell, argv: list[str], model: str) -> None:
    server = shell.serve([Turn(text="ok")], require_key=False)
    shell.environment |= {"OPENAI_API_KEY": "k"}
    done = shell.run(*(word.format(url=server.url) for word in argv), "--output-format", "json", "hi", model="")
    assert (done.code, done.err) == (0, "")
    assert done.json["model"] == model
    assert done.json["result"] == "ok"


@pytest.mark.costly
@pytest.mark.parametrize(
    ("step", "kind", "words"),
    [
        (Fail(401), "auth", ["anthropic", "401"]),
        (Fail(403), "permission", ["anthropic", "403"]),
        (Fail(404), "not_found", ["claude-sonnet-4-6", "404"]),
        (Fail(400, message="prompt is too long: 300000 tokens > 200000 maximum"), "context_overflow", ["too long"]),
        (Raw(502, body=b"<html><title>Bad gateway</title></html>"), "server", ["502", "Bad gateway"]),
        (Cut(Turn(text="Half of"), after_events=4), "cut", ["anthropic"]),
        (Cut(Turn(text="Half of"), after_events=4, how="clean"), "cut", ["anthropic"]),
        (ErrorEvent(Turn(text="Half of"), after_events=4), "overloaded", ["Overloaded"]),
        (Raw(200, (("content-type", "text/event-stream"),), b"data: {broken\n\n"), "protocol", ["anthropic"]),
    ],
)
def test_provider_errors_are_typed_exit_1(shell: Shell, step: Turn, kind: str, words: list[str]) -> None:
    (shell.cwd / "config.toml").write_text("max_retries = 0\n")
    shell.environment["SAGENT_CONFIG"] = str(shell.cwd / "config.toml")
    shell.serve([step])
    done = shell.run("--output-format", "json", "hi")
    assert done.code == 1
    assert done.json["is_error"] is True
    error = done.json["error"]
    assert isinstance(error, dict)
    assert error["kind"] == kind
    for word in words:
        assert word in error["message"]
    assert "Traceback" not in done.err


def test_transient_errors_are_retried_visibly(shell: Shell) -> None:
    server = shell.serve(
        [Fail(529, headers={"retry-after": "0"}), Cut(Turn(text="Half of it"), 5), Turn(text="Whole.")]
    )
    done = shell.run("--output-format", "stream-json", "hi")
    retries = [line for line in done.lines if line["type"] == "retrying"]
    assert [line["kind"] for line in retries] == ["overloaded", "cut"]
    assert retries[1]["discarded"]
    assert done.lines[-1]["result"] == "Whole."
    assert len({request.body for request in server.requests}) == 1, "a retry sends the same bytes"


def test_status_401_is_never_retried(shell: Shell) -> None:
    server = shell.serve([Fail(401)] * 3)
    assert shell.run("hi").code == 1
    assert len(server.requests) == 1


@later
def test_silent_stream_is_cut_and_retried(shell: Shell) -> None:
    shell.environment |= {"SAGENT_STALL_SECONDS": "0.3", "SAGENT_REASONING_STALL_SECONDS": "0.3"}
    server = shell.serve([Stall(Turn(text="Never"), after_events=3), Turn(text="Awake.")])
    done = shell.run("hi")
    assert (done.code, done.out) == (0, "Awake.\n")
    assert len(server.requests) == 2


def test_limits_exit_4(shell: Shell) -> None:
    (shell.cwd / "a.txt").write_text("hello\n")
    shell.serve([READ] * 9)
    for flag, stop in (("--max-turns", "max_turns"), ("--max-tool-call-rounds", "max_tool_call_rounds")):
        done = shell.run(flag, "2", "--output-format", "json", "go")
        assert done.code == 4
        assert (done.json["stop_reason"], done.json["is_error"]) == (stop, True)
        assert flag in done.json["error"]["message"]


@later
@pytest.mark.costly
@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--max-response-tokens", "40"), "its output limit of 40 tokens: raise max_response_tokens"),
        (
            ("--max-budget-usd", "0.05"),
            "tokens, as the budget or the window left no room for more: raise the budget (max_budget_usd)",
        ),
        ((), "its output limit of 32,000 tokens: raise max_response_tokens"),
        (("--model", "anthropic/claude-3-haiku-20240307"), "the most that anthropic/claude-3-haiku-20240307 writes"),
    ],
)
def test_output_limit_exits_5_and_names_it(shell: Shell, flags: tuple[str, ...], told: str) -> None:
    shell.serve([Turn(text="It begins, and", stop="max_tokens"), Turn(text=" goes on.")])
    done = shell.run(*flags, "--output-format", "json", "go")
    assert (done.code, done.json["result"], done.json["stop_reason"]) == (5, "It begins, and", "max_tokens")
    assert done.json["error"]["kind"] == "max_tokens"
    assert told in done.json["error"]["message"]
    assert "ask it to" in done.json["error"]["message"]
    assert shell.run("--continue", "go on", model="").out == " goes on.\n"
    assert "5 reply cut at its output limit" in shell.run("--help").out


def test_budget_exits_3_and_is_kept(shell: Shell) -> None:
    (shell.cwd / "a.txt").write_text("hello\n")
    server = shell.serve([READ] * 99, bill="worst")
    done = shell.run("--max-budget-usd", "0.30", "--output-format", "json", "go")
    assert done.code == 3
    assert done.json["error"]["kind"] == "budget"
    assert "0.30" in done.json["error"]["message"]
    billed = sum((usage.input * 3 + usage.output * 15) / 1e6 for usage in server.billed)
    assert 0 < billed <= 0.30
    assert done.json["cost_usd"]["total"] == pytest.approx(billed)


def test_denied_calls_list_what_allows_them(shell: Shell) -> None:
    shell.serve([Turn(calls=(Call("Bash", {"command": "touch made"}),)), Turn(text="I may not.")])
    done = shell.run("--sandbox", "off", "--output-format", "json", "go")
    assert done.code == 0
    (denial,) = done.json["permission_denials"]
    assert denial["tool"] == "Bash"
    assert "--permission-mode full" in denial["reason"]
    assert not (shell.cwd / "made").exists()
    shell.serve([Turn(calls=(Call("Bash", {"command": "touch made"}),)), Turn(text="Done.")])
    assert shell.run("--permission-mode", "full", "go").code == 0
    assert (shell.cwd / "made").exists()


@later
@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_stdin_messages_in_other_encodings(shell: Shell, codec: str, end: str) -> None:
    server = shell.serve([Turn(text="one"), Turn(text="two"), Turn(text="three")])
    lines = ['{"prompt": "größe"}', "", '"日a本"', '{"content": "Ä"}', ""]
    done = shell.run("--input-format", "stream-json", stdin=end.join(lines).encode(codec))
    assert done.code == 0
    sent = str(server.requests[-1].json["messages"])
    assert [text for text in ("größe", "日a本", "Ä") if f"'{text}'" in sent] == ["größe", "日a本", "Ä"]


def test_stdin_messages_answered_in_turn(shell: Shell) -> None:
    server = shell.serve([Turn(text="one"), Turn(text="two"), Turn(text="three")])
    lines = [
        '{"prompt": "a"}',
        '{"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "b"}]}}',
    ]
    done = shell.run(
        "--input-format", "stream-json", "--output-format", "stream-json", stdin="\n".join([*lines, '"c"'])
    )
    assert done.code == 0
    assert [line["result"] for line in done.lines if line["type"] == "result"] == ["one", "two", "three"]
    assert len(server.requests[2].json["messages"]) == 5
    done = shell.run("--input-format", "stream-json", stdin="not json\n")
    assert done.code == 2
    assert "line 1" in done.err


def test_continue_sends_the_same_bytes(shell: Shell) -> None:
    (shell.cwd / "a.txt").write_text("hello\n")
    call = Call("Grep", {"pattern": "h", "path": ".", "output_mode": "content", "ignore_case": True})
    server = shell.serve([Turn(text="So.", thinking="I think.", calls=(call,)), Turn(text="one"), Turn(text="two")])
    first = shell.run("--output-format", "json", "a").json
    (shell.cwd / "AGENTS.md").write_text("Changed since.")
    second = shell.run("--output-format", "json", "--continue", "b").json
    assert second["session_id"] == first["session_id"]
    assert second["result"] == "two"
    before, after = server.requests[1].body, server.requests[2].body
    before = before.replace(b',"cache_control":{"type":"ephemeral"}', b"").split(b'],"model"')[0]
    after = after.replace(b',"cache_control":{"type":"ephemeral"}', b"")
    assert after.startswith(before), "the provider's cache must survive a resume"
    assert second["cost_usd"]["total"] > first["cost_usd"]["total"]


@later
def test_resume_with_other_model_is_logged(shell: Shell) -> None:
    shell.serve([Turn(text="one"), Turn(text="two"), Turn(text="three"), Turn(text="four")])
    path = shell.cwd / "session"
    models = ("anthropic/claude-sonnet-4-6", "anthropic/claude-haiku-4-5", "", "anthropic/claude-sonnet-4-6")
    for prompt, model in zip("abcd", models, strict=True):
        assert shell.run("--session", str(path), prompt, model=model).code == 0
    found = [entry.content for entry in read_log(path / "root.jsonl")]
    steps = [
        each.model if isinstance(each, SwitchedEntry) else each.message.text
        for each in found
        if isinstance(each, SwitchedEntry | MessageEntry)
    ]
    assert steps == [
        *("a", "one"),
        *("anthropic/claude-haiku-4-5", "b", "two"),
        *("c", "three"),  # nothing was asked for: it goes on with the model it had
        *("anthropic/claude-sonnet-4-6", "d", "four"),
    ]
    assert faults(path) == []


@later
def test_own_server_conversation_stays_there(shell: Shell) -> None:
    public = shell.serve([Turn(text="public")])
    shell.environment["OPENAI_API_KEY"] = "k"
    with FakeProviderServer([Turn(text="mine"), Turn(text="again"), Turn(text="once more")]).in_thread() as mine:
        at = ("--base-url", f"{mine.url}/v1", "--model", "openai/gpt-5.5")
        assert shell.run(*at, "a secret", model="").out == "mine\n"
        refused = shell.run("--continue", "go on", model="")
        assert refused.code == 2 and not public.requests
        config = Path(shell.environment["HOME"]) / ".config/sagent/config.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text('model = "anthropic/claude-sonnet-4-6"\n')  # which nobody has said now
        assert shell.run("--continue", "go on", model="").code == 2 and not public.requests
        config.unlink()
        assert f"last used openai at {mine.url.removeprefix('http://')}/v1" in refused.err
        assert "--base-url" in refused.err and "--model" in refused.err
        assert shell.run("--continue", *at, "go on", model="").out == "again\n"
        shell.environment["OPENAI_BASE_URL"] = f"{mine.url}/v1"
        done = shell.run("--continue", "go on", model="")
        assert done.out == "once more\n", done.err
        del shell.environment["OPENAI_BASE_URL"]
    assert shell.run("--continue", "go on", model="anthropic/claude-sonnet-4-6").out == "public\n"
    assert "secret" in json.dumps(public.requests[0].json)


@later
def test_killed_first_run_has_logged_its_server(shell: Shell) -> None:
    public = shell.serve([Turn(text="public")])
    shell.environment["OPENAI_API_KEY"] = "k"
    with FakeProviderServer([Turn(text="slow", delay=30.0)]).in_thread() as mine:
        child = shell.start("--base-url", f"{mine.url}/v1", "--model", "openai/gpt-5.5", "a secret")
        wait_until(lambda: mine.requests, "the first request", child=child)
        child.kill()
        child.wait()
    refused = shell.run("--continue", "go on", model="")
    assert refused.code == 2 and "last used openai at " in refused.err and not public.requests


@later
def test_session_has_one_writer(shell: Shell) -> None:
    server = shell.serve([Turn(text="slow", delay=30.0), Turn(text="quick")])
    path = str(shell.cwd / "session")
    first = shell.start("--session", path, "a")
    wait_until(lambda: server.requests, "the first request", child=first)
    done = shell.run("--session", path, "b")
    assert done.code == 1
    assert str(first.pid) in done.err


@pytest.mark.plugin("audit")
def test_run_that_cannot_begin_leaves_no_session(shell: Shell) -> None:
    assert shell.run("hi").code == 2
    assert "No sessions" in shell.run("sessions", "list", "--all", model="").out


def test_ephemeral_leaves_nothing(shell: Shell) -> None:
    shell.environment["HOME"] = str(shell.cwd.parent / "another")  # where no run was before
    shell.serve([Turn(text="ok")])
    done = shell.run("--ephemeral", "--output-format", "json", "hi")
    assert done.json["session_path"] == ""
    assert not list(Path(shell.environment["HOME"]).rglob("*"))


STATES: dict[str, Callable[[Path], object]] = {
    "file": Path.touch,
    "FIFO": os.mkfifo,
    "link": lambda path: path.symlink_to("gone"),
    "circle": lambda path: path.symlink_to(path.name),
    "n" * 300: lambda path: None,
}


@later
@pytest.mark.costly
@pytest.mark.parametrize("variable", ["SAGENT_STATE_DIR", "XDG_STATE_HOME"])
@pytest.mark.parametrize("name", STATES)
def test_unusable_state_directory_is_said(name: str, variable: str, shell: Shell, tmp_path: Path) -> None:
    shell.serve([Turn(text="ok")])
    STATES[name](tmp_path / name)
    shell.environment[variable] = str(tmp_path / name)
    done, listed, asked = shell.run("hi"), shell.run("sessions", "list", model=""), shell.run("--continue", "hi")
    assert (done.code, done.out, listed.code, asked.code) == (0, "ok\n", 2, 2)
    for each in (done, listed, asked):
        assert "SAGENT_STATE_DIR" in each.err
        assert str(tmp_path / name) in each.err
        assert each.err.count("\n") == 1
    assert not list(Path(shell.environment["HOME"]).rglob("sessions"))


@later
@pytest.mark.parametrize(
    ("variable", "value", "code"),
    [
        ("XDG_STATE_HOME", "relative/state", 0),
        ("XDG_CONFIG_HOME", "~/config", 0),
        ("XDG_STATE_HOME", "/tmp/state\n", 0),
        ("XDG_CONFIG_HOME", "/dev/null", 0),
        ("SAGENT_STATE_DIR", "/tmp/state\n", 2),
        ("HOME", "~/home", 2),
        ("HOME", "home", 2),
    ],
)
def test_variable_that_is_no_path_is_named(variable: str, value: str, code: int, shell: Shell) -> None:
    shell.serve([Turn(text="ok")])
    shell.environment[variable] = value
    done = shell.run("hi")
    assert done.code == code
    assert done.err.startswith(f"sagent: {variable}")
    assert not list(shell.cwd.iterdir())


def test_corrupt_log_is_refused(shell: Shell) -> None:
    shell.serve([Turn(text="one"), Turn(text="two")])
    path = Path(str(shell.run("--output-format", "json", "a").json["session_path"]))
    lines = (path / "root.jsonl").read_bytes().splitlines(keepends=True)
    (path / "root.jsonl").write_bytes(b"".join([*lines[:3], lines[3].replace(b"e", b"x", 1), *lines[4:]]))
    done = shell.run("--continue", "b")
    assert done.code == 1
    for word in ("root.jsonl", "line 4", "sagent sessions repair"):
        assert word in done.err


@pytest.mark.costly
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_stop_tools_and_keep_log_valid(
    shell: Shell, number: int, code: int, processes: Callable[[str], list[int]]
) -> None:
    marker = f"30.{os.getpid()}{number}"
    calls = (Call("Bash", {"command": f"sleep {marker} & sleep {marker}"}),)
    shell.serve([Turn(text="Working.", calls=calls), Turn(text="Going on.")])
    child = shell.start("--permission-mode", "full", "--output-format", "json", "go")
    wait_until(lambda: processes(f"sleep\0{marker}"), "the command runs", child=child)
    child.send_signal(number)
    out, err = child.communicate(timeout=60)
    assert child.returncode == code, err
    found = json.loads(out)
    assert (found["is_error"], found["error"]["kind"], found["result"]) == (True, "interrupted", "Working.")
    assert not processes(f"sleep\0{marker}")
    assert faults(Path(found["session_path"]), found["head"]) == []
    assert shell.run("--continue", "go on").out == "Going on.\n"


def unread(pipe: int) -> int:
    """Bytes in a pipe."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]


@pytest.mark.costly
@pytest.mark.parametrize("flags", [[], ["--input-format", "stream-json"]])
def test_signal_ends_a_wait_for_input(shell: Shell, flags: list[str]) -> None:
    shell.serve([])
    reading, writing = os.pipe()
    child = shell.start(*flags, stdin=reading)
    os.write(writing, b" ")
    while unread(reading):
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    os.close(reading)
    os.close(writing)
    assert child.returncode == 130, err
    assert b"Traceback" not in err


@later
@pytest.mark.costly
@pytest.mark.parametrize(("flags", "sent"), [([], b"tell me"), (["--input-format", "stream-json"], b'"tell me"\n')])
def test_non_blocking_stdin_is_waited_for(shell: Shell, flags: list[str], sent: bytes) -> None:
    shell.serve([Turn(text="Told.")])
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    child = shell.start(*flags, stdin=reading)
    os.write(writing, sent[:3])
    while unread(reading) and child.poll() is None:
        time.sleep(0.02)
    os.write(writing, sent[3:])
    os.close(reading)
    os.close(writing)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (0, b"Told.\n"), err


@pytest.mark.costly
@pytest.mark.parametrize("command", ["/advisor rate good a b c", "/advisor a/b,role=~no-user/x"])
def test_impossible_command_is_wrong_usage(shell: Shell, command: str) -> None:
    shell.serve([])
    done = shell.run(stdin=command)
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert done.err.startswith("sagent: ")


@pytest.mark.parametrize(
    "argv",
    [
        pytest.param(
            ("team", "run", "--preset", "code_review", "--task", "~no-user/x"), marks=pytest.mark.plugin("teams")
        ),
        pytest.param(("mcp", "add", "x", "http://x", "--config", "~no-user/c.yaml"), marks=pytest.mark.plugin("mcp")),
        pytest.param(("plugin", "add", "~no-user/x"), marks=pytest.mark.plugin("authoring", "imports")),
    ],
)
def test_unknown_user_path_is_named(shell: Shell, argv: tuple[str, ...]) -> None:
    done = shell.run(*argv, model="")
    assert done.code in (1, 2)
    assert "no-user" in done.err and "Traceback" not in done.err


def test_signal_ends_wait_for_the_schema(shell: Shell) -> None:
    shell.serve([])
    reading, writing = os.pipe()
    child = shell.start("--output-schema", "/dev/stdin", "tell", stdin=reading)
    os.close(reading)
    os.write(writing, b" ")
    unread = lambda: struct.unpack("i", fcntl.ioctl(writing, termios.FIONREAD, b"    "))[0]  # noqa: E731 -- once
    wait_until(lambda: not unread(), "the read of the schema", child=child)
    time.sleep(0.1)  # it is in the next read
    child.send_signal(signal.SIGINT)
    try:
        _, err = child.communicate(timeout=60)
    finally:
        os.close(writing)
    assert child.returncode == 130, err


NAMED = {
    "--config": ("--config", "fifo", "tell"),
    "role": ("--advisor", "x=anthropic/claude-opus-4-6,role=fifo", "tell"),
    "schema": ("--output-schema", "fifo", "tell"),
    "task": ("team", "run", "--preset", "code_review", "--task", "fifo"),
    "team": ("team", "run", "fifo", "tell"),
    "sweep": ("lab", "sweep", "fifo"),
    "trace": ("trace", "fifo"),
}


@pytest.mark.parametrize("words", NAMED.values(), ids=NAMED)
def test_named_fifo_is_refused(shell: Shell, words: tuple[str, ...]) -> None:
    os.mkfifo(shell.cwd / "fifo")
    done = shell.run(*words, model="")
    assert done.code == 2, done.err
    assert "a FIFO" in done.err and "fifo" in done.err
    assert done.err.count("\n") == 1 and "b'" not in done.err


@pytest.mark.parametrize("path", ["new/below/x", "new/" + "x" * 300])
def test_unbegun_session_leaves_nothing(shell: Shell, path: str) -> None:
    done = shell.run("--session", path, "tell", model="anthropic/claude-haiku-4-5")  # without a key
    assert done.code == 2, done.err
    assert not [*shell.cwd.iterdir()]


DEEP = "d=$(printf 'd%.0s' {1..200}); for i in {1..25}; do mkdir $d && cd $d || exit 9; done 2>&1; exec \"$@\""


@later
@pytest.mark.costly
@pytest.mark.needs("bash")
@pytest.mark.parametrize("words", [("tell",), ("sessions", "list")])
def test_too_long_directory_is_said(shell: Shell, words: tuple[str, ...]) -> None:
    most = f"{os.pathconf('/', 'PC_PATH_MAX') - 1:,} bytes".encode()
    child = shell.start("-c", DEEP, "bash", *PROGRAM, *words, model="", program=["bash"])
    _, err = child.communicate(timeout=60)
    assert child.returncode == 2, err
    assert most in err and len(err) < 300
    child = shell.start(
        "-c", DEEP.replace("mkdir $d && ", ""), "bash", *PROGRAM, "config", "--cwd", "/", model="", program=["bash"]
    )
    assert child.wait(60) in (0, 2)
    assert most not in child.communicate()[1]


@later
@pytest.mark.parametrize("kind", ["socket", "device", "directory"])
def test_special_config_is_refused(shell: Shell, kind: str) -> None:
    path = "/dev/full" if kind == "device" else str(shell.cwd / "s")
    if kind == "directory":
        Path(path).mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server, chdir(shell.cwd):
            server.bind("s")
    shell.environment["SAGENT_CONFIG"] = path
    done = shell.run("config", "show", model="")
    assert done.code == 2
    assert path in done.err and kind in done.err


@pytest.mark.parametrize("path", ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "/dev/null"])
def test_config_through_descriptor(shell: Shell, path: str) -> None:
    shell.environment["SAGENT_CONFIG"] = path
    done = shell.run("config", "show", model="", stdin="model = 'anthropic/claude-haiku-4-5'")
    assert done.code == 0, done.err
    assert ("claude-haiku-4-5" in done.out) is (path != "/dev/null")


@later
def test_signal_in_answer_keeps_its_text(shell: Shell) -> None:
    server = shell.serve([Stall(Turn(text="Once upon a time", pieces=4), after_events=6)])
    child = shell.start("--output-format", "json", "tell")
    wait_until(lambda: server.requests, "the first request", child=child)
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "Once upon a time".startswith(json.loads(out)["result"])
    assert json.loads(out)["result"]


@pytest.mark.needs("linux")
def test_kill_9_leaves_no_process_and_all_told(shell: Shell, processes: Callable[[str], list[int]]) -> None:
    marker = f"30.9{os.getpid()}"
    (shell.cwd / "a.txt").write_text("hello\n")
    calls = (Call("Bash", {"command": f"(setsid sleep {marker} &) ; sleep {marker}"}),)
    shell.serve([READ, Turn(calls=calls), Turn(text="Going on.")])
    child = shell.start("--permission-mode", "full", "--output-format", "stream-json", "go")
    assert child.stdout is not None
    seen: list[dict[str, object]] = []
    while len(processes(f"sleep\0{marker}")) < 2:
        assert child.poll() is None
        time.sleep(0.02)
    child.kill()
    seen = [json.loads(line) for line in child.stdout.read().splitlines()]
    child.wait()
    wait_until(lambda: not processes(f"sleep\0{marker}"), "the end of its commands")
    read = next(line for line in seen if line["type"] == "tool_finished")
    assert faults(Path(str(seen[0]["session_path"]))) == []
    server = shell.server
    assert server is not None
    assert shell.run("--continue", "go on").out == "Going on.\n"
    last = json.dumps(server.requests[-1].json["messages"])
    assert json.dumps(str(read["text"]))[1:-1] in last
    assert "interrupted" in last


@later
def test_closed_reader_ends_it_quietly(shell: Shell) -> None:
    shell.serve([Turn(text="x" * 2_000_000, pieces=1000)])
    child = shell.start("--output-format", "stream-json", "go")
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    assert child.stderr is not None
    err = child.stderr.read()
    assert child.wait(timeout=60) == 128 + signal.SIGPIPE
    assert b"Traceback" not in err


ALONE = """
import fcntl, json, socket, struct, subprocess, sys
plug = socket.socket()
flags = struct.pack("16sh", b"lo", 0x41)
fcntl.ioctl(plug, 0x8914, flags)  # SIOCSIFFLAGS: loopback up, in a network namespace that has nothing else
server = subprocess.Popen([sys.executable, "-m", "sagent.testing.server"], stdout=subprocess.PIPE, text=True)
url = server.stdout.readline().strip()
asked = []

def hook(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        asked.append([event, str(arguments[1] if event == "socket.connect" else arguments[0])])

import os
os.environ |= {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "k"}
sys.argv = ["sagent", "--model", "claude-sonnet-4-6", "--max-budget-usd", "1", "hello"]
sys.addaudithook(hook)
from sagent.bin.cli import main
code = main()
server.terminate()
print(json.dumps([code, url, asked]))
"""


@pytest.mark.needs("netns")
def test_only_the_provider_is_contacted(shell: Shell) -> None:
    done = subprocess.run(
        ["unshare", "-rn", sys.executable, "-c", ALONE],
        cwd=shell.cwd, env=shell.environment, capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    answer, report = done.stdout.decode().splitlines()
    code, url, asked = json.loads(report)
    assert (code, answer) == (0, "You are talking to a fake provider.")
    port = url.rpartition(":")[2]
    connects = [where for event, where in asked if event == "socket.connect"]
    assert connects == [f"('127.0.0.1', {port})"]
    assert {where for event, where in asked if event != "socket.connect"} <= {"127.0.0.1"}


def test_files_are_private(shell: Shell) -> None:
    shell.serve([Turn(text="ok")])
    path = Path(str(shell.run("--output-format", "json", "hi").json["session_path"]))
    assert (path / "root.jsonl").stat().st_mode & 0o777 == 0o600
    assert path.stat().st_mode & 0o777 == 0o700


@later
@pytest.mark.costly
@pytest.mark.plugin("audit")
@pytest.mark.parametrize(
    ("redirect", "code"),
    [(">/dev/full", 1), (">&-", 1), ("2>&-", 0), ("<&-", 0), (">&- 2>&- <&-", 1)],
)
def test_standard_streams_full_or_closed(shell: Shell, redirect: str, code: int) -> None:
    shell.serve([Turn(text="ok")], repeat_last=True)
    runs = [f"--output-format {output} --model claude-sonnet-4-6 hi" for output in ("text", "json", "stream-json")]
    failing = "sessions show --json --of nobody"
    commands = (*runs, "--help", "--version", "sessions show", failing, "models", "plugin list")
    for argv in commands[:: deep(1, 1)]:
        done = subprocess.run(
            ["sh", "-c", f'exec "$@" {argv} {redirect}', "sh", *PROGRAM],
            cwd=shell.cwd, env=shell.environment, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        wanted = 2 if argv == failing else code
        assert done.returncode == wanted, (argv, done.stderr)
        assert b"Traceback" not in done.stderr and b"xception" not in done.stderr, (argv, done.stderr)
        if argv in runs and code and "2>" not in redirect:
            assert b"the output could not be written" in done.stderr, argv


@later
@pytest.mark.costly
@pytest.mark.parametrize("flags", [["--max-turns", "x"], ["--session", "{held}"]])
def test_every_failure_is_an_object_in_json(shell: Shell, flags: list[str]) -> None:
    server = shell.serve([Turn(text="slow", delay=30.0)])
    held = str(shell.cwd / "held")
    child = shell.start("--session", held, "a")
    wait_until(lambda: server.requests, "the first request", child=child)
    done = shell.run("--output-format", "json", *(word.format(held=held) for word in flags), "hi")
    assert done.code in (1, 2)
    assert done.json["is_error"] is True


@later
def test_json_tells_warnings_on_stderr(shell: Shell, tmp_path: Path) -> None:
    shell.serve([Turn(text="ok")])
    (tmp_path / "file").write_text("")
    shell.environment["SAGENT_STATE_DIR"] = str(tmp_path / "file" / "state")
    done = shell.run("--output-format", "json", "hi")
    assert done.json["result"] == "ok"
    assert "cannot be saved" in done.err


def test_unknown_provider_suggests_nearest(shell: Shell) -> None:
    shell.serve([])
    for argv in (["--model", "anthropc/claude"], ["--allow-providers", "anthropc"]):
        done = shell.run(*argv, "hi", model="" if "--model" in argv else "claude-x")
        assert done.code == 2
        assert "Did you mean anthropic" in done.err


@pytest.mark.costly
@pytest.mark.parametrize("flag", ["-p", "--print"])
def test_print_flag_is_a_headless_prompt(flag: str, shell: Shell) -> None:
    shell.serve([Turn(text="fine")] * 2)
    assert shell.run(flag, "hi").out == "fine\n"
    assert shell.run(flag, "--output-format", "json", stdin="hi").json["result"] == "fine"


def test_commands_get_only_permitted_keys(shell: Shell) -> None:
    config = Path(shell.environment["HOME"], ".config/sagent/config.toml")
    config.parent.mkdir(parents=True)
    config.write_text(
        '[env]\npass = ["GH_TOKEN"]\n[providers.acme]\nbase_url = "http://127.0.0.1:9/v1"\napi_key = "${CORP}"\n'
    )
    show = "echo ${GH_TOKEN-none} ${CORP-none} ${ANTHROPIC_API_KEY-none} ${AWS_SECRET_ACCESS_KEY-none}"
    server = shell.serve([Turn(calls=(Call("Bash", {"command": show}),)), Turn(text="Done.")])
    shell.environment |= {"GH_TOKEN": "let-through", "CORP": "corp-login", "AWS_SECRET_ACCESS_KEY": "x" * 20}
    assert shell.run("--permission-mode", "full", "go").code == 0
    assert "let-through none none none" in json.dumps(server.requests[1].json)


@pytest.mark.costly
@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_session_of_other_project_is_not_read(shell: Shell, sandbox: str) -> None:
    shell.serve([Turn(text="The word is abracadabra.")])
    assert shell.run("a secret").code == 0
    (other,) = Path(shell.environment["HOME"]).rglob("root.jsonl")
    shell.cwd = shell.cwd.parent / "elsewhere"
    shell.cwd.mkdir()
    skill = shell.cwd.parent / "home/.config/sagent/skills/s/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: s\ndescription: d\n---\nhocus pocus\n")

    def script(request: Received) -> Turn:
        text = "".join(map(str, request.json["messages"]))
        assert "abracadabra" not in text
        match len(request.json["messages"]):
            case 1:
                reads = (Call("Read", {"file_path": str(other)}), Call("Bash", {"command": f"cat {other}"}))
                search = Call("Grep", {"pattern": "abra", "path": shell.environment["HOME"], "output_mode": "content"})
                return Turn(calls=(*reads, search, Call("Bash", {"command": "seq 40000"})))
            case 3:
                (blob,) = set(re.findall(r"/\S+/blobs/[0-9a-f]{64}", text))
                reads = (
                    Call("Read", {"file_path": blob, "offset": 20001, "limit": 2}),
                    Call("Read", {"file_path": str(skill)}),
                )
                return Turn(calls=reads)
            case _:
                assert "20001" in text
                assert "hocus pocus" in text
                return Turn(text="done")

    shell.serve(script)
    done = shell.run("--allow", "Bash(seq:*)", "--sandbox", sandbox, "--output-format", "json", "go")
    assert done.json["result"] == "done", done.out
    refused = ["Read", "Bash"] if sandbox == "off" else ["Read"]  # else it runs, and finds nothing there
    assert [denial["tool"] for denial in done.json["permission_denials"]] == refused


@later
@pytest.mark.parametrize(
    ("words", "near"),
    [
        pytest.param("sesions list", "sagent sessions", marks=pytest.mark.plugin("audit")),
        ("help", "sagent --help"),
        ("auth", "sagent login"),
        ("upgrade", "sagent update"),
        ("auth status", "sagent login"),
    ],
)
def test_misspelled_command_is_not_billed(words: str, near: str, shell: Shell) -> None:
    server = shell.serve([Turn(text="sent")])
    done = shell.run(*words.split())
    assert (done.code, done.out, server.requests) == (2, "", [])
    assert near in done.err
    assert f"sagent -- {words}" in done.err
    assert shell.run("--", *words.split()).out == "sent\n"


@pytest.mark.parametrize(
    ("flags", "near"),
    [
        (("--dangerously-skip-permissions",), "--permission-mode full"),
        (("--allowedTools", "Read"), "--allow"),
        (("-m", "opus"), "--model"),
        (("--verbose",), "--log-level info"),
        (("-v",), "--version or --log-level info"),
        (("--effrot", "high"), "--effort"),
    ],
)
def test_foreign_flag_suggests_ours(flags: Sequence[str], near: str, shell: Shell) -> None:
    done = shell.run(*flags, "hello")
    assert (done.code, done.out) == (2, "")
    assert f"Did you mean {near}?" in done.err


@pytest.mark.parametrize(("argv", "near"), [("config shw", "show"), ("-p x --permission-mode edti", "edit")])
def test_nearly_right_word_is_suggested(shell: Shell, argv: str, near: str) -> None:
    done = shell.run(*argv.split(), model="")
    assert done.code == 2
    assert f"Did you mean {near}?" in done.err


@later
def test_endless_stdin_is_refused(shell: Shell) -> None:
    server = shell.serve([])
    argv = ["sh", "-c", f"yes | {PYTHON} -m sagent.bin.cli hello"]
    done = subprocess.run(
        argv, cwd=shell.cwd, env=shell.environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, server.requests) == (2, "", [])
    assert "More than 64 MB on stdin" in done.stderr


def test_misspelled_aliases_are_understood() -> None:
    assert meant_command(["logot"], COMMANDS).startswith("sagent doctor")
    assert meant_command(["verison"], COMMANDS) == "sagent --version"
    assert meant_command(["config", "acme"], COMMANDS).startswith("sagent config, whose name stands before")
    assert {meant_command([word], COMMANDS) for word in ("hepl", "hlep", "halp", "help")} == {"sagent --help"}
    assert meant_command(["logot", "page"], COMMANDS) == ""
    assert meant_command(["exec", "fix the test"], COMMANDS) == "sagent run"
    assert meant_command(["exec", "this"], COMMANDS) == ""
    others = ("cost", "stats", "jobs", "status", "list", "kill", "settings", "fork")
    assert all(meant_command([word], COMMANDS) for word in others)


@pytest.mark.parametrize("command", ["run", "config", "mcp", "login", "sessions", "update"])
def test_one_typing_error_is_understood(command: str) -> None:
    commands = plugins_of([]).named(Command)
    if command not in commands:
        pytest.skip("its plugin was deleted")
    letters = "abcdefghijklmnopqrstuvwxyz"
    places = range(len(command))
    lacking = {command[:at] + command[at + 1 :] for at in places}
    swapped = {command[:at] + command[at : at + 2][::-1] + command[at + 2 :] for at in places}
    replaced = {command[:at] + letter + command[at + 1 :] for at in places for letter in letters}
    added = {command[:at] + letter + command[at:] for at in (*places, len(command)) for letter in letters}
    for typed in (lacking | swapped | replaced | added) - {*commands}:
        assert meant_command([typed], commands), typed


def test_commands_of_other_programs_are_known() -> None:
    """First words of Claude Code, codex, Gemini CLI, opencode, aider, pi, goose, Kimi's and Grok's programs."""
    words = """
        agents auth auto-mode doctor install mcp plugin setup-token ultrareview update upgrade login logout config exec
        review app-server remote-control completion sandbox debug apply resume archive unarchive fork cloud features
        extensions skills hooks enable disable attach run providers models stats export import github pr session db
        serve web uninstall list remove worker clear code commit copy diff drop undo lint map tokens voice paste reset
        architect ask help add ls quit continue usage cost schedule logs jobs status info term acp worktree inspect
        trace configure project recipe bench keys templates embed whoami account billing check validate test tutorial"""
    plugins = plugins_of([])
    commands = plugins.named(Command)
    sent = [word for word in words.split() if word not in commands and not meant_command([word], commands)]
    assert [word for word in sent if not plugins.former_owner(word)] == []
    for some in ("resume 0a1b2c", "extensions install https://example.org/x", "skills list", "auth login"):
        assert meant_command(some.split(), commands)


def test_prompts_resembling_commands_are_sent() -> None:
    for prompt in (
        "verison 2",
        "hello",
        "fix it",
        "sesions list of all users",
        "why",
        "sessions?",
        "Explain",
        "describe this",
        "report bugs",
        "list files",
        "test main.py",
        "42",
        "sum numbers",
    ):
        assert meant_command(prompt.split(), COMMANDS) == ""
    assert meant_command(["sesions list"], COMMANDS) == ""  # quoted: one argument
    assert meant_command([], COMMANDS) == ""


@later
@pytest.mark.plugin("audit")
def test_resume_and_json_flags_work(shell: Shell) -> None:
    server = shell.serve([Turn(text="one"), Turn(text="two"), Turn(text="three")])
    first = shell.run("--json", "hi").json
    assert first["result"] == "one"
    for argv in (["-c", "more"], ["-p", "--resume", str(first["session_id"]), "more"]):
        assert shell.run("--json", *argv).json["session_id"] == first["session_id"]
    missing = shell.run("--json", "--resume", "nowhere", "more")
    assert missing.code == 2
    assert "no session 'nowhere'" in str(missing.json["error"])
    for argv in (["more", "-r"], ["--resume"]):
        unnamed = shell.run(*argv)
        assert unnamed.code == 2
        assert "sagent sessions list" in unnamed.err
        assert "--continue" in unnamed.err
    assert len(server.requests) == 3


def test_slash_command_output_is_stdout(shell: Shell) -> None:
    server = shell.serve([])
    done = shell.run("/cost")
    assert done.code == 0
    assert "tokens read" in done.out
    assert "tokens read" not in done.err
    assert "tokens read" in shell.run("--json", "/cost").err
    assert server.requests == []
