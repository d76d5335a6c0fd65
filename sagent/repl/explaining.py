"""Has a model explain a call that the person is asked about. It is not made, and the conversation does not change."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.advisor.extension import AdvisorExtension
from sagent.agent.asking import last_asked, shorten
from sagent.engine.request import make_side_call
from sagent.errors import SagentError
from sagent.lib.figures import money
from sagent.lib.json import json_dump
from sagent.messages import ToolCall, user
from sagent.model import Request, full_name
from sagent.repl.view.lines import Line, printable, wrap

if TYPE_CHECKING:
    from sagent.agent import Agent
    from sagent.policy import Ask

ROLE = "explainer"
MAX_TOKENS = 2_000  # with the thoughts of a model that has them


async def explain(agent: "Agent", call: ToolCall, ask: "Ask", width: int) -> Sequence[Line]:
    """Return the words of the first active advisor, or of the agent's own model; the ledger has the cost."""
    node = agent.tree.get(ask.agent) or agent
    state, model = node.state, node.state.model
    try:
        if isinstance(node.advisory, AdvisorExtension) and (active := node.advisory.roster.active):
            model = node.advisory.roster.model(active[0])
        asked = json_dump({"tool": call.name, "arguments": call.arguments, "directory": str(state.workspace.cwd)})
        task = shorten(last_asked(state))
        words = f"The task:\n{task}\n\nThe call:\n{asked}\n\nWhy the person is asked:\n{ask.reason}"
        system = Path(__file__).with_name("explain.md").read_text("utf-8")
        request = Request(f"{state.path}:{ROLE}:{call.id}", (user(words),), system, max_output=MAX_TOKENS)
        reply, usd = await make_side_call(state, model, request, ROLE, lambda _: None)
    except SagentError as error:
        return wrap([("class:failed", f"It could not be explained: {error}")], width, (("class:failed", "✗ "),))
    price = "an unknown price" if usd is None else money(usd)
    about = f" · {price} · not run, not in the conversation"
    head: Line = (("class:advice", f"? {full_name(model)}"), ("class:dim", about))
    text = printable(reply.message.content.strip()) or "It said nothing."
    bar: Line = (("class:advice", "  │ "),)
    return [*wrap(head, width), *wrap([("", text)], width, bar, bar)]
