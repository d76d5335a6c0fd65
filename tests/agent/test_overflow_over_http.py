"""What providers tell of sizes when they refuse, over real HTTP: it is understood, and the next request fits."""

import pytest

from sagent.agent import Agent, RunLimits
from sagent.model import Provider
from sagent.providers import Anthropic, OpenAICompatible
from sagent.testing.server import Fail, FakeProviderServer, Received, Step, Turn
from sagent.usage import Usage


def anthropic(url: str) -> Provider:
    return Anthropic.from_key("k", base_url=url)


def chat(url: str) -> Provider:
    return OpenAICompatible.from_key("k", base_url=url)


LIMIT = "This model's maximum context length is {c} tokens. However, you requested "


@pytest.mark.parametrize(
    ("provider", "model", "words", "calls"),
    [
        (anthropic, "claude-sonnet-4-5", "input length and `max_tokens` exceed context limit: {a} + {b} > {c}", 2),
        (chat, "m", LIMIT + "{sum} tokens ({a} in the messages, {b} in the completion). Reduce the length.", 2),
        # how large the input is, it does not tell
        (chat, "m", LIMIT + "{b} output tokens and your prompt contains at least {d} input tokens, {e} in all.", 3),
    ],
)
async def test_too_large_output_limit_is_lowered(provider, model, words, calls) -> None:
    window, tokens = 30_000, 20_000

    def answer(request: Received) -> Step:
        limit = int(str(request.json.get("max_tokens", 32_000)))
        if tokens + limit <= window:
            return Turn(text="It fits.", usage=Usage(input=tokens, output=9))
        sizes = {"a": tokens, "b": limit, "c": window, "sum": tokens + limit, "d": window - limit + 1, "e": window + 1}
        return Fail(400, message=words.format(**sizes))

    async with FakeProviderServer(answer) as server:
        source = provider(server.url)
        agent = Agent(source.model(model), limits=RunLimits(compact_at=0))
        result = await agent.run("x" * 54_000)
        assert (result.content, result.error) == ("It fits.", None)
        assert len(server.requests) == calls
        assert 5_000 < int(str(server.requests[-1].json["max_tokens"])) < 10_000
        await agent.run("more")
        assert len(server.requests) == calls + 1, "the window is known now"
        await source.aclose()


async def test_unknown_small_window_is_learned() -> None:
    """As with llama.cpp, whose window is what it was started with."""

    def answer(request: Received) -> Step:
        tokens = len(request.body) // 4
        if tokens > 2_000:
            message = f"request ({tokens} tokens) exceeds the available context size (2000 tokens), try increasing it"
            return Fail(400, {"error": {"message": message, "n_ctx": 2000, "n_prompt_tokens": tokens}})
        return Turn(text="ok")

    async with FakeProviderServer(answer) as server:
        source = chat(server.url)
        agent = Agent(source.model("m"))
        await agent.run("hello")
        with pytest.raises(Exception, match=r"2000 tokens.*larger window"):
            await agent.run("x" * 20_000)
        assert len(server.requests) == 2, "nothing could be left out, so it was not sent again"
        await source.aclose()
