"""The goal and the loop that a resumed session had."""

from pathlib import Path
from typing import TYPE_CHECKING

from sagent.lib.text import one_line
from sagent.plugins.goals.kept import FILE, read

if TYPE_CHECKING:
    from sagent.agent import Agent
    from sagent.app.builder import AgentBuilder


async def add(builder: "AgentBuilder") -> None:
    """Pursue the goal of a resumed session further, and its loop where its person is; elsewhere say which it had."""
    builder.started.append(lambda agent: _restore(builder, agent))


def _restore(builder: "AgentBuilder", agent: "Agent") -> None:
    if not agent.log.path or not Path(agent.log.path, FILE).is_file():
        return
    from sagent.errors import UsageError
    from sagent.plugins.goals.goal import Goal, policy_of

    kept, tell = read(agent.log.path), builder.notices.append
    policy = policy_of(builder.surface, agent)
    if kept.goal and policy.goal is None:
        try:
            policy.goal = Goal(agent, kept.goal, max(kept.max_attempts, 1))
            policy.goal.attempts = kept.attempts
            tell(f"The goal is pursued further ({policy.goal.progress}): {one_line(kept.goal, 200)}")
        except UsageError as error:
            tell(f"The goal {one_line(kept.goal, 100)} is not pursued further: {error}")
    if kept.loop:
        loop = f"every {kept.interval_seconds:,.0f} s: {one_line(kept.loop, 200)}"
        if builder.surface.where == "terminal":
            builder.surface.first.append(("loop", "on"))
            tell(f"The loop goes on, {loop}. `/loop off` ends it.")
        else:
            tell(f"This session has a loop, {loop}. It goes on when the session is resumed in a terminal.")
