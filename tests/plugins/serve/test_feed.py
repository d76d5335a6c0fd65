"""A feed: whoever follows it hears what matters once and in order, however slow, and from whatever place on."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sagent.events import Finished, Received, Result, TextDelta
from sagent.messages import user
from sagent.plugins.serve import feed
from sagent.plugins.serve.feed import Feed, Item
from sagent.session.contents import MessageEntry, Spawned, StoredMessage
from sagent.session.store import Session
from tests.depth import deep
from tests.waiting import SECONDS

AGENTS = ("root", "root/a", "root/b")


class Stage:
    """A session in which agents say things, each in its own log, and a feed that hears of it."""

    def __init__(self, path: Path) -> None:
        self.session = Session.create_at(path)
        self.session.begin(path)
        self.feed = Feed(lambda: path)
        self.feed.begin()
        self.said: list[str] = []
        for agent in AGENTS[1:]:
            first = self.session.log(agent).append(MessageEntry(StoredMessage.of(user(f"born {agent}"), None)))
            self.session.log().append(Spawned(agent, first.id))
            self.hear(agent, f"born {agent}")

    def say(self, agent: str) -> None:
        text = f"{agent} {len(self.said)}"
        self.session.log(agent).append(MessageEntry(StoredMessage.of(user(text), None)))
        self.hear(agent, text)

    def hear(self, agent: str, text: str) -> None:
        self.said.append(text)
        self.feed.publish(Received(agent, user(text)), self.session.log(agent).head)

    def finish(self, text: str) -> None:
        """End a run, which is in no log either, but known."""
        self.feed.publish(Finished("root", Result(text, (), "end")), self.session.log().head)

    def stream(self, agent: str) -> None:
        """Something that is in no log."""
        self.feed.publish(TextDelta(agent, "piece"), self.session.log(agent).head)


def texts(items: list[Item]) -> list[str]:
    events = [json.loads(item.data) for item in items if not item.name]
    return [event["message"]["parts"][0]["text"] for event in events if event["type"] == "received"]


steps = st.lists(st.tuples(st.sampled_from(("say", "stream", "read", "leave")), st.sampled_from(AGENTS)), max_size=30)


@example(
    steps=[("say", "root/a"), ("stream", "root"), ("read", "root"), *[("say", "root")] * 3], memory=300, restarts=False
)
@settings(max_examples=deep(20, 60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps, memory=st.sampled_from((1, 300, 1 << 20)), restarts=st.booleans())
async def test_feed_complete_and_ordered(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]], memory: int, restarts: bool
) -> None:
    stage = Stage(tmp_path_factory.mktemp("feed") / "session")
    feed.MAX_MEMORY_BYTES, kept = memory, feed.MAX_MEMORY_BYTES
    try:
        heard: list[Item] = []
        place = SimpleNamespace(after="", items=stage.feed.follow())

        async def read(most: int) -> None:
            """Take what there is, at most so many."""
            while most:
                taking = asyncio.ensure_future(anext(place.items))
                if not (await asyncio.wait([taking], timeout=0.03))[0]:
                    taking.cancel()
                    await asyncio.wait([taking])
                    place.items = stage.feed.follow(place.after)
                    return
                heard.append(taking.result())
                place.after = heard[-1].id or place.after
                most -= 1

        await read(4)  # to what happens now
        for what, agent in steps:
            match what:
                case "say":
                    stage.say(agent)
                case "stream":
                    stage.stream(agent)
                case "read":
                    await read(6)
                case _:  # the connection breaks, or the server is started anew
                    await place.items.aclose()
                    if restarts:
                        stage.feed = Feed(lambda: stage.session.path)
                        stage.feed.begin()
                    place.items = stage.feed.follow(place.after)
        end = time.monotonic() + SECONDS
        while len(texts(heard)) < len(stage.said) and time.monotonic() < end:
            await read(1_000)
        await read(1_000)
        assert texts(heard) == stage.said
        await place.items.aclose()
    finally:
        feed.MAX_MEMORY_BYTES = kept
        stage.session.close()


async def test_follower_gets_later_reports(tmp_path: Path) -> None:
    """A server reports how a session stands when somebody follows it: a question that came just before is in that."""
    followed: list[bool] = []
    (tmp_path / "root.jsonl").touch()
    feed = Feed(lambda: tmp_path, lambda: followed.append(feed.followed))
    follower = feed.follow()
    assert (await anext(follower)).name == "reset"
    assert followed == [True]
    feed.report("status", {"questions": ["Which?"]})
    async with asyncio.timeout(60):
        assert [(await anext(follower)).name for _ in range(2)] == ["live", "status"]
    await follower.aclose()


def test_unknown_id_replays_everything(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "s")
    stage.say("root")
    every = list(stage.feed.past())
    for digit in "0123456789abcdef":  # some entry's id begins with it, or none does
        assert list(stage.feed.past(digit)) == every
    assert list(stage.feed.past(every[0].id)) == every[1:]


async def taken(follower: AsyncIterator[Item], *names: str) -> list[Item]:
    """What comes up to the first item with one of the names."""
    found = [await anext(follower)]
    while found[-1].name not in names:
        found.append(await anext(follower))
    return found


def results(items: list[Item]) -> list[str]:
    events = [json.loads(item.data) for item in items if not item.name]
    return [event["result"] for event in events if event["type"] == "result"]


async def test_result_during_replay_comes_once(tmp_path: Path) -> None:
    """A run ends after a client has begun to follow, and before the logs are read for it."""
    stage = Stage(tmp_path / "s")
    stage.say("root")
    follower = stage.feed.follow()
    assert (await anext(follower)).name == "reset"
    stage.finish("one")
    stage.feed.report("end", {})
    assert results(await taken(follower, "end")) == ["one"]
    await follower.aclose()


@pytest.mark.parametrize("memory", [1, 1 << 20])
async def test_each_result_comes_once_from_any_id(tmp_path: Path, memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the last item was that a client got, from memory or from the logs, and whatever came meanwhile."""
    monkeypatch.setattr(feed, "MAX_MEMORY_BYTES", memory)
    stage = Stage(tmp_path / "s")
    stage.say("root")
    early = [await taken(stage.feed.follow(), "live")]
    stage.finish("one")
    stage.say("root/a")
    early.append(await taken(stage.feed.follow(), "live"))
    for _ in range(2):
        stage.say("root")
    stage.finish("two")
    stage.feed.report("end", {})  # nothing else says that what is in memory was taken
    for items in early:
        for place in range(len(items)):
            got = items[: place + 1]
            after = next((item.id for item in reversed(got) if item.id), "")
            found = await taken(stage.feed.follow(after), "live", "end")
            assert results(got + found) == ["one", "two"], (place, after)
