"""Text that is split inside a character: each delta is valid text, and together they say what the reply says."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.agent import Agent
from sagent.errors import ToolError
from sagent.events import Event, TextDelta, ThinkingDelta, ToolFinished, ToolProgress
from sagent.lib.json import join_pairs, valid_text, whole_text
from sagent.messages import Text, Thinking, user
from sagent.model import Billed, Delta, Reply, TextPart, ThinkingPart
from sagent.model import Request as ModelRequest
from sagent.providers import provider_named
from sagent.providers.families.anthropic.events import MessagesReplyReader
from sagent.providers.wire.faults import Origin
from sagent.testing import ScriptedModel
from sagent.testing.model_suite import collect
from sagent.testing.script import Turn
from sagent.testing.server import FakeProviderServer
from sagent.tool import RunContext, ToolOutput
from sagent.tools import tool
from tests.messages import call

UNITS = st.text(st.sampled_from([*"ab \n\0", "é", "\ud83d", "\ude00", "\udc80", "😀", "\u200d", "\ufffd"]), max_size=12)
FAMILIES = {
    "anthropic": ("claude-sonnet-4-6", ""),
    "openai": ("gpt-5.2", "/v1"),
    "moonshot": ("kimi-k2.6", "/v1"),
    "google": ("gemini-3.8-flash", ""),
    "bedrock": ("amazon.nova-pro-v1:0", ""),
}


def said(deltas: list[Delta], kind: type[TextPart | ThinkingPart]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, kind))


@given(st.lists(UNITS))
def test_pieces_are_whole_and_complete(pieces: list[str]) -> None:
    shown, half = list[str](), ""
    for piece in pieces:
        text, half = whole_text(half + piece)
        text.encode()
        assert len(half) <= 1
        shown.append(text)
    assert "".join(shown) + ("\ufffd" if half else "") == valid_text("".join(pieces))


@given(UNITS)
def test_pairs_joined_and_lone_halves_stay(text: str) -> None:
    joined = join_pairs(text)
    assert joined.encode("utf-16", "surrogatepass") == text.encode("utf-16", "surrogatepass")
    assert "\ud83d\ude00" not in joined


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.plugin("clouds")) if name == "bedrock" else name for name in FAMILIES]
)
def test_split_stream_is_valid_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    model_id, path = FAMILIES[name]

    @given(UNITS, UNITS, st.integers(1, 4))
    def check(text: str, thinking: str, pieces: int) -> None:
        async def run() -> tuple[list[Delta], Reply]:
            turn = Turn(f"a{text}", thinking=f"a{thinking}", pieces=pieces)
            async with FakeProviderServer([turn]) as server:
                provider = provider_named(name, key="k" * 8, base_url=server.url + path)
                async with aclosing(provider):
                    return await collect(provider.model(model_id), ModelRequest("c", (user("x"),)))

        deltas, reply = asyncio.run(run())
        assert reply.message.content == valid_text(f"a{text}")
        for kind, part in ((TextPart, Text), (ThinkingPart, Thinking)):
            kept = "".join(each.text for each in reply.message.parts if isinstance(each, part))
            assert said(deltas, kind) == kept
        for delta in deltas:
            assert isinstance(delta, Billed) or delta.text.encode()

    check()


def read(*events: dict[str, object]) -> tuple[list[Delta], Reply | None, MessagesReplyReader]:
    reader, out = MessagesReplyReader(Origin("anthropic", "m"), "anthropic"), list[Delta]()
    for event in events:
        reader.feed(event, out)
    reader.finish(out)
    return out, None, reader


def block(index: int, *pieces: str) -> list[dict[str, object]]:
    start = {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}
    delta = "content_block_delta"
    return [start, *({"type": delta, "index": index, "delta": {"type": "text_delta", "text": each}} for each in pieces)]


def test_half_at_block_end_is_not_joined() -> None:
    out, _, reader = read(*block(0, "a", "\ud83d"), *block(1, "\ude00", "b"))
    texts = [part.text for part in reader.message().parts if isinstance(part, Text)]
    assert texts == ["a\ufffd", "\ufffdb"]
    assert said(out, TextPart) == "".join(texts)


class Halves:
    """A model of a program's own, which knows nothing of surrogates."""

    provider, id = "own", "halves"
    closed = False

    def __init__(self, *pieces: TextPart | ThinkingPart) -> None:
        self.pieces = pieces
        self._inner = ScriptedModel(())
        self.limits = self._inner.limits

    def max_input_tokens(self, request: ModelRequest) -> int:
        return self._inner.max_input_tokens(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Reply]:
        try:
            for piece in self.pieces:
                yield piece
            async for item in ScriptedModel(("x",)).stream(request):  # for its bill
                if isinstance(item, Reply):
                    text = "".join(piece.text for piece in self.pieces if isinstance(piece, TextPart))
                    yield replace(item, message=replace(item.message, parts=(Text(text),)))
        finally:
            self.closed = True


@given(st.lists(st.builds(TextPart, UNITS) | st.builds(ThinkingPart, UNITS)))
def test_events_of_models_are_valid_text(pieces: list[TextPart | ThinkingPart]) -> None:
    model, events = Halves(TextPart("a"), *pieces), list[Event]()
    agent = Agent(model)
    agent.listen(events.append)
    result = agent.run_sync("x")
    deltas = [event for event in events if isinstance(event, TextDelta | ThinkingDelta)]
    assert all(delta.text.encode() for delta in deltas if delta.text)
    text = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
    whole = "".join(each.text for each in pieces if isinstance(each, TextPart))
    assert text == result.content == valid_text(f"a{whole}")
    assert model.closed


def test_scripted_halves_are_joined() -> None:
    events = list[Event]()
    agent = Agent(ScriptedModel(("a\ud83d", "\ude00b")))
    agent.listen(events.append)
    result = agent.run_sync("x")
    assert result.content == "a😀b"
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["a", "😀b"]


def test_tool_progress_is_valid_text() -> None:
    @tool(effect="none")
    async def count(run: RunContext) -> str:
        """Count."""
        run.progress("1 \ud83d")
        return "2 \ud83d"

    events = list[Event]()
    agent = Agent(ScriptedModel((call("1", "count"),), "done"), tools=[count])
    agent.listen(events.append)
    agent.run_sync("x")
    assert [event.text for event in events if isinstance(event, ToolProgress)] == ["1 \ufffd"]


@pytest.mark.parametrize("how", ["given", "raised", "refused"])
def test_call_name_and_result_are_valid_text(how: str) -> None:
    @tool(effect="none")
    async def count() -> ToolOutput | str:
        """Count."""
        if how == "raised":
            raise ValueError("2 \ud800 \ud83d\ude00")
        if how == "refused":
            raise ToolError("2 \ud800 \ud83d\ude00")
        return ToolOutput.of("2 \ud800 \ud83d\ude00", summary="2 \ud800", diff="+\ud800")

    events = list[Event]()
    agent = Agent(ScriptedModel((call("1", "count"), call("\ud800", "no\ud800")), "done"), tools=[count])
    agent.listen(events.append)
    agent.run_sync("x")
    ended = [event for event in events if isinstance(event, ToolFinished)]
    assert len(ended) == 2
    for event in ended:
        words = (event.result.text, event.summary, event.diff, event.call.id, event.call.name, event.result.call_id)
        assert "".join(words).encode()
    assert any("2 \ufffd 😀" in event.result.text for event in ended)
