"""The tool that proposes a plan. It stays for as long as the session lives, whatever its mode, so that what is cached
of its requests stays good."""

from sagent.app.builder import AgentBuilder
from sagent.tools.plan import ExitPlan


async def add(builder: AgentBuilder) -> None:
    """Offer it."""
    policy = builder.policy
    builder.tools.append(ExitPlan(builder.answer, lambda: policy.mode == "plan"))
