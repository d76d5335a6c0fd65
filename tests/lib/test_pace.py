"""Many pieces of work in one event loop, and what is left of it for others."""

import asyncio
import time
from itertools import pairwise

import pytest

from sagent.lib.pace import ABREAST, give_way


async def test_sequential_work_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.lib.pace.ROUND_SECONDS", 60.0)
    rounds = 0

    async def count() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    for _ in range(100):
        await give_way()
    counting.cancel()
    assert rounds == 0


async def test_others_get_turns_among_many() -> None:
    done = list[int]()
    seen = list[int]()

    async def work(number: int) -> None:
        await give_way()
        time.sleep(0.005)
        done.append(number)

    async def watch() -> None:
        while True:
            seen.append(len(done))
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    await asyncio.gather(*map(work, range(20)))
    watching.cancel()
    assert done == list(range(20))
    assert max(after - before for before, after in pairwise(seen)) <= ABREAST


async def test_cancelled_waiter_delays_nobody() -> None:
    done = list[int]()

    async def work(number: int) -> None:
        await give_way()
        time.sleep(0.005)
        done.append(number)

    tasks = [asyncio.create_task(work(number)) for number in range(10)]
    await asyncio.sleep(0)
    for task in tasks[1:9]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert done == [0, 9]


def test_ended_loop_delays_no_other() -> None:
    async def leave() -> None:
        await give_way()
        time.sleep(0.005)
        waiting = asyncio.create_task(give_way())  # noqa: RUF006, F841 -- left waiting on purpose
        await asyncio.sleep(0)

    async def work() -> str:
        await give_way()
        return "done"

    asyncio.run(leave())
    assert asyncio.run(asyncio.wait_for(work(), 60)) == "done"
