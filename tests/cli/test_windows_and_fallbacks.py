"""Full windows, listings and models that are down, as the program meets them."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from program import Shell

from sagent.session.entries import read_body
from sagent.session.log import read_log
from sagent.testing.server import Call, Fail, FakeProviderServer, Listed, Received, Step, Turn
from tests.walls import without_shortfall

BIG = 40_000  # bytes of the file that is read
STUB = re.compile(rb"It is kept in (/[^;]+); read")


def kinds(session: object) -> list[str]:
    return [entry.kind for entry in read_log(Path(str(session)) / "root.jsonl")]


def messages_in(body: bytes) -> bytes:
    """A body up to the end of its messages, without the breakpoints, which move."""
    return body.replace(b',"cache_control":{"type":"ephemeral"}', b"").partition(b'],"model"')[0]


class Reading:
    """A model that reads a file `rounds` times, then a stub's file, and answers; it refuses more than `limit` bytes."""

    def __init__(self, rounds: int, limit: int) -> None:
        self.rounds = rounds
        self.limit = limit
        self.refused = 0

    def __call__(self, request: Received) -> Step:
        if len(request.body) > self.limit:
            self.refused += 1
            tokens = len(request.body) // 4
            return Fail(400, message=f"prompt is too long: {tokens} tokens > {self.limit // 4} maximum")
        done = request.body.count(b'"type":"tool_use"')
        if done < self.rounds:
            return Turn(calls=(Call("Read", {"file_path": "big.txt", "offset": done + 1}, f"toolu_{done}"),))
        stub = STUB.search(request.body)
        if stub and b"toolu_stub" not in request.body:
            arguments = {"file_path": stub[1].decode(), "limit": 3}
            return Turn(calls=(Call("Read", arguments, "toolu_stub"),))
        return Turn(text="I have read it.")


