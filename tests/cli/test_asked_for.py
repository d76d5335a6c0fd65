"""What is asked for from a shell: which provider, with which login, with what piped in; and what is told of it."""

import json

import pytest
from program import Shell

from sagent.lib.json import as_array, as_object
from sagent.testing.server import Cut, Fail, FakeProviderServer, Turn
from tests.depth import later

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003"
    "010100c9fe92ef0000000049454e44ae426082"
)
PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
LONG = Turn(text="The quick brown fox jumps over the lazy dog, and then it goes home.")


@pytest.mark.costly
@pytest.mark.parametrize(("data", "kind"), [(PNG, "image"), (PDF, "document")])
def test_piped_image_or_pdf_is_shown(shell: Shell, data: bytes, kind: str) -> None:
    server = shell.serve([Turn(text="I see."), Turn(text="Still.")])
    assert shell.run("what is this?", stdin=data).out == "I see.\n"
    (message,) = as_array(server.requests[0].json["messages"])
    text, shown = map(as_object, as_array(as_object(message)["content"]))
    assert (text["text"], shown["type"]) == ("what is this?", kind)
    assert shell.run("--continue", "and now?").out == "Still.\n"
    assert f'"type":"{kind}"'.encode() in server.requests[1].body, "it stays in the conversation"


@pytest.mark.parametrize(
    ("words", "data", "says"),
    [([], PNG, "say what to do"), (["look"], PNG[:40], "broken or incomplete image/png")],
)
def test_lone_or_broken_picture_is_refused(shell: Shell, words: list[str], data: bytes, says: str) -> None:
    server = shell.serve([Turn(text="Never.")])
    done = shell.run(*words, stdin=data)
    assert done.code == 2 and says in done.err
    assert not server.requests


@pytest.mark.costly
@pytest.mark.parametrize("command", [[], ["run"]])
def test_image_flag_attaches_files(shell: Shell, command: list[str]) -> None:
    server = shell.serve([Turn(text="I see.")])
    (shell.cwd / "a.png").write_bytes(PNG)
    (shell.cwd / "-b.pdf").write_bytes(PDF)
    done = shell.run(
        *command,
        "--model",
        "anthropic/claude-sonnet-4-6",
        "-i",
        "a.png",
        "--image=-b.pdf",
        "what is this?",
        stdin="notes",
        model="",
    )
    assert done.out == "I see.\n", done.err
    (message,) = as_array(server.requests[0].json["messages"])
    kinds = [as_object(each)["type"] for each in as_array(as_object(message)["content"])]
    assert kinds == ["text", "text", "image", "document"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-i", "a.txt", "look"], "no image"),
        (["-i", "missing.png", "look"], "No such file"),
        (["-i", ".", "look"], "directory"),
        (["-i", "half.png", "look"], "broken or incomplete"),
        (["-i", "a.txt"], "give a prompt, as in sagent -i FILE"),
        (["-i", "a.txt", "--input-format", "stream-json"], "stream-json"),
        (["-i", "a.txt", "--bus", "nats://127.0.0.1:1", "look"], "this machine"),
    ],
)
def test_unfit_image_flag_is_refused(shell: Shell, words: list[str], says: str) -> None:
    server = shell.serve([Turn(text="Never.")])
    (shell.cwd / "a.txt").write_text("text")
    (shell.cwd / "half.png").write_bytes(PNG[:40])
    done = shell.run(*words)
    assert done.code == 2 and says in done.err
    assert not server.requests


def test_part_that_would_be_lost_is_refused(shell: Shell) -> None:
    server = shell.serve([Turn(text="Never.")])
    content = [{"type": "text", "text": "look"}, {"type": "image", "source": {"type": "base64"}}]
    done = shell.run("--input-format", "stream-json", stdin=json.dumps({"content": content}))
    assert done.code == 2 and "line 1" in done.err and "'image'" in done.err
    assert not server.requests


# ----------------------------------------------------------------------------------------------------------------------
# Which provider


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("anthropic", "'anthropic' is a provider, not a model: give anthropic/MODEL"),
        ("Anthropic/", "give anthropic/MODEL"),
        ("openai_compatible/x", "openai-compatible has no address of its own"),
        ("meta-llama/Llama-9", "PROVIDER/meta-llama/Llama-9"),
        ("nobody-knows", "Give provider/model"),
    ],
)
def test_unknown_provider_says_how_to_name_it(shell: Shell, name: str, says: str) -> None:
    done = shell.run("hi", model=name)
    assert done.code == 2 and says in done.err


