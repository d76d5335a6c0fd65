"""The tool that proposes a plan. It stays for the whole session in every mode, so that cached requests stay valid."""

from sagent.app.builder import AgentBuilder
from sagent.tools.plan import ExitPlan


async def add(builder: AgentBuilder) -> None:
    """Offer it."""
    policy = builder.policy
    builder.tools.append(ExitPlan(builder.answer, lambda: policy.mode == "plan"))
