"""A request that does not fit its window is made to fit, or ends the turn with words on what to do."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from sagent.agent import Agent, Resources, RunLimits
from sagent.errors import ModelError
from sagent.events import Event, Finished, Notice, Retrying
from sagent.lib.json import JsonObject, as_int, json_freeze_object
from sagent.messages import Message, ToolCall, assistant
from sagent.model import Delta, ModelLimits, Reply, Request
from sagent.session.entries import read_body
from sagent.session.folds import history
from sagent.session.log import MemoryLog
from sagent.testing import ScriptedModel, check_pairing
from sagent.tool import Effect, RunContext, Workspace

BYTES = 4  # to a token, in the windows of these tests


class Reader:
    """A tool whose every call gives a text of the size asked for."""

    name = "Fetch"
    description = "A test's tool."
    parameters = json_freeze_object({"type": "object", "properties": {"size": {"type": "integer"}}})

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        return Effect("read")

    async def __call__(self, arguments: JsonObject, run: RunContext) -> str:
        size = as_int(arguments.get("size"))
        return f"<{run.call_id}>".ljust(size, "x")


class Tight(ScriptedModel):
    """A scripted model with a window that counts: what does not fit is refused in a provider's way."""

    def __init__(self, *script: object, room: int, tells: str = "both", **options: object) -> None:
        super().__init__(*script, **options)  # pyright: ignore[reportArgumentType]
        self._room = room
        self._tells = tells
        self.refused: list[Request] = []

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        tokens = self.max_input_tokens(request) // BYTES
        if tokens + (request.max_output or 0) > self._room:
            self.refused.append(request)
            told = {"both": (self._room, tokens), "window": (self._room, None), "nothing": (None, None)}[self._tells]
            raise ModelError(
                "context_overflow", "it does not fit", provider="p", status=400, window=told[0], tokens=told[1]
            )
        async for delta in super().stream(request):
            yield delta


def fetch(*sizes: int, round_: int = 0) -> Message:
    """A reply that asks for texts of these sizes."""
    made = (ToolCall(f"c{round_}-{n}", "Fetch", json_freeze_object({"size": size})) for n, size in enumerate(sizes))
    return assistant("", *made, stop="tool_use")


async def run(agent: Agent, prompt: str = "go") -> list[Event]:
    return [event async for event in agent.stream(prompt)]


