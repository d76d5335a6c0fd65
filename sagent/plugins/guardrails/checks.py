"""Checks of what an agent is asked and of what it answers. A rejected prompt costs nothing: no model is called. A
rejected answer goes back to the model with the reason, and is neither the result's content nor its data."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from inspect import isawaitable
from typing import TYPE_CHECKING, TypeAlias, cast

from sagent.agent import Resources
from sagent.errors import UsageError
from sagent.events import Failure, Retrying
from sagent.messages import Message, ToolCall, user
from sagent.peer import Action, Inject, Stop
from sagent.policy import Policy, Turn, Verdict
from sagent.tool import Effect, Workspace

if TYPE_CHECKING:
    from sagent.engine.state import AgentState

KIND = "guardrail"
"""Kind of the error of a run whose prompt or answer was rejected, and sender of the reasons that a model reads."""

Check: TypeAlias = Callable[[Message], str | Awaitable[str | None] | None]
"""Returns why a message is rejected, or None if it is not. It may be async."""


def guarded(
    resources: Resources | None = None,
    *,
    prompts: Sequence[Check] = (),
    answers: Sequence[Check] = (),
    max_retries: int = 1,
) -> Resources:
    """Return resources with which an agent's prompts and answers are checked, the first rejection counts.

    A run whose prompt is rejected calls no model; its result has an error of the kind "guardrail" with the reason.
    After a rejected answer the model reads the reason and answers again, up to `max_retries` times in a run; then the
    result has that error, and no content. Streamed text of a rejected answer is `discarded` of a Retrying event. What a
    check raises is raised by the run. Prompts and answers of agents below are not checked.
    """
    if not isinstance(max_retries, int) or isinstance(max_retries, bool) or max_retries < 0:  # pyright: ignore[reportUnnecessaryIsInstance] -- not everybody has a checker
        raise UsageError(f"max_retries={max_retries!r:.60}: give a whole number from 0")
    for check in (*prompts, *answers):
        if not callable(check):
            raise UsageError(f"{check!r:.60} is not a check: give a function of a message")
    given = resources or Resources()
    before = given.admit

    async def admit(state: "AgentState", prompt: Message | None) -> Sequence[Message] | Failure:
        if not state.above:
            if prompt is not None and (reason := await _reason(prompts, prompt)):
                return Failure(KIND, f"The prompt was rejected: {reason}")
            inner = state.policy.inner if isinstance(state.policy, _CheckingPolicy) else state.policy
            state.policy = _CheckingPolicy(state, inner, answers, max_retries)
        if before is not None:
            return await before(state, prompt)
        return () if prompt is None else (prompt,)

    return replace(given, admit=admit)


async def _reason(checks: Sequence[Check], message: Message) -> str:
    """Return why a message is rejected, "" if it is not."""
    for check in checks:
        reason = check(message)
        said = cast("object", await reason if isawaitable(reason) else reason)
        if said is not None and not isinstance(said, str):
            name = getattr(check, "__name__", type(check).__name__)
            raise UsageError(f"the check {name} returned {said!r:.60}: return the reason of a rejection, or None")
        if said:
            return said
    return ""


class _CheckingPolicy(Policy):
    """The policy of one run, and the checks of its answers."""

    def __init__(self, state: "AgentState", inner: Policy, checks: Sequence[Check], max_retries: int) -> None:
        self.inner, self._state, self._checks, self._left = inner, state, checks, max_retries
        self._rejected = 0

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        return await self.inner.before_tool(call, effect, workspace)

    async def after_turn(self, turn: Turn) -> Sequence[Action]:
        """Return the inner policy's actions, and what follows from a rejected answer."""
        actions = [*(await self.inner.after_turn(turn) or ())]
        state = self._state
        is_answer = turn.agent == state.path and turn.results is None and turn.reply.stop != "pause"
        if not is_answer or any(isinstance(action, Inject) for action in actions):
            return actions
        if not (reason := await _reason(self._checks, turn.reply)):
            return actions
        state.run.replies.clear()  # what was rejected is no result
        if self._rejected >= self._left:
            return [*actions, Stop(f"{KIND}: The answer was rejected: {reason}")]
        self._rejected += 1
        words = f"the answer was rejected: {reason}"
        state.journal.emit(Retrying(state.path, words, KIND, self._rejected, 0.0, turn.reply.content))
        text = f"That answer cannot be given: {reason}\n\nAnswer the request again, so that this does not hold."
        return [*actions, Inject(user(text, sender=KIND), "next")]
