"""A plan that the model proposes: the person accepts it, changes it first or refuses it."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from sagent.repl.terminal.picker import Option
from sagent.repl.terminal.questions import Questions

if TYPE_CHECKING:
    from sagent.tools.plan import Settled


async def settle_plan(
    plan: str, questions: Questions, edit: Callable[[str], Awaitable[str]], show: Callable[[str], object]
) -> "Settled | None":
    """Have the person decide on a plan, which they may change with `edit`, and are shown then; None where they leave it
    open."""
    from sagent.tools.plan import Settled

    options = [
        Option("ask", "Yes, and ask before every change", key="y", short="ask"),
        Option("edit", "Yes, and edit in the project freely", key="e", short="edit"),
        Option("change", "Change the plan in the editor first", key="c", short="change"),
        Option("retype", "Change it here, in the input", key="i", short="input"),
        Option("no", "No, and say why", key="n", short="no"),
    ]
    now = plan
    while said := await questions.choose(
        "Carry out this plan?" if now == plan else "Carry out the changed plan?", options
    ):
        changed = now if now != plan else ""
        match said:
            case "change" | "retype":
                given = await (edit(now) if said == "change" else questions.line("plan › ", text=now))
                if (given := (given or "").strip()) and given != now:
                    now = given
                    show(now)
            case "no":
                return Settled(None, reason=((await questions.line("Why not? ")) or "").strip())
            case _:
                return Settled("ask" if said == "ask" else "edit", changed)
    return None
