"""The remote agents that an agent may ask, by A2A."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from sagent.agent import Agent
from sagent.app.builder import AgentBuilder
from sagent.plugins.a2a import AGENTS
from sagent.session.contents import ChargeEntry

if TYPE_CHECKING:
    from sagent.usage import Charge


async def add(builder: AgentBuilder) -> None:
    """Offer the reachable agents in the settings until the session is closed. Their work is in the ledger and the log,
    with an unknown price."""
    if find_spec("a2a") is None:
        from sagent.lib.installed import install_command
        from sagent.plugins.a2a import PACKAGES

        builder.notices.append(
            f"Remote agents need a package that is not installed: {install_command('a2a', PACKAGES)}"
        )
        return
    from sagent.plugins.a2a.remote import find_agents

    agents = cast("tuple[str, ...]", builder.settings.of(AGENTS))
    found = await builder.stack.enter_async_context(find_agents(agents, builder.notices))
    builder.tools += found

    def bill_to(agent: Agent) -> None:
        def bill(charge: "Charge") -> None:
            agent.state.journal.record(ChargeEntry(charge))
            agent.ledger.restore((charge,))

        for remote in found:
            remote.bill = bill

    builder.started.append(bill_to)
