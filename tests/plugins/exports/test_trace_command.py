"""`--trace` and `sagent trace`: a run is kept as it happens, and told again."""

import json
from pathlib import Path

import pytest

from sagent.testing.script import Call
from sagent.testing.server import Turn
from tests.cli.program import Shell
from tests.depth import later

SCRIPT = [
    Turn(
        text="Let me see.", calls=(Call("Bash", {"command": "echo blue"}), Call("Bash", {"command": "curl x.example"}))
    ),
    Turn(text="It is \x1b[31mblue."),
]


def trace(shell: Shell, *argv: str, stdin: str = "") -> str:
    """What the command says of a run."""
    done = shell.run("trace", *argv, stdin=stdin, model="")
    assert done.code == 0, done.err
    return done.out


def test_run_shown_from_trace(shell: Shell) -> None:
    shell.serve(SCRIPT)
    done = shell.run("--trace", "run.jsonl", "--allow", "Bash(echo:*)", "--sandbox", "off", "look")
    assert done.code == 0, done.err
    events = [json.loads(line) for line in (shell.cwd / "run.jsonl").read_bytes().splitlines()]
    assert (events[0]["type"], events[-1]["type"]) == ("session", "result")
    out = trace(shell, "run.jsonl")
    for words in (
        "> look",
        "turn 1",
        'Bash {"command":"echo blue"}',
        "⊘ Bash denied: ",
        "turn 2",
        "policy  1 call denied",
    ):
        assert words in out
    assert "\x1b" not in out
    assert out == trace(shell, "-", stdin=(shell.cwd / "run.jsonl").read_text())


def test_run_shown_from_session(shell: Shell) -> None:
    shell.serve(SCRIPT)
    path = Path(str(shell.run("--output-format", "json", "look").json["session_path"]))
    out = trace(shell)
    assert "turn 2" in out
    for name in (str(path), path.name, path.name[:12], str(path / "root.jsonl")):
        assert trace(shell, name) == out


@later
@pytest.mark.costly
@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_trace_in_other_encodings(shell: Shell, codec: str) -> None:
    shell.serve(SCRIPT)
    events = shell.run("--output-format", "stream-json", "r\u00f6d").out
    data = (events if codec != "utf-16-be" else f"\ufeff{events}").encode(codec)
    (shell.cwd / "run.jsonl").write_bytes(data)
    done = shell.run("trace", "run.jsonl", model="")
    assert done.out == trace(shell, "-", stdin=events)
    assert shell.run("trace", "-", stdin=data, model="").out == done.out
    assert "left out" not in done.err


@later
def test_stream_json_is_a_trace(shell: Shell) -> None:
    shell.serve(SCRIPT)
    done = shell.run("--output-format", "stream-json", "look")
    out = trace(shell, "-", stdin=done.out)
    assert "turn 2" in out
    assert "ended: end · 2 turns" in out


def test_trace_set_by_file_and_variable(shell: Shell, tmp_path: Path) -> None:
    shell.serve(lambda request: Turn(text="Yes."))
    (shell.cwd / "mine.yml").write_text("logging: {trace_file: a.jsonl, level: error}\n")
    assert shell.run("--config", "mine.yml", "one").code == 0
    assert "> one" in trace(shell, "a.jsonl")
    shell.environment["SAGENT_TRACE"] = str(tmp_path / "b.jsonl")
    for prompt in ("two", "three"):
        assert shell.run(prompt).code == 0
    out = trace(shell, str(tmp_path / "b.jsonl"))
    assert out.index("> two") < out.index("> three")


def test_damaged_lines_named_not_fatal(shell: Shell) -> None:
    good = '{"type":"reply_finished","agent":"root","message":{"parts":[{"type":"text","text":"Yes."}]}}'
    (shell.cwd / "t.jsonl").write_text(f"{good}\noops\n{good}\n{good[:9]}")
    done = shell.run("trace", "t.jsonl", model="")
    assert done.code == 0
    assert "turn 2" in done.out
    assert "left out: line 2; line 4" in done.err


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("notes.md", "has no events"),
        ("gone.jsonl", "no such file or session"),
        ("gone", "no session 'gone'"),
        ("", "no session of"),
    ],
)
def test_non_run_refused(name: str, says: str, shell: Shell) -> None:
    (shell.cwd / "notes.md").write_text("# Notes\n")
    done = shell.run("trace", *filter(None, [name]), model="")
    assert (done.code, done.out.strip().startswith("session")) == (2, False)
    assert says in done.err


def test_unwritable_trace_refused_first(shell: Shell) -> None:
    server = shell.serve([Turn(text="Yes.")])
    (shell.cwd / "notes.md").write_text("# Notes\n")
    for name in ("notes.md", "notes.md/where.jsonl", "."):
        done = shell.run("--trace", name, "hello")
        assert done.code == 2
        assert "trace" in done.err
    assert server.requests == []


def test_blank_and_endless_lines_handled(shell: Shell) -> None:
    shell.serve([Turn(text=f"One.\n\n\n{'.' * 5_000}\n\nTwo.")])
    shell.run("--trace", "run.jsonl", "look")
    out = trace(shell, "run.jsonl")
    assert max(map(len, out.splitlines())) < 300
    assert "  One.\n  ..." in out
    assert "." * 5_000 in trace(shell, "run.jsonl", "--full")
