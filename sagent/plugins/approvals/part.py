"""Adds the reviewer to an agent."""

from sagent.agent import Agent
from sagent.app.builder import AgentBuilder
from sagent.plugins.approvals import REVIEWER
from sagent.plugins.approvals.policy import ReviewedPolicy
from sagent.plugins.approvals.reviewer import Reviewer


async def add(builder: AgentBuilder) -> None:
    """Have a reviewer answer in mode auto. Raises UsageError for an unknown model."""
    name = str(builder.settings.of(REVIEWER) or "")
    if name and not any(name == advisor.name for advisor in builder.settings.advisors):
        builder.choice.resolve(name)
    policy = ReviewedPolicy(builder.judge, builder.policy)
    builder.judge = policy

    def attend(agent: Agent) -> None:
        # without a person who sees each call, only warnings are shown
        policy.attend(agent, Reviewer(agent, name), "info" if builder.answer is not None else "warning")

    builder.started.append(attend)
