"""An agent's spans in Logfire, by the conventions for generative AI. Needs `pip install logfire`.

LOGFIRE_TOKEN=... python examples/stack/logfire_spans.py       (without a token, nothing is sent)
"""

import logfire

from sagent import Agent
from sagent.messages import ToolCall
from sagent.plugins.telemetry import Telemetry
from sagent.testing import ScriptedModel


def area(width: float, height: float) -> float:
    """The area of a rectangle."""
    return width * height


logfire.configure(service_name="shop", send_to_logfire="if-token-present", console=False)
agent = Agent(ScriptedModel(ToolCall("1", "area", {"width": 4, "height": 5}), "20 square metres."), tools=[area])
stop = Telemetry(capture="content").watch(agent)  # with the tracers and meters that Logfire has set up
with logfire.span("order {number}", number=7):  # the agent's run is below it
    print(agent.run_sync("How large is a room of 4 by 5 metres?").content)
stop()
logfire.force_flush()
