"""`sagent replay` and `sagent compare`, as processes."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from sagent.lib.json import as_array, as_object
from sagent.session.folds import origin
from sagent.session.log import read_log
from sagent.testing.script import Call, Received, Stall, Step, Turn
from tests.cli.program import Outcome, Shell
from tests.depth import later

LOOK = Call("Bash", {"command": "cat a.txt", "description": "look"})
CHANGE = Call("Write", {"file_path": "b.txt", "content": "new"})


def said(received: Received) -> str:
    """The whole of a request, as text."""
    return received.body.decode()


def works(*steps: Step) -> list[Step]:
    return [Turn(text="I look.", calls=(LOOK,)), Turn(text="It says hello."), *steps]


def git(cwd: Path, *words: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    return subprocess.run(["git", *identity, *words], cwd=cwd, capture_output=True, text=True, check=True).stdout


def record(shell: Shell, *steps: Step, prompt: str = "What does a.txt say?") -> str:
    """A session of the program; its path."""
    (shell.cwd / "a.txt").write_text("hello\n")
    shell.serve(works(*steps))
    done = shell.run("--output-format", "json", "--effort", "low", "--allow", "Bash(cat:*)", prompt)
    assert done.code == 0, done.err
    return str(done.json["session_path"])


def command(shell: Shell, *argv: str) -> Outcome:
    return shell.run(*argv, model="")


def logged(path: Path, kind: str) -> list[dict]:
    return [json.loads(entry.line)["body"] for entry in read_log(path / "root.jsonl") if entry.kind == kind]


@later
def test_replay_needs_no_key_or_network(shell: Shell) -> None:
    session = record(shell)
    for name in ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"):
        del shell.environment[name]
    done = command(shell, "replay", session)
    assert (done.code, done.err) == (0, "")
    assert "2 of 2 requests byte for byte" in done.out
    assert done.out.splitlines()[-1].startswith("OK: ")
    assert "never sent" in done.out.splitlines()[-2]
    shown = command(shell, "replay", session, "--output-format", "json").json
    assert (shown["same"], shown["exact"], shown["problems"]) == (True, True, [])
    assert shell.server is not None and len(shell.server.requests) == 2


@later
def test_last_session_replayed_by_default(shell: Shell) -> None:
    record(shell)
    assert command(shell, "replay").code == 0


@later
def test_torn_end_is_said_and_replayed(shell: Shell) -> None:
    session = Path(record(shell))
    for name in ("root.jsonl", "root/killed.jsonl"):
        (session / name).parent.mkdir(exist_ok=True)
        with (session / name).open("ab") as file:
            file.write(b'{"id":"' + b"a" * 64)
    shown = command(shell, "replay", str(session), "--output-format", "json").json
    torn = as_array(shown["torn"])
    assert (shown["same"], shown["problems"], len(torn)) == (True, [], 2)


@later
def test_damaged_session_not_replayed(shell: Shell) -> None:
    session = record(shell)
    file = Path(session, "root.jsonl")
    file.write_bytes(file.read_bytes().replace(b"It says hello.", b"It says hallo."))
    done = command(shell, "replay", session)
    assert done.code == 1
    assert "does not match its id" in done.out
    assert done.out.splitlines()[-1].startswith("NOT REPLAYED")


@later
@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("replay", "nobody"), "no session 'nobody'"),
        (("replay", "SESSION", "--agent", "root/x"), "it has root"),
        (("replay", "SESSION", "--live-tools"), "--model"),
        (("replay", "SESSION", "--effort", "low"), "--model"),
        (("replay", "SESSION", "--model", "anthropic/claude-sonnet-4-6", "--agent", "root"), "--agent"),
        (("replay", "SESSION", "--model", "anthropic/claude-sonnet-4-6", "--keep", "x"), "--live-tools"),
        (("compare", "SESSION"), "Give two sessions"),
        (("compare", "SESSION", "SESSION", "--model", "m"), "Give two sessions"),
    ],
)
def test_invalid_use_refused(shell: Shell, argv: tuple[str, ...], told: str) -> None:
    session = record(shell)
    done = command(shell, *(session if word == "SESSION" else word for word in argv))
    assert done.code == 2
    assert told in done.err


def test_other_model_gets_recorded_answers(shell: Shell) -> None:
    other = Call("Bash", {"command": "cat secret.txt", "description": "look"})
    session = Path(record(shell, Turn(text="Hm.", calls=(LOOK, LOOK, other)), Turn(text="It says hello, I think.")))
    done = command(shell, "replay", str(session), "--model", "anthropic/claude-opus-4-8", "--output-format", "json")

    assert done.code == 0, done.err
    assert done.json["result"] == "It says hello, I think."
    assert "1 calls were answered" in done.err and "2 are not in it" in done.err
    assert shell.server is not None
    first, _, third, fourth = shell.server.requests
    assert third.json["model"] == "claude-opus-4-8"
    assert third.json["system"] == first.json["system"]
    assert [tool["name"] for tool in third.json["tools"]] == [tool["name"] for tool in first.json["tools"]]  # pyright: ignore[reportGeneralTypeIssues, reportOptionalIterable]
    assert third.json["messages"] == first.json["messages"]
    assert json.dumps(third.json["output_config"]) == '{"effort": "low"}'  # of which no entry of the log tells
    assert "hello" in said(fourth)
    assert "is not in the recording" in said(fourth)
    made = Path(str(done.json["session_path"]))
    assert made != session
    told = origin(read_log(made / "root.jsonl")).environment
    assert told["replay_of"] == session.name
    assert command(shell, "verify", str(made)).code == 0
    assert command(shell, "replay", str(made)).code == 0


@later
def test_unavailable_model_leaves_nothing(shell: Shell) -> None:
    session = record(shell)
    done = command(shell, "replay", session, "--model", "nobody/nothing")
    assert done.code == 2
    assert len(command(shell, "sessions", "list", "--all", "--ids").out.split()) == 1


@later
@pytest.mark.needs("git")
def test_live_tools_run_in_clone_at_commit(shell: Shell) -> None:
    git(shell.cwd, "init", "-q")
    (shell.cwd / "a.txt").write_text("hello\n")
    git(shell.cwd, "add", ".")
    git(shell.cwd, "commit", "-qm", "first")
    session = record(shell, Turn(calls=(LOOK, CHANGE)), Turn(text="Done."))
    (shell.cwd / "a.txt").write_text("changed since\n")

    kept = shell.cwd.parent / "kept"
    flags = ("--model", "anthropic/claude-opus-4-8", "--live-tools", "--allow", "Bash(cat:*)", "--keep", str(kept))
    done = command(shell, "replay", session, *flags)

    assert done.code == 0, done.err
    assert "a clone at the recorded commit" in done.err
    assert shell.server is not None
    assert "hello" in said(shell.server.requests[3])
    assert str(kept) in said(shell.server.requests[2])
    assert str(shell.cwd) not in said(shell.server.requests[2])
    assert (kept / "work" / "b.txt").read_text() == "new"
    assert not (shell.cwd / "b.txt").exists()
    assert git(kept / "work", "remote") == ""


@later
def test_live_tools_use_temporary_copy(shell: Shell) -> None:
    own = shell.cwd / "own.txt"
    touches = (
        Call("Write", {"file_path": str(own), "content": "mine"}),
        Call("Bash", {"command": f"touch {own}", "description": "touch"}),
    )
    session = record(shell, Turn(calls=(CHANGE, *touches)), Turn(text="Done."))
    flags = ("--model", "anthropic/claude-opus-4-8", "--live-tools", "--permission-mode", "full")
    done = command(shell, "replay", session, *flags)

    assert done.code == 0, done.err
    assert "a copy of" in done.err
    assert not own.exists()
    assert not (shell.cwd / "b.txt").exists()
    assert shell.server is not None
    answered = said(shell.server.requests[3])
    assert answered.count("is the person's own directory") == 2
    place = Path(origin(read_log(_other(shell, session) / "root.jsonl")).cwd)
    assert not place.parent.exists()


def _other(shell: Shell, session: str) -> Path:
    """The session that there is besides this one."""
    logs = Path(shell.environment["HOME"], ".local/state/sagent/sessions").glob("*/*/root.jsonl")
    (found,) = {log.parent for log in logs} - {Path(session)}
    return found


@later
def test_interrupt_leaves_no_copy(shell: Shell, tmp_path: Path) -> None:
    session = record(shell, Stall(Turn(text="I think about it for a very long time."), after_events=4))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    shell.environment["TMPDIR"] = str(scratch)
    child = shell.start("replay", session, "--model", "anthropic/claude-opus-4-8", "--live-tools", model="")
    assert shell.server is not None
    while len(shell.server.requests) < 3:
        assert child.poll() is None
        time.sleep(0.01)
    assert list(scratch.glob("sagent-tmp-*/tmp/*"))
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=60)
    assert child.returncode == 143
    assert not list(scratch.glob("sagent-tmp-*/tmp/*"))


@later
def test_two_sessions_are_put_side_by_side(shell: Shell) -> None:
    session = record(shell)
    same = command(shell, "compare", session, session, "--check", "cat a.txt; exit 3")
    assert same.code == 0
    assert "every request" in same.out and "is the same" in same.out
    assert "cannot be attributed" in same.out
    assert "exit 3" in same.out
    shown = command(shell, "compare", session, session, "--output-format", "json").json
    assert (shown["same"], len(shown["turns"])) == (True, 2)  # pyright: ignore[reportArgumentType]
    page = shell.cwd / "page.html"
    assert command(shell, "compare", session, session, "--output-format", "html", "--output", str(page)).code == 0
    assert page.read_text().startswith("<!doctype html>")


@later
@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_comparison_hides_secrets(shell: Shell, form: str) -> None:
    secret = "sk-ant-api03-" + "aB3dE5fG7hJ9" * 8
    shell.serve([Turn(text="Yes."), Turn(text="No.")])
    for session in ("a", "b"):
        assert shell.run("--session", str(shell.cwd / session), f"is the key {secret}?").code == 0
    done = command(shell, "compare", str(shell.cwd / "a"), str(shell.cwd / "b"), "--output-format", form)
    assert done.code == 0, done.err
    assert "is the key" in done.out
    assert secret not in done.out
    assert "secrets taken out" in done.err


def test_session_compared_with_other_model(shell: Shell) -> None:
    session = record(shell, Turn(calls=(CHANGE,)), Turn(text="Done."))
    flags = ("--model", "anthropic/claude-opus-4-8", "--live-tools", "--check", "test -f b.txt")
    done = command(shell, "compare", session, *flags, "--output-format", "json")
    assert done.code == 0, done.err
    shown = done.json
    assert shown["same"] is False
    one, other = as_object(shown["a"]), as_object(shown["b"])
    assert other["models"] == ["anthropic/claude-opus-4-8"]
    assert as_object(one["outcome"])["exit_code"] == 1
    assert as_object(other["outcome"])["exit_code"] == 0


@later
def test_check_needs_live_tools(shell: Shell) -> None:
    session = record(shell, Turn(text="I guess."))
    done = command(shell, "compare", session, "--model", "anthropic/claude-opus-4-8", "--check", "true")
    assert done.code == 0, done.err
    assert "there is no directory to check" in done.out
