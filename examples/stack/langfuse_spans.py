"""An agent's spans in Langfuse: agents, generations with tokens and USD, tools. Needs `pip install langfuse`.

LANGFUSE_PUBLIC_KEY=... LANGFUSE_SECRET_KEY=... python examples/stack/langfuse_spans.py
"""

from langfuse import get_client, propagate_attributes

from sagent import Agent
from sagent.messages import ToolCall
from sagent.plugins.telemetry import Telemetry
from sagent.testing import ScriptedModel


def area(width: float, height: float) -> float:
    """The area of a rectangle."""
    return width * height


langfuse = get_client()  # sets up the tracers that Telemetry uses
agent = Agent(ScriptedModel(ToolCall("1", "area", {"width": 4, "height": 5}), "20 square metres."), tools=[area])
stop = Telemetry(capture="content").watch(agent)
with propagate_attributes(user_id="ann", tags=["rooms"]):
    print(agent.run_sync("How large is a room of 4 by 5 metres?").content)
stop()
langfuse.flush()