@pytest.mark.plugin("audit")
def test_full_window_is_recovered(shell: Shell) -> None:
    (shell.cwd / "big.txt").write_text("".join(f"{n:05d} lorem ipsum\n" for n in range(BIG // 18)))
    model = Reading(rounds=7, limit=6 * BIG)
    server = shell.serve(model)
    done = shell.run("--output-format", "json", "--log-level", "info", "read big.txt")
    assert (done.code, done.json["result"], done.json["is_error"]) == (0, "I have read it.", False), done.err
    assert model.refused > 0
    session = done.json["session_path"]
    assert "compacted" in kinds(session), "the log tells it"
    last = server.requests[-1].body
    stub = STUB.search(last)
    assert stub and b"00001 lorem" in Path(stub[1].decode()).read_bytes()
    assert b"00002 lorem" in last.rpartition(b"toolu_stub")[2], "the model can read it again"
    assert shell.run("sessions", "show", str(session), model="").code == 0, "the log verifies"
    again = shell.run("--continue", "--output-format", "json", "and now?")
    assert again.json["result"] == "I have read it."
    resumed = server.requests[-1].body
    sent = messages_in(last)
    assert messages_in(resumed)[: len(sent)] == sent, "resuming sends what was sent, stubs included"


def test_stubs_are_told_to_listeners(shell: Shell) -> None:
    (shell.cwd / "big.txt").write_text("".join(f"{n:05d} lorem ipsum\n" for n in range(BIG // 18)))
    shell.serve(Reading(rounds=7, limit=6 * BIG))
    lines = shell.run("--output-format", "stream-json", "read big.txt").lines
    said = [str(line["text"]) for line in lines if line["type"] == "notice"]
    told = [text for text in said if without_shortfall(text)]
    assert all(re.search(r"about [\d,]+ tokens", text) for text in told)
    assert any(re.search(r"replaced by stubs \(\d+ of them\)", text) for text in told)


def test_unfittable_context_says_next_step(shell: Shell) -> None:
    server = shell.serve([Fail(400, message="prompt is too long: 9000 tokens > 8000 maximum")])
    done = shell.run("--output-format", "json", "hi")
    error = done.json["error"]
    assert done.code == 1 and isinstance(error, dict)
    assert error["kind"] == "context_overflow"
    assert "8000 maximum" in error["message"] and "new session" in error["message"]
    assert len(server.requests) == 1


@pytest.mark.plugin("audit")
def test_fallback_in_log_and_ledger(shell: Shell) -> None:
    (shell.cwd / "config.toml").write_text('max_retries = 0\nfallback = ["openai/gpt-5.5"]\neffort = "low"\n')
    second = shell.stack.enter_context(FakeProviderServer([Turn(text="Here I am.")]).in_thread())
    first = shell.serve([Fail(529)])
    shell.environment |= {
        "SAGENT_CONFIG": str(shell.cwd / "config.toml"),
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": f"{second.url}/v1",
    }
    done = shell.run("--output-format", "json", "hi")
    assert (done.code, done.json["result"], done.json["model"]) == (0, "Here I am.", "openai/gpt-5.5"), done.err
    assert (len(first.requests), len(second.requests)) == (1, 1)
    assert all(part in done.err for part in ("claude-sonnet-4-6 is unavailable", "openai/gpt-5.5 takes over"))
    cost = done.json["cost_usd"]
    assert isinstance(cost, dict) and list(cost["by_model"]) == ["openai/gpt-5.5"]
    session = Path(str(done.json["session_path"]))
    switched = [read_body(entry) for entry in read_log(session / "root.jsonl") if entry.kind == "switched"]
    assert [body["model"] for body in switched] == ["openai/gpt-5.5"] and "529" in str(switched[0]["reason"])
    assert "openai/gpt-5.5" in shell.run("sessions", "show", "--costs", str(session), model="").out


@pytest.mark.parametrize(("name", "words"), [("opnai/gpt-5.5", "openai"), ("openai/gpt-5.5", "OPENAI_API_KEY")])
def test_unusable_fallback_is_a_start_error(shell: Shell, name: str, words: str) -> None:
    server = shell.serve([Turn(text="Never.")])
    shell.environment["SAGENT_FALLBACK"] = name
    done = shell.run("hi")
    assert done.code == 2
    assert words in done.err and "--fallback" in done.err
    assert not server.requests


def test_unpriced_fallback_under_cap_is_warned(shell: Shell) -> None:
    shell.serve([Turn(text="Fine.")])
    shell.environment["SAGENT_FALLBACK"] = "anthropic/claude-nobody-knows"
    done = shell.run("--max-budget-usd", "1", "hi")
    assert done.code == 0
    assert all(part in done.err for part in ("claude-nobody-knows", "has no known price"))
    assert "has no known price" not in shell.run("hi").err


def test_long_rate_limit_says_until_when(shell: Shell) -> None:
    server = shell.serve([Fail(429, headers={"retry-after": "7200"})])
    done = shell.run("hi")
    assert done.code == 1 and len(server.requests) == 1
    assert re.search(r"It can be asked again at \d{4}-\d\d-\d\d \d\d:\d\d \S+;", done.err)


def test_unknown_model_listing_is_fetched_beside(shell: Shell) -> None:
    async def answer(request: Received) -> Step:
        async with asyncio.timeout(60):
            while not (state / "listings.json").exists():  # the program has read the listing
                await asyncio.sleep(0.01)
        return Turn(text="ok")

    state = shell.cwd / "state"
    server = shell.serve(answer, models=[Listed("claude-nobody-knows", window=12_345, max_output=99)])
    shell.environment["SAGENT_STATE_DIR"] = str(state)
    assert shell.run("hi", model="anthropic/claude-nobody-knows").code == 0
    assert [request.method for request in server.requests] == ["POST", "GET"], "the call goes first"
    places = json.loads((state / "listings.json").read_text())["places"]
    assert [place["models"] for place in places.values()] == [{"claude-nobody-knows": [12_345, 99, None]}]
