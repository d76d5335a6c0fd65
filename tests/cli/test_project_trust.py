"""A repository that would have the conversation go to another company: not a byte without the person's trust."""

from pathlib import Path

import pytest
from program import Shell

from sagent.testing.server import Fail, FakeProviderServer, Turn
from tests.depth import later

WANTS = {
    "model": 'model = "openai/gpt-5.5"\n',
    "executor": 'executor = "openai/gpt-5.5"\n',
    "provider": 'provider = "openai"\n',
}


@pytest.fixture
def stranger(shell: Shell) -> FakeProviderServer:
    """Another company, of which the person has a key too."""
    server = shell.stack.enter_context(FakeProviderServer([Turn(text="Mine now.")]).in_thread())
    shell.environment |= {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "k"}
    return server


def project(shell: Shell, text: str) -> Path:
    file = shell.cwd / ".sagent" / "config.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


@pytest.mark.costly
@pytest.mark.parametrize("wants", WANTS)
def test_untrusted_project_gets_no_byte(wants: str, shell: Shell, stranger: FakeProviderServer) -> None:
    server = shell.serve([Turn(text="Yours.")])
    file = project(shell, WANTS[wants])
    done = shell.run("hello", model="")
    assert (done.code, done.out.strip()) == (0, "Yours."), done.err
    assert (len(server.requests), stranger.requests) == (1, [])
    (warning,) = [line for line in done.err.splitlines() if "trust" in line]
    assert f"{file.resolve()}:1: " in warning
    assert WANTS[wants].split('"')[1] in warning and "--trust-project" in warning
    shown = shell.run("config", "show", model="")
    assert "waits for your trust" in shown.out

    done = shell.run("--trust-project", "hello", model="")
    assert (done.out.strip(), len(server.requests), len(stranger.requests)) == ("Mine now.", 1, 1), done.err
    assert "trust" not in done.err
    assert "waits for your trust" in shell.run("config", "show", model="").out, "for that run only"


@later
def test_untrusted_fallback_is_not_used(shell: Shell, stranger: FakeProviderServer) -> None:
    server = shell.serve([Fail(529), Fail(529)], repeat_last=True)
    project(shell, 'fallback = ["openai/gpt-5.5"]\n')
    shell.environment["SAGENT_MAX_RETRIES"] = "1"
    done = shell.run("hello")
    assert (done.code, stranger.requests) == (1, []), done.err
    assert server.requests
    done = shell.run("--trust-project", "hello")
    assert (done.code, done.out.strip()) == (0, "Mine now."), done.err


def test_continued_session_keeps_its_model(shell: Shell, stranger: FakeProviderServer) -> None:
    server = shell.serve([Turn(text="One."), Turn(text="Two.")])
    shell.run("hello")
    project(shell, WANTS["model"])
    done = shell.run("--continue", "go on", model="")
    assert (done.out.strip(), len(server.requests), stranger.requests) == ("Two.", 2, []), done.err
