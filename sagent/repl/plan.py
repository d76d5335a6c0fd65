"""A plan that the model proposes: the person accepts it, changes it first or refuses it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from sagent.lib.dataclass import dataclass
from sagent.repl.terminal.picker import Option

if TYPE_CHECKING:
    from sagent.tools.plan import Settled


@dataclass(frozen=True, slots=True)
class Hands:
    """What a person settles a plan with: a choice by key, the editor, the input (None: left), a line, and how a plan is
    shown that was changed."""

    choose: "Callable[[str, Sequence[Option[str]]], Awaitable[str | None]]"
    edit: Callable[[str], Awaitable[str]]
    retype: Callable[[str], Awaitable[str | None]]
    line: Callable[[str], Awaitable[str | None]]
    show: Callable[[str], object]


async def settle_plan(plan: str, hands: Hands) -> "Settled | None":
    """Have the person decide on a plan; None where they leave it open."""
    from sagent.tools.plan import Settled

    options = [
        Option("ask", "Yes, and ask before every change", key="y", short="ask"),
        Option("edit", "Yes, and edit in the project freely", key="e", short="edit"),
        Option("change", "Change the plan in the editor first", key="c", short="change"),
        Option("retype", "Change it here, in the input", key="i", short="input"),
        Option("no", "No, and say why", key="n", short="no"),
    ]
    now = plan
    while said := await hands.choose("Carry out this plan?" if now == plan else "Carry out the changed plan?", options):
        changed = now if now != plan else ""
        match said:
            case "change" | "retype":
                given = await (hands.edit(now) if said == "change" else hands.retype(now))
                if (given := (given or "").strip()) and given != now:
                    now = given
                    hands.show(now)
            case "no":
                return Settled(None, reason=((await hands.line("Why not? ")) or "").strip())
            case _:
                return Settled("ask" if said == "ask" else "edit", changed)
    return None
