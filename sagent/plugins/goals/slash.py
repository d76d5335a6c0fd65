"""`/goal` works until a check says that something holds; `/loop` sends a prompt again and again."""

import asyncio
import re
import time
from typing import TYPE_CHECKING, cast

from sagent.errors import UsageError
from sagent.lib.text import one_line
from sagent.plugins.goals import ATTEMPTS
from sagent.plugins.goals.kept import keep, read
from sagent.repl.commands.command import CommandContext, command

if TYPE_CHECKING:
    from sagent.plugins.goals.goal import Goal

MIN_INTERVAL_SECONDS, MAX_INTERVAL_SECONDS = 1, 7 * 24 * 3_600
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_INTERVAL = re.compile(r"(\d{1,6})\s*(s|m|h|d)(?:ec\w*|in\w*|our\w*|ay\w*)?\s+(?=\S)", re.IGNORECASE)
_ENDS = ("off", "stop", "clear", "end")


@command(here=True)
async def goal(context: CommandContext, text: str = "") -> None:
    """Work until something holds: words, or a command after "!".

    `/goal !make test` continues until the command exits with code 0; `/goal the page loads in a second` until a model
    finds the proof in the results of calls. Alone, it shows the goal and how often it was checked; `/goal off` ends it.
    """
    from sagent.plugins.goals.goal import Goal, policy_of, prompt_for

    agent = context.local
    policy = policy_of(context.opened.surface, agent)
    match text.strip():
        case "":
            context.say(_status(policy.goal))
        case word if word in _ENDS:
            context.say("There is no goal." if policy.goal is None else "The goal is no longer pursued.")
            policy.end()
        case words:
            policy.goal = Goal(agent, words, cast("int", context.settings.of(ATTEMPTS)))
            policy.goal.keep()
            context.prompt(prompt_for(words))


def _status(goal: "Goal | None") -> str:
    if goal is None:
        return "There is no goal. `/goal WORDS` or `/goal !COMMAND` sets one."
    last = f": {goal.last.why}" if goal.last else ""
    return f"{goal.text} · {goal.progress}{last}"


class Loop:
    """A prompt that is sent at equal intervals while its session is open, between its turns."""

    def __init__(self, context: CommandContext, prompt: str, interval_seconds: float, due: float | None = None) -> None:
        self.prompt, self.interval_seconds = prompt, interval_seconds
        self._due = time.time() if due is None else due
        self.sent = 0
        self._context, self._opened = context, context.opened
        self._task = asyncio.create_task(self._run())

    @property
    def done(self) -> bool:
        """True once it has ended, by itself or by `end`."""
        return self._task.done() or self._task.cancelling() > 0

    def end(self) -> None:
        """Send it no more."""
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(max(self._due - time.time(), 0))
            async with self._context.turn:  # between turns
                pass
            try:
                if self._context.opened is not self._opened:
                    return
            except UsageError:  # the session is closed
                return
            if missed := int((time.time() - self._due) // self.interval_seconds):
                self._context.say(f"/loop: {missed} {'runs were' if missed > 1 else 'run was'} missed.")
            self.sent += 1
            self._context.prompt(self.prompt)
            self._due += (missed + 1) * self.interval_seconds
            self.keep()

    def keep(self) -> None:
        """Keep it for the case that this process ends."""
        keep(self._context.local, loop=self.prompt, interval_seconds=self.interval_seconds, due=self._due)


@command(here=True)
async def loop(context: CommandContext, text: str = "") -> None:
    """Send a prompt again and again: `/loop 10m check the build`.

    The interval is a number with s, m, h or d. A turn in progress is not disturbed: the prompt waits for its end.
    Alone, it shows the loop of this session; `/loop off` ends it. When the session is resumed in a terminal, its loop
    goes on and says how many runs were missed.
    """
    shared = context.opened.surface.shared
    known = shared.get(Loop)
    current = known if isinstance(known, Loop) and not known.done else None
    words = text.strip()
    if not words:
        context.say("There is no loop. `/loop 10m PROMPT` starts one." if current is None else _described(current))
        return
    if not context.has_person:
        raise UsageError("A loop lasts as long as a session on a terminal: start it there.")
    if words in _ENDS:
        context.say("There is no loop." if current is None else f"Ended: {_described(current)}")
        keep(context.local, loop="")
    elif words == "on":
        kept = read(context.local.log.path)
        known = MIN_INTERVAL_SECONDS <= kept.interval_seconds <= MAX_INTERVAL_SECONDS
        if current is not None or not kept.loop or not known:
            raise UsageError("There is no loop to go on with." if current is None else "The loop goes on already.")
        shared[Loop] = Loop(context, kept.loop, kept.interval_seconds, kept.due)
    else:
        interval, prompt = read_interval(words)
        shared[Loop] = Loop(context, prompt, interval)
    if current is not None:
        current.end()


def _described(loop: Loop) -> str:
    return f"every {loop.interval_seconds:,.0f} s: {one_line(loop.prompt, 80)} · sent {loop.sent} times"


def read_interval(text: str) -> tuple[int, str]:
    """Return the seconds and the prompt of "10m PROMPT". Raises UsageError."""
    match = _INTERVAL.match(text)
    if match is None:
        raise UsageError("/loop needs an interval and a prompt: `/loop 10m check the build` (s, m, h or d).")
    seconds = int(match[1]) * _UNITS[match[2].lower()]
    if not MIN_INTERVAL_SECONDS <= seconds <= MAX_INTERVAL_SECONDS:
        raise UsageError("/loop: an interval is from one second to seven days.")
    return seconds, text[match.end() :]
