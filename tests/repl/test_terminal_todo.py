"""The list of what is to be done above the input, while it is worked through and when the session goes on."""

import asyncio
from threading import Semaphore

import pytest
from console import Console

from sagent.testing.server import Call, Received, Turn

pytestmark = pytest.mark.needs("tmux")


def todos(*states: str) -> Call:
    steps = [f"Step {number}\x1b[31m" for number in range(1, len(states) + 1)]
    given = zip(steps, states, strict=True)
    return Call("TodoWrite", {"todos": [{"content": text, "status": state} for text, state in given]})


def test_todo_list_shown_during_work(console: Console) -> None:
    turns = iter(
        [
            Turn(calls=(todos("in_progress", "pending", "pending"),)),
            Turn(calls=(todos("completed", "in_progress", "pending"),)),
            Turn(text="So far."),
            Turn(text="Going on."),
            Turn(calls=(todos("completed", "completed", "completed"),)),
            Turn(text="All is done."),
        ]
    )
    seen = Semaphore(1)  # the first turn comes at once, and each other when what is before it was seen

    async def answer(_: Received) -> Turn:
        while not seen.acquire(blocking=False):
            await asyncio.sleep(0.02)
        return next(turns)

    console.serve(answer)
    console.start(width=80, height=24)
    console.type("three steps")
    console.until("0 of 3 done", "▸ Step 1", "☐ Step 2", "☐ Step 3")
    seen.release()
    shown = console.until("☑ Step 1", "▸ Step 2", "☐ Step 3")
    assert shown.rindex("1 of 3 done") < shown.index("▸ Step 2") < shown.index("Esc interrupts")
    seen.release()
    console.until("So far.", gone="Esc interrupts")
    assert "▸ Step 2" not in console.screen
    console.leave()
    console.start("--continue", width=40, height=10)
    console.type("go on")
    assert "Step 3" not in console.until("1 of 3 done ▸ Step 2", "Esc interrupts")
    seen.release()
    console.until("Going on.", gone="Esc interrupts")
    seen.release()
    console.type("the rest")
    console.until("3 of 3 done", "Esc interrupts", gone="▸ Step")
    seen.release()
    console.until("All is done.")
