"""Sessions that are open in one process: prompts in order, questions, interruption, and an end in the middle."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sagent.errors import SagentError, UsageError
from sagent.events import Event, Notice
from sagent.plugins.hosting.live import ClientOptions, LiveSession, OpenSession, Question
from sagent.plugins.hosting.opening import opening_of
from sagent.testing.script import Call, Turn
from tests.depth import later

FLAGS = {"model": "anthropic/claude-sonnet-4-6"}


class Watched(LiveSession):
    """A session whose events and changes are kept."""

    def __init__(self, wanted: ClientOptions | None = None, **flags: object) -> None:
        self.events: list[Event] = []
        self.change = asyncio.Event()
        super().__init__(
            opening_of({**FLAGS, **flags}), wanted or ClientOptions(), self.events.append, lambda: self.change.set()
        )

    async def question(self) -> Question:
        while not self.questions:
            self.change.clear()
            await asyncio.wait_for(self.change.wait(), 60)
        return next(iter(self.questions.values()))


async def test_prompts_ordered_and_session_resumed(place: Path, provider: list) -> None:
    provider += [Turn("one"), Turn("two"), Turn("three")]
    live = Watched()
    await live.opened()
    first, second = live.prompt("a"), live.prompt("b")
    assert live.busy
    assert ((await first).content, (await second).content) == ("one", "two")
    name = live.agent.log.session_id
    await live.aclose()
    assert live.closed
    with pytest.raises(UsageError, match="closed"):
        live.prompt("c")
    again = Watched(ClientOptions(session=name))
    await again.opened()
    assert (await again.prompt("c")).content == "three"
    assert len(again.agent.messages) == 6
    await again.aclose()


async def test_question_waits_for_own_answer(place: Path, provider: list) -> None:
    calls = tuple(
        Call(name, arguments)
        for name, arguments in (
            ("Write", {"file_path": str(place.parent / "beyond.txt"), "content": "x"}),
            ("AskUser", {"question": "Which?", "options": ["a", "b"]}),
        )
    )
    provider += [Turn("", calls=calls[:1]), Turn("", calls=calls[1:]), Turn("done")]
    live = Watched()
    await live.opened()
    result = live.prompt("go")
    asked = await live.question()
    assert isinstance(asked.about, tuple) and asked.about[0].name == "Write"
    asked.answer.set_result(None)
    while (inquiry := await live.question()) is asked:
        await asyncio.sleep(0)
    assert not isinstance(inquiry.about, tuple) and inquiry.about.options == ("a", "b")
    inquiry.answer.set_result("b")
    assert (await result).content == "done"
    assert (place.parent / "beyond.txt").exists()
    assert not live.questions
    await live.aclose()


@later
async def test_close_or_interrupt_keeps_session(place: Path, provider: list) -> None:
    sleep = Turn("", calls=(Call("Bash", {"command": "touch began; sleep 60"}),))
    provider += [sleep, sleep, Turn("again")]
    live = Watched(permission_mode="full")
    await live.opened()
    for end in (live.interrupt, live.aclose):
        running, waiting = live.prompt("sleep"), live.prompt("and then")
        while not (place / "began").exists():
            await asyncio.sleep(0.02)
        (place / "began").unlink()
        ending = end()
        if ending is not None:
            await ending
            assert running.cancelled()
        else:
            assert (await running).error is not None
        assert waiting.cancelled()
    again = Watched(ClientOptions(session=live.agent.log.session_id))
    await again.opened()
    assert (await again.prompt("go on")).content == "again"
    await again.aclose()


async def test_unopenable_session_explained(place: Path) -> None:
    live = Watched(ClientOptions(session="none-such"))
    with pytest.raises(SagentError, match="none-such"):
        await live.opened()
    assert live.closed


async def test_bad_close_reported(place: Path) -> None:
    @asynccontextmanager
    async def opening(*given: Any) -> AsyncGenerator[OpenSession]:
        async with opening_of(FLAGS)(*given) as opened:
            yield opened
        raise OSError(28, "No space left on device", "root.jsonl")

    events: list[Event] = []
    live = LiveSession(opening, ClientOptions(), events.append, lambda: None)
    await live.opened()
    await live.aclose()
    assert events[-1] == Notice("root", "error", "The session was not closed well: root.jsonl: No space left on device")
