"""A plan that the model proposes: the person accepts it, changes it first or refuses it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from sagent.lib.dataclass import dataclass
from sagent.repl.terminal.picker import Option

if TYPE_CHECKING:
    from sagent.policy.permissions import Mode

_MODES: "dict[str, Mode]" = {"ask": "ask", "edit": "edit"}


@dataclass(frozen=True, slots=True)
class Hands:
    """What a person settles a plan with: a choice by key, the editor, the input (None: left), a line, and how a plan is
    shown that was changed."""

    choose: "Callable[[str, Sequence[Option[str]]], Awaitable[str | None]]"
    edit: Callable[[str], Awaitable[str]]
    retype: Callable[[str], Awaitable[str | None]]
    line: Callable[[str], Awaitable[str | None]]
    show: Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Settled:
    """What came of a plan: the mode to carry it out in, None where it is refused; the plan as it was changed, and why
    it was refused."""

    mode: "Mode | None"
    changed: str = ""
    reason: str = ""

    def order(self) -> str:
        """What asks the model to carry it out."""
        return f"Carry out the plan as I changed it:\n\n{self.changed}" if self.changed else "Carry out the plan."

    def answer(self) -> str:
        """The same as the answer to a call."""
        if self.mode is None:
            why = f": {self.reason}" if self.reason else "."
            return (
                f"The person does not accept the plan{why}\nPlan mode goes on; propose another plan when you have one."
            )
        how = "asked before every change" if self.mode == "ask" else "free to edit in the project"
        if self.changed:
            return f"The person has changed the plan. Plan mode is off: {how}. Carry out this plan:\n\n{self.changed}"
        return f"The person accepts the plan. Plan mode is off: {how}. Carry it out."


async def settle_plan(plan: str, hands: Hands) -> Settled | None:
    """Have the person decide on a plan; None where they leave it open."""
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
                return Settled(_MODES[said], changed)
    return None
