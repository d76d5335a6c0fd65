"""A reviewer: a model that says whether a call may be made. It reads the task, the rules and the call, and no results.

What it cannot be asked, or does not answer plainly, is a ReviewError: the person is asked instead.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from sagent.agent import Agent
from sagent.engine.request import make_side_call
from sagent.errors import SagentError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import json_dump
from sagent.lib.text import head_and_tail, one_line
from sagent.messages import Message, Text, ToolCall, user
from sagent.model import Model, Request, full_name
from sagent.policy.rules import Rules
from sagent.tool import Effect, Workspace

ROLE = "reviewer"
"""Role of its calls in the ledger."""
TIMEOUT_SECONDS = 60.0
MAX_TASK_MESSAGES, MAX_TASK_CHARS = 8, 2_000  # of the person, the last ones; of each
MAX_RULES, MAX_OUTPUT_TOKENS, MAX_REASON_CHARS = 40, 2_000, 300
MAX_SHOWN_CHARS = 200  # of a command, in a notice
FILLED = "[a command or skill, whose text is not shown to you]"
"""Stands for a message that a file or a server has written, and the person has chosen."""
_ATTACHED = re.compile(r"\s*<(?:file|directory|stdin|resource|selection)\b")
_ANSWER = re.compile(r"[\s*#>`]*(ALLOW|DENY)[*`]*\s*[:.,–—-]+[*`\s]*(\S.*)", re.IGNORECASE)


class ReviewError(SagentError):
    """A reviewer could not be asked, or gave no verdict."""


@dataclass(frozen=True, slots=True)
class Review:
    """A reviewer's verdict on a call, with its reason."""

    model: str
    allows: bool
    reason: str


class Reviewer:
    """The reviewer of a session. `name` is that of an advisor or a model; "" is the first advisor, else the model."""

    def __init__(self, agent: Agent, name: str = "", timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._agent, self._name, self._timeout_seconds = agent, name, timeout_seconds
        self._said: dict[str, None] = {}  # by the person, also before a compaction

    @property
    def task(self) -> Sequence[str]:
        """The person's own words in this session, oldest first, without files and pages that come with them."""
        self._said |= dict.fromkeys(own_words(self._agent.state.context.history))
        return list(self._said)[-MAX_TASK_MESSAGES:]

    async def review(self, call: ToolCall, effect: Effect, workspace: Workspace, rules: Rules) -> Review:
        """Ask about a call. Raises ReviewError."""
        state = self._agent.state
        try:
            model = self._model()
            system = Path(__file__).with_name("reviewer.md").read_text("utf-8")
            words = question(self.task, call, effect, workspace, rules)
            request = Request(f"{state.path}:{ROLE}", (user(words),), system, max_output=MAX_OUTPUT_TOKENS)
            async with asyncio.timeout(self._timeout_seconds):
                reply, _ = await make_side_call(state, model, request, ROLE, lambda _: None)
        except TimeoutError:
            raise ReviewError(f"it did not answer in {self._timeout_seconds:g} s") from None
        except SagentError as error:
            raise ReviewError(str(error)) from error
        if reply.message.stop == "max_tokens":
            raise ReviewError("its answer was cut")
        return read_review(full_name(model), reply.message.content)

    def _model(self) -> Model:
        """Return the model to ask. Raises UsageError."""
        advisory = self._agent.advisory
        from sagent.advisor.extension import AdvisorExtension

        roster = advisory.roster if isinstance(advisory, AdvisorExtension) else None
        if roster is not None:
            chosen = [one for one in roster.every if one.name == self._name] if self._name else roster.active
            if chosen:
                return roster.model(chosen[0])
        return self._agent.state.neighbours.resolve(self._name) if self._name else self._agent.state.model


def own_words(history: Sequence[Message]) -> Iterator[str]:
    """Yield what a person has written: neither results nor other senders, nor what is attached to a message."""
    for message in history:
        if message.role == "user" and not message.sender and not message.results:
            first, *others = [part.text for part in message.parts if isinstance(part, Text)] or [""]
            if words := _ATTACHED.split(first, maxsplit=1)[0].strip() or FILLED * (not first and bool(others)):
                yield head_and_tail(words, MAX_TASK_CHARS, "")


def question(task: Sequence[str], call: ToolCall, effect: Effect, workspace: Workspace, rules: Rules) -> str:
    """Return what the reviewer reads. All is JSON, so that no part can pass for another."""
    known = {"allow": list(map(str, rules.allow[:MAX_RULES])), "deny": list(map(str, rules.deny[:MAX_RULES]))}
    made = {"tool": call.name, "directory": str(workspace.cwd), "command": effect.command}
    return "\n".join(
        (
            f"The person's words, oldest first: {json_dump(list(task))}",
            f"Their rules: {json_dump(known)}",
            "The call runs in a sandbox: it writes in the project alone, and reaches no hosts but those allowed.",
            f"The call: {json_dump(made)}",
        )
    )


def read_review(model: str, answer: str) -> Review:
    """Return the verdict in an answer. Raises ReviewError for anything but one verdict with its reason."""
    lines = [line for line in answer.strip().splitlines() if line.strip()]
    found = [match for line in lines if (match := _ANSWER.fullmatch(line))]
    if len(found) != 1:
        raise ReviewError(
            f"its answer was no verdict: {one_line(answer, 80)!r}" if answer.strip() else "it said nothing"
        )
    return Review(model, found[0][1].upper() == "ALLOW", one_line(found[0][2].strip(" *`"), MAX_REASON_CHARS))
