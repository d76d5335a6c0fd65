"""`--permission-mode auto` without a person: what is beyond the reviewer's bounds is denied with the reason."""

import pytest

from sagent.testing.server import Call, FakeProviderServer, Turn
from tests.cli.program import Shell
from tests.walls import has_bubblewrap

RUN = Turn(calls=(Call("Bash", {"command": "echo made > made.txt"}),))


def reviewer(shell: Shell, *said: str) -> FakeProviderServer:
    turns = [Turn(text=each) for each in said]
    server = shell.stack.enter_context(FakeProviderServer(turns).in_thread())
    shell.environment |= {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "k"}
    return server


@pytest.mark.skipif(not has_bubblewrap(), reason="needs a sandbox")
def test_reviewer_lets_a_command_run(shell: Shell) -> None:
    shell.serve([RUN, RUN, Turn(text="Done.")])
    asked = reviewer(shell, "ALLOW: it makes the file", "DENY: not needed")
    auto = ("--permission-mode", "auto", "--approval-reviewer", "openai/gpt-5.4", "--output-format", "json")
    done = shell.run(*auto, "make the file")
    assert (done.code, done.json["permission_denials"]) == (0, []), done.err
    assert (shell.cwd / "made.txt").read_text() == "made\n"
    assert len(asked.requests) == 1  # the same call is not reviewed again
    log = "".join(path.read_text() for path in shell.cwd.parent.rglob("root.jsonl"))
    assert "openai/gpt-5.4 allows `echo made > made.txt`: it makes the file" in log


@pytest.mark.skipif(not has_bubblewrap(), reason="needs a sandbox")
@pytest.mark.plugin("exports")
def test_verdicts_are_in_exports(shell: Shell) -> None:
    shell.serve([RUN, Turn(calls=(Call("Bash", {"command": "touch other"}),)), Turn(text="Done.")])
    reviewer(shell, "ALLOW: it makes the file", "DENY: not needed")
    auto = ("--permission-mode", "auto", "--approval-reviewer", "openai/gpt-5.4", "--trace", "trace.jsonl")
    assert shell.run(*auto, "make the file").code == 0
    export = ("export", "--out", "-", "--format")
    forms = {form: shell.run(*export, form, model="").out for form in ("md", "html", "jsonl")}
    forms["trace"] = shell.run("trace", "trace.jsonl", model="").out
    for form, text in forms.items():
        assert "it makes the file" in text and "not needed" in text, form


@pytest.mark.skipif(not has_bubblewrap(), reason="needs a sandbox")
def test_verdicts_are_on_standard_error(shell: Shell) -> None:
    shell.serve([RUN, Turn(calls=(Call("Bash", {"command": "touch other"}),)), Turn(text="Done.")])
    reviewer(shell, "ALLOW: it makes the file", "DENY: not needed")
    done = shell.run("--permission-mode", "auto", "--approval-reviewer", "openai/gpt-5.4", "make the file")
    assert done.out == "Done.\n"
    assert "allows `echo made > made.txt`: it makes the file" in done.err
    assert "denies `touch other`: not needed" in done.err


def test_reviewer_that_is_missing_is_named(shell: Shell) -> None:
    shell.serve([])
    done = shell.run("--permission-mode", "auto", "--approval-reviewer", "nobody/x", "go")
    assert done.code == 2 and "nobody" in done.err


def test_project_may_not_choose_auto(shell: Shell) -> None:
    server = shell.serve([Turn(text="Done.")])
    (shell.cwd / ".sagent").mkdir()
    (shell.cwd / ".sagent/config.toml").write_text('permission_mode = "auto"\n')
    done = shell.run("go")
    assert "permission_mode" in done.err and "stricter" in done.err
    assert shell.run("--permission-mode", "atuo", "go").err.count("plan, ask, edit, full")
    assert len(server.requests) == 1
