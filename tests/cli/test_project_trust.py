"""A repository that would have the conversation go to another company: not a byte without the person's trust."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from program import Shell

from sagent.config import load
from sagent.config.trust import remember
from sagent.errors import UsageError
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
    for words in (["hello"], ["run", "hello"], ["--json", "hello"]):
        done = shell.run(*words, model="")
        assert (done.code, server.requests, stranger.requests) == (2, [], []), done.err
        (said,) = [line for line in done.err.splitlines() if "trust" in line]
        assert f"{file.resolve()}:1: " in said
        assert WANTS[wants].split('"')[1] in said and "--trust-project" in said
        assert (done.json["is_error"], done.json["result"]) == (True, "") if "--json" in words else not done.out
    done = shell.run("--model", "anthropic/claude-sonnet-4-6", "hello", model="")
    assert (done.code, done.out.strip(), stranger.requests) == (0, "Yours.", []), done.err
    shown = shell.run("config", "show", model="")
    assert "waits for your trust" in shown.out

    done = shell.run("--trust-project", "hello", model="")
    assert (done.out.strip(), len(server.requests), len(stranger.requests)) == ("Mine now.", 1, 1), done.err
    assert "trust" not in done.err
    assert "waits for your trust" in shell.run("config", "show", model="").out, "for that run only"


SURFACES = {
    "review": ("review", "HEAD"),
    "serve": ("serve", "--port", "0"),
    "a2a": ("a2a", "serve", "--port", "0"),
    "mesh": ("node", "--bus", "nats://127.0.0.1:1"),
}


@pytest.mark.parametrize("words", [pytest.param(SURFACES[name], marks=pytest.mark.plugin(name)) for name in SURFACES])
def test_every_surface_stops_for_an_untrusted_project(
    words: Sequence[str], shell: Shell, stranger: FakeProviderServer
) -> None:
    server = shell.serve([Turn(text="Yours.")])
    project(shell, WANTS["model"])
    done = shell.run(*words, model="")
    assert (done.code, server.requests, stranger.requests) == (2, [], []), done.err
    assert "Nothing was sent." in done.err and "--trust-project" in done.err


@pytest.mark.plugin("hosting")
def test_sessions_of_clients_stop_for_an_untrusted_project(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    from sagent.plugins.hosting.live import ClientOptions
    from sagent.plugins.hosting.opening import settings_for

    monkeypatch.setenv("HOME", shell.environment["HOME"])
    project(shell, WANTS["model"])
    with pytest.raises(UsageError, match="Nothing was sent"):
        settings_for({}, ClientOptions(cwd=str(shell.cwd)))
    named = ClientOptions(cwd=str(shell.cwd), model="anthropic/claude-sonnet-4-6")
    assert settings_for({}, named).model == "anthropic/claude-sonnet-4-6"
    assert settings_for({"trust_project": True}, ClientOptions(cwd=str(shell.cwd))).model == "openai/gpt-5.5"


@pytest.mark.parametrize("answer", [True, False])
def test_answered_project_does_not_stop(answer: bool, shell: Shell, stranger: FakeProviderServer) -> None:
    server = shell.serve([Turn(text="Yours.")])
    project(shell, WANTS["model"])
    settings = load({}, shell.environment, shell.cwd)
    assert settings.wish is not None
    remember(settings.wish, settings.state_dir, trusted=answer)
    done = shell.run("hello", model="")
    assert (done.code, done.out.strip()) == (0, "Mine now." if answer else "Yours."), done.err
    assert (len(server.requests), len(stranger.requests)) == (int(not answer), int(answer))


def test_untrusted_effort_alone_does_not_stop(shell: Shell) -> None:
    server = shell.serve([Turn(text="Yours.")])
    project(shell, 'effort = "high"\n')
    done = shell.run("hello", model="")
    assert (done.code, done.out.strip(), len(server.requests)) == (0, "Yours.", 1), done.err
    assert "--trust-project" in done.err


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
