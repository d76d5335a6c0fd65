"""The policy of mode auto, around the permission policy: a reviewer answers some of its questions."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from sagent.agent import Agent
from sagent.lib.text import one_line
from sagent.messages import ToolCall
from sagent.peer import Action
from sagent.plugins.approvals import MODE
from sagent.plugins.approvals.reviewer import MAX_SHOWN_CHARS, Review, Reviewer, ReviewError
from sagent.policy import Allow, Ask, Deny, Policy, Turn, Verdict
from sagent.policy.permissions import PermissionPolicy
from sagent.session.contents import NoticeEntry
from sagent.tool import Effect, Workspace

MAX_DENIALS = 3
"""Denials in a row, of which the last is put to the person."""


class ReviewedPolicy(Policy):
    """A policy whose questions a reviewer answers while the permission mode is auto, within bounds.

    Every other question, and whatever the reviewer cannot answer, is left to the person.
    """

    def __init__(self, inner: Policy, policy: PermissionPolicy) -> None:
        self.reviewer: Reviewer | None = None  # once there is an agent
        self._agent: Agent | None = None
        self._level: Literal["info", "warning"] = "info"  # of its verdicts
        self._inner, self._policy = inner, policy
        self._denials = 0
        self._allowed: set[tuple[str, ...]] = set()  # calls, each with the task and the rules

    def attend(self, agent: Agent, reviewer: Reviewer, level: Literal["info", "warning"] = "info") -> None:
        """Review the calls of an agent's tree, and tell the verdicts as notices of a level."""
        self._agent, self.reviewer, self._level = agent, reviewer, level

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        """Return the inner policy's verdict; put its question to the reviewer, if that may be answered by one."""
        verdict = await self._inner.before_tool(call, effect, workspace)
        if self._policy.mode != MODE or not isinstance(verdict, Ask) or self.reviewer is None:
            return verdict
        if self._inner is not self._policy and verdict != await self._policy.before_tool(call, effect, workspace):
            return verdict  # another policy's question
        from sagent.plugins.approvals.bounds import beyond_bounds  # with the readers of commands

        bounds = await beyond_bounds(self._policy, call, effect, workspace)
        if isinstance(bounds, Ask):
            return replace(bounds, remedy=bounds.remedy or verdict.remedy)
        if not isinstance(bounds, Allow) or effect.kind == "write":
            return bounds
        return await self._reviewed(call, effect, workspace, verdict, self.reviewer)

    async def after_turn(self, turn: Turn) -> Sequence[Action]:
        """Return the inner policy's actions."""
        return await self._inner.after_turn(turn)

    async def _reviewed(
        self, call: ToolCall, effect: Effect, workspace: Workspace, question: Ask, reviewer: Reviewer
    ) -> Verdict:
        rules = self._policy.rules
        key = (call.name, effect.command, str(workspace.cwd), *reviewer.task, *map(str, (*rules.allow, *rules.deny)))
        if key in self._allowed:
            return Allow()
        shown = f"`{one_line(effect.command, MAX_SHOWN_CHARS)}`"
        try:
            review = await reviewer.review(call, effect, workspace, rules)
        except ReviewError as error:
            self._tell(f"The reviewer could not judge {shown}: {error}.")
            return replace(question, reason=f"{question.reason} The reviewer could not judge it: {error}.")
        self._tell(f"The reviewer {review.model} {'allows' if review.allows else 'denies'} {shown}: {review.reason}")
        if review.allows:
            self._denials = 0
            self._allowed.add(key)
            return Allow()
        return self._denied(review, question)

    def _denied(self, review: Review, question: Ask) -> Verdict:
        self._denials += 1
        if self._denials < MAX_DENIALS:
            return Deny(f"The reviewer {review.model} denies it: {review.reason}")
        self._denials = 0
        denials = f"The reviewer {review.model} has denied {MAX_DENIALS} calls in a row, this one: {review.reason}"
        return replace(question, reason=f"{question.reason} {denials}")

    def _tell(self, text: str) -> None:
        """Show a verdict and log it."""
        if self._agent is not None:
            journal = self._agent.state.journal
            journal.record(NoticeEntry(text))
            journal.notify(self._level, text)
