"""What finds those tools that are too many to be sent with every request."""

from sagent.app.builder import AgentBuilder
from sagent.tools.find import with_search


async def add(builder: AgentBuilder) -> None:
    """Offer it, where they are too many."""
    builder.tools = [*with_search(builder.tools)]
