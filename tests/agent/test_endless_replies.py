"""Replies that repeat themselves without end are cut; those that only look like it are not."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent import Agent, tool
from sagent.cli.headless import EXIT_CUT, exit_code
from sagent.context.calls import MAX_REPEATED, MAX_REPEATED_IN_BLOCK, RepetitionDetector
from sagent.events import Result
from sagent.messages import Thinking
from sagent.providers import OpenAICompatible
from sagent.providers.limits import OWN_OUTPUT
from sagent.testing import ScriptedModel
from sagent.testing.server import FakeProviderServer, Turn
from tests.agent.test_cut_calls import FAMILIES, provider_of, region
from tests.depth import deep

__all__ = ["region"]  # a fixture

UNITS = ["x", "the same line of text again.\n", "0, ", " ", "Ω", "I will read the file.\nThen I will edit the file.\n"]


async def answered(text: str, size: int = 24) -> tuple[Result, list[str], Agent]:
    notices = list[str]()
    pieces = tuple(text[at : at + size] for at in range(0, len(text), size))
    agent = Agent(ScriptedModel(pieces))
    agent.listen(lambda event: notices.append(text) if isinstance(text := getattr(event, "text", None), str) else None)
    result = await agent.run("go")
    await agent.aclose()
    return result, notices, agent


@pytest.mark.parametrize("unit", UNITS)
async def test_endless_reply_is_cut_and_kept(unit: str) -> None:
    result, notices, agent = await answered(f"First this.\n{unit * (60_000 // len(unit))}")
    assert (result.stop_reason, exit_code(result)) == ("max_tokens", EXIT_CUT)
    assert result.error is not None and "over and over" in result.error.message
    assert any("over and over" in notice for notice in notices)
    content = agent.messages[-1].content
    assert content.startswith("First this.\n")
    assert len(content) <= len("First this.\n") + 4 * 200


@pytest.mark.parametrize("family", FAMILIES)
async def test_stream_is_stopped_in_every_family(family: str) -> None:
    text = "I read the file. " * 20_000
    async with FakeProviderServer([Turn(text, pieces=100)]) as server:
        provider, model = provider_of(family, server.url)
        agent = Agent(provider.model(model))
        result = await agent.run("go")
        await agent.aclose()
        await provider.aclose()
    assert (result.stop_reason, len(server.requests)) == ("max_tokens", 1)
    assert len(result.content) < 1_000


async def test_thoughts_without_end_are_cut() -> None:
    thoughts = tuple(Thinking("Wait, let me think again.\n" * 10) for _ in range(100))
    agent = Agent(ScriptedModel(thoughts))
    result = await agent.run("go")
    assert result.stop_reason == "max_tokens"
    await agent.aclose()


async def test_call_in_cut_reply_is_not_made() -> None:
    made = list[str]()

    @tool
    def wipe(path: str) -> str:
        """Wipe a directory."""
        made.append(path)
        return "wiped"

    call = '<tool_call>\n{"name": "wipe", "arguments": {"path": "/"}}\n</tool_call>\n'
    pieces = tuple(call for _ in range(1_000))
    agent = Agent(ScriptedModel(pieces), tools=[wipe])
    result = await agent.run("go")
    assert (result.stop_reason, made) == ("max_tokens", [])
    await agent.aclose()


TABLE = "".join(f"| {number} | {number * number} | row |\n" for number in range(2_000))
SURVIVORS = {
    "table": TABLE,
    "data": f"The data: {'0,' * 3_000}\nThat is all.",
    "data in a block": "```csv\n" + "0,0,0\n" * 4_000 + "```\nThat is all.",
    "file of equal lines": "```text\n" + "equal line\n" * 2_500 + "```\nDone.",
    "ascii art": "".join(f"{' ' * (40 - row)}{'*' * (2 * row + 1)}\n" for row in range(40)) * 6,
    "rule": f"Above\n{'-' * 5_000}\nBelow",
    "several blocks": "".join("```\n" + "same\n" * 1_000 + f"```\nBlock {number}.\n" for number in range(12)),
    "json": json.dumps([{"id": number, "value": 0} for number in range(3_000)], indent=1),
    "numbered": "".join(f"{number}. The same step.\n" for number in range(2_000)),
}


@pytest.mark.parametrize("text", SURVIVORS.values(), ids=SURVIVORS)
@pytest.mark.parametrize("size", [7, 500, 100_000])
async def test_long_finite_reply_survives(text: str, size: int) -> None:
    result, _, _ = await answered(text, size)
    assert (result.content, result.error) == (text, None)


@given(st.text(min_size=1, max_size=30), st.integers(1, 400), st.integers(1, 3_000))
@settings(max_examples=deep(15, 60))
def test_unit_is_found_in_any_pieces(unit: str, before: int, size: int) -> None:
    text = "".join(random.Random(before).choices("abcdefgh \n", k=before)) + unit * (100_000 // len(unit))
    said = RepetitionDetector()
    at = next((end for end in range(size, len(text), size) if said.repeats(text[end - size : end])), None)
    assert at is not None
    assert at <= before + MAX_REPEATED_IN_BLOCK + 3 * max(size, 1_024)
    assert said.without_repetition == text[: len(said.without_repetition)]


def test_text_without_repetition_is_whole() -> None:
    said, text = RepetitionDetector(), TABLE + "x" * (MAX_REPEATED // 2)
    assert not any(said.repeats(text[at : at + 100]) for at in range(0, len(text), 100))
    assert said.without_repetition == text


# -- output limits -----------------------------------------------------------------------------------------------------


async def asked(**given: object) -> object:
    """Return the output limit that a server on this machine is sent."""
    async with FakeProviderServer([Turn("4")]) as server:
        provider = OpenAICompatible.from_key("k", base_url=f"{server.url}/v1")
        agent = Agent(provider.model("some-local-model"), **given)  # pyright: ignore[reportArgumentType]
        await agent.run("2+2?")
        await agent.aclose()
        await provider.aclose()
    return server.requests[0].json.get("max_tokens")


async def test_own_server_is_sent_a_limit() -> None:
    assert await asked() == OWN_OUTPUT


async def test_limit_of_a_person_is_sent_unchanged() -> None:
    from sagent.agent import RunLimits

    assert await asked(limits=RunLimits(max_response_tokens=77)) == 77