def test_allowed_providers_ignore_case(shell: Shell) -> None:
    shell.serve([Turn(text="ok")])
    assert shell.run("--allow-providers", "Anthropic, Openai_Compatible", "hi").code == 0
    refused = shell.run("--allow-providers", "", "hi")
    assert refused.code == 2 and "anthropic is not allowed: none is" in refused.err


def test_key_without_default_model_is_not_missing(shell: Shell) -> None:
    shell.environment["GROQ_API_KEY"] = "k"
    done = shell.run("hi", model="")
    assert done.code == 2
    assert "--model groq/MODEL" in done.err and "no provider has an API key set" not in done.err


def test_only_allowed_providers_are_named(shell: Shell) -> None:
    shell.environment["ANTHROPIC_API_KEY"] = "k"
    done = shell.run("--allow-providers", "google", "hi", model="")
    assert done.code == 2
    assert "google (--allow-providers)" in done.err and "GEMINI_API_KEY" in done.err
    assert "ANTHROPIC_API_KEY" not in done.err


def test_ignored_project_settings_are_told(shell: Shell) -> None:
    (shell.cwd / ".sagent").mkdir()
    (shell.cwd / ".sagent" / "config.toml").write_text('[providers.acme]\nbase_url = "http://127.0.0.1:9/v1"\n')
    done = shell.run("hi", model="acme/large")
    assert done.code == 2 and "There is no provider 'acme'" in done.err
    assert "providers is ignored" in done.err


@pytest.mark.plugin("clouds")
def test_no_provider_gets_another_key(shell: Shell) -> None:
    server = shell.stack.enter_context(FakeProviderServer([Turn(text="ok")], repeat_last=True).in_thread())
    shell.environment |= {
        "OPENAI_API_KEY": "openai-secret",
        "OPENAI_BASE_URL": "http://127.0.0.1:9",
        "MOONSHOT_BASE_URL": f"{server.url}/v1",
        "SAGENT_MAX_RETRIES": "0",
    }
    refused = shell.run("--auth", "credentials", "hi", model="moonshot/kimi-k2.6")
    assert refused.code == 2 and "moonshot has no login" in refused.err
    assert not server.requests
    shell.environment["MOONSHOT_API_KEY"] = "moonshot-secret"
    flags = ["--auth", "credentials", "--fallback", "moonshot/kimi-k2.6"]
    assert shell.run(*flags, "hi", model="openai/gpt-5.5").out == "ok\n"
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer moonshot-secret"}


# ----------------------------------------------------------------------------------------------------------------------
# What is told of a reply that begins again

GONE = "the text above is discarded"


@later
@pytest.mark.parametrize("level", ["warning", "error"])
def test_discarded_text_is_marked(shell: Shell, level: str) -> None:
    shell.serve([Cut(LONG, after_events=5), LONG])
    seen = shell.on_terminal("--model", "anthropic/claude-sonnet-4-6", "--log-level", level, "hi")
    first, _, second = seen.partition(GONE)
    assert "The quick" in first and LONG.text in second


def test_unshown_text_is_not_mentioned(shell: Shell) -> None:
    second = shell.stack.enter_context(FakeProviderServer([Turn(text="Here I am.")]).in_thread())
    shell.serve([Cut(LONG, after_events=5)], repeat_last=True)
    shell.environment |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{second.url}/v1", "SAGENT_MAX_RETRIES": "1"}
    done = shell.run("--fallback", "openai/gpt-5.5", "hi")
    assert done.out == "Here I am.\n"
    assert GONE not in done.err and "0.0 s" not in done.err
    assert done.err.count("trying again in") == 1 and done.err.count("takes over") == 1


def test_provider_sentence_ends_once(shell: Shell) -> None:
    shell.serve([Fail(429, message="Please try again later."), Turn(text="ok")])
    err = shell.run("hi").err
    assert "Please try again later; trying again in" in err


def test_zero_wait_is_a_retry_too(shell: Shell) -> None:
    shell.serve([Fail(429, headers={"retry-after": "0"}), Turn(text="ok")])
    assert "trying again in 0.0 s" in shell.run("hi").err