def finished(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


def results(messages: tuple[Message, ...] | list[Message]) -> list[str]:
    return [result.text for message in messages for result in message.results]


@pytest.mark.parametrize("tells", ["both", "window", "nothing"])
async def test_old_results_are_stubbed_on_overflow(tells: str) -> None:
    log = MemoryLog()
    rounds = [fetch(2_000, round_=n) for n in range(1, 5)]
    model = Tight(fetch(30_000), *rounds, "Done.", room=9_500, tells=tells, limits=ModelLimits(200_000, 2_000))
    agent = Agent(model, tools=[Reader()], resources=Resources(log=log))
    events = await run(agent)
    assert finished(events).result.content == "Done." and finished(events).result.error is None
    said = results(list(agent.messages))
    assert "taken out of the context" in said[0], "the largest went"
    assert all(text.startswith("<c") for text in said[-3:]), "the last rounds stayed"
    kept = Path(said[0].split("kept in ")[1].split(";")[0])
    assert kept.read_text() == "<c0-0>".ljust(30_000, "x"), "the whole is where the stub says"
    notices = [event for event in events if isinstance(event, Notice)]
    assert len(notices) == 1 and notices[0].level == "info" and "were replaced by stubs" in notices[0].text
    check_pairing(agent.messages)
    assert model.refused, "the provider, not our own estimate, said that it was too much"
    await agent.aclose()
    log.close()


async def test_log_keeps_whole_and_folds_to_sent() -> None:
    log = MemoryLog()
    model = Tight(
        fetch(20_000), fetch(20_000, round_=1), *[fetch(10, round_=n) for n in (2, 3, 4)], "Done.", room=9_000
    )
    agent = Agent(model, tools=[Reader()], resources=Resources(log=log))
    await agent.run("go")
    assert history(log.entries(), log.blobs.get) == tuple(agent.messages)
    compacted = [read_body(entry) for entry in log.entries() if entry.kind == "compacted"]
    assert compacted and as_int(compacted[0]["before"]) > as_int(compacted[0]["after"]) > 0
    whole = [entry for entry in log.entries() if entry.kind == "result" and len(entry.line) > 20_000]
    assert len(whole) == 2, "no entry is changed"
    resumed = Agent(Tight("Again.", room=9_000), tools=[Reader()])
    resumed.restore(history(log.entries(), log.blobs.get))
    assert (await resumed.run("and now?")).content == "Again."
    await agent.aclose()
    log.close()


async def test_excess_output_request_is_lowered() -> None:
    model = Tight("Done.", room=5_000, limits=ModelLimits(None, None))
    agent = Agent(model, limits=RunLimits(max_response_tokens=4_990))
    assert (await agent.run("x" * 4_000)).content == "Done."
    asked = model.requests[0].max_output
    assert asked is not None and 2_000 < asked < 4_000
    assert len(model.refused) == 1


async def test_window_told_once_is_kept() -> None:
    """The next call asks for no more output than fits beside its input: it is not refused again."""
    model = Tight("One.", "Two.", room=5_000, limits=ModelLimits(None, None))
    agent = Agent(model, limits=RunLimits(max_response_tokens=4_990))
    await agent.run("x" * 4_000)
    assert (await agent.run("more")).content == "Two."
    assert len(model.refused) == 1


@pytest.mark.parametrize("size", [8_192, 32_768])
async def test_window_as_output_limit_keeps_input_room(size: int) -> None:
    model = Tight("Done.", room=size, limits=ModelLimits(size, size))
    await Agent(model).run("x" * 3 * size)
    asked = model.requests[0].max_output
    assert not model.refused and asked is not None and asked >= 1_024


async def test_our_own_estimate_never_refuses() -> None:
    model = ScriptedModel("Done.", limits=ModelLimits(2_000, 2_000))  # wrong: this provider takes it
    assert (await Agent(model).run("x" * 100_000)).content == "Done."
    assert model.requests[0].max_output == 1_024


async def test_unshrinkable_overflow_says_next_step() -> None:
    model = Tight("Never.", room=2_000)
    agent = Agent(model)
    with pytest.raises(ModelError, match=r"does not fit\. Nothing more .* new session") as caught:
        await agent.run("x" * 20_000)
    assert caught.value.kind == "context_overflow" and len(model.refused) == 1
    assert [message.role for message in agent.messages] == ["user"]


async def test_recovery_ends() -> None:
    refusal = ModelError("context_overflow", "never", provider="p")
    rounds = [fetch(*[3_000] * 20, round_=n) for n in range(5)]
    model = ScriptedModel(*rounds, *[refusal] * 9)
    with pytest.raises(ModelError, match="never"):
        await Agent(model, tools=[Reader()]).run("go")
    assert len(model.requests) == 5 + 4, "three recoveries of one call"


async def test_unread_result_keeps_both_ends() -> None:
    model = Tight(fetch(*[20_000] * 4), "Done.", room=9_000)
    agent = Agent(model, tools=[Reader()])
    assert (await agent.run("go")).content == "Done."
    for number, text in enumerate(results(list(agent.messages))):
        assert text.startswith(f"<c0-{number}>xxx") and "the full text is in /" in text and len(text) < 6_000
    await agent.aclose()


async def test_max_request_tokens_shrinks_too() -> None:
    rounds = [fetch(2_000, round_=n) for n in range(1, 5)]
    model = ScriptedModel(fetch(30_000), *rounds, "Done.")
    agent = Agent(model, tools=[Reader()], limits=RunLimits(max_request_tokens=9_000))
    assert (await agent.run("go")).content == "Done."
    assert max(model.max_input_tokens(request) for request in model.requests) < 9_000 * 3.5
    await agent.aclose()


async def test_answer_cut_by_window_is_asked_again() -> None:
    full = assistant("Half of it", stop="context_overflow")
    rounds = [fetch(9_000, round_=n) for n in range(5)]
    agent = Agent(ScriptedModel(*rounds, full, "The whole."), tools=[Reader()])
    events = await run(agent)
    result = finished(events).result
    assert (result.content, result.error) == ("The whole.", None)
    assert [event.discarded for event in events if isinstance(event, Retrying)] == ["Half of it"]
    assert "Half of it" not in [message.content for message in agent.messages]
    assert result.usage.output > 10, "the half was paid too"
    await agent.aclose()


async def test_answer_cut_without_room_ends_turn() -> None:
    result = await Agent(ScriptedModel(assistant("Half of it", stop="context_overflow"))).run("go")
    assert result.error is not None and result.error.kind == "context_overflow"
    assert result.content == "Half of it"


async def test_unwritable_blobs_end_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog()

    def full(data: bytes) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(log.blobs, "put", full)
    model = Tight(fetch(30_000), "Never.", room=5_000)
    agent = Agent(model, tools=[Reader()], resources=Resources(log=log))
    events = await run(agent)
    assert [event.text for event in events if isinstance(event, Notice)] == [
        "The context cannot be made smaller: [Errno 28] No space left on device"
    ]
    failure = finished(events).result.error
    assert failure is not None and failure.kind == "context_overflow"
    assert results(list(agent.messages))[0].startswith("<c0-0>xx")


def _listing(window: int | None, most: int | None) -> Callable[[object], ModelLimits]:
    return lambda model: ModelLimits(window, most)


async def test_listing_wins_over_model_data() -> None:
    model = ScriptedModel("Done.", limits=ModelLimits(1_000_000, 64_000))
    agent = Agent(model, resources=Resources(model_limits=_listing(8_000, 4_000)))
    await agent.run("x" * 15_000)
    asked = model.requests[0].max_output
    assert asked is not None and 1_024 <= asked < 4_000


async def test_every_family_is_sent_the_stub() -> None:
    """What was encoded is not sent again: the history under the same name has changed."""
    from sagent.providers import Anthropic, Google, OpenAICompatible
    from sagent.testing.server import Call, Fail, FakeProviderServer, Received, Turn

    def answer(request: Received) -> object:
        if request.body.count(b"xxxxxxxxxx") * 10 > 20_000:
            return Fail(400, message="prompt is too long: 9000 tokens > 8000 maximum")
        number = request.body.count(b'"c') + len(server.requests)
        return (
            Turn(text="Done.")
            if len(server.requests) > 6
            else Turn(calls=(Call("Fetch", {"size": 7_000}, f"c{number}"),))
        )

    for family in ("anthropic", "chat", "google"):
        async with FakeProviderServer(answer) as server:  # pyright: ignore[reportArgumentType]
            provider = {
                "anthropic": lambda: Anthropic.from_key("k", base_url=server.url),
                "chat": lambda: OpenAICompatible.from_key("k", base_url=server.url),
                "google": lambda: Google.from_key("k", base_url=server.url),
            }[family]()
            agent = Agent(provider.model("m"), tools=[Reader()])
            result = await agent.run("go")
            assert (result.content, result.error) == ("Done.", None)
            last = server.requests[-1].body
            assert b"taken out of the context" in last and last.count(b"xxxxxxxxxx") * 10 <= 20_000
            await agent.aclose()
            await provider.aclose()
