"""Plan mode: what the model is told of it, and the plan that it proposes, which the person accepts or edits."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from sagent.repl.terminal.picker import Option

if TYPE_CHECKING:
    from sagent.policy.permissions import Mode

PLAN = (
    "Plan mode is on: nothing can be written now. Look at what matters first. When it is clear what is to be done, "
    'answer with the plan, under a heading "## Plan": the person accepts or edits it before anything is changed.'
)
PLANNED = "Plan mode is off: you may change what the permissions allow."
_HEADING = re.compile(r"^#{1,4} +(?:the )?plan\b", re.IGNORECASE | re.MULTILINE)
_MODES: "dict[str, Mode]" = {"ask": "ask", "edit": "edit"}


def plan_in(answer: str) -> str:
    """The plan that an answer proposes, "" where it has none."""
    found = _HEADING.search(answer)
    return answer[found.start() :].strip() if found else ""


async def settle_plan(
    plan: str,
    choose: "Callable[[str, Sequence[Option[str]]], Awaitable[str | None]]",
    edit: Callable[[str], Awaitable[str]],
) -> "tuple[Mode, str] | None":
    """The mode in which a plan is carried out and the message that asks for it; None where the person accepts none."""
    if not plan:
        return None
    options = [
        Option("ask", "Yes, and ask before every change", key="y"),
        Option("edit", "Yes, and edit in the project freely", key="e"),
        Option("change", "Change the plan in the editor first", key="c"),
        Option("", "No, go on planning", key="n"),
    ]
    now = plan
    while said := await choose("Carry out this plan?" if now == plan else "Carry out the changed plan?", options):
        if said == "change":
            now = (await edit(now)).strip() or now
            continue
        return _MODES[said], "Carry out the plan." if now == plan else f"Carry out the plan as I changed it:\n\n{now}"
    return None
