"""A plan that the model proposes: the person accepts it, changes it first or refuses it."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from sagent.repl.terminal.picker import Option
from sagent.repl.terminal.questions import Questions

if TYPE_CHECKING:
    from sagent.tools.plan import PlanDecision


async def settle_plan(
    plan: str, questions: Questions, edit: Callable[[str], Awaitable[str]], show: Callable[[str], object]
) -> "PlanDecision | None":
    """Let the person decide on a plan, which they may change with `edit` and see again; None if they leave it open."""
    from sagent.tools.plan import PlanDecision

    now = draft = plan

    def keep(words: str) -> None:
        nonlocal draft
        draft = words

    try:
        while said := await questions.choose(
            "Carry out this plan?" if now == plan else "Carry out the changed plan?", _options(edited=draft != now)
        ):
            changed = now if now != plan else ""
            match said:
                case "change" | "retype":
                    here = said == "retype"
                    given = await (questions.line("plan › ", text=draft, left=keep) if here else edit(draft))
                    if (given := (given or "").strip()) and given != now:
                        show(given)
                    now, draft = (given, given) if given else (now, draft)
                case "no":
                    return PlanDecision(None, reason=((await questions.line("Why not? ")) or "").strip())
                case _:
                    return PlanDecision("ask" if said == "ask" else "edit", changed)
        return None
    finally:
        if draft != now:  # changed but not submitted
            questions.give_back(draft)


def _options(*, edited: bool) -> list[Option[str]]:
    goes_on = "continues with your changes" if edited else ""
    return [
        Option("ask", "Yes, and ask before every change", key="y", short="ask"),
        Option("edit", "Yes, and edit in the project freely", key="e", short="edit"),
        Option("change", "Change the plan in the editor first", goes_on, key="c", short="change"),
        Option("retype", "Change it here, in the input", goes_on, key="i", short="input"),
        Option("no", "No, and say why", key="n", short="no"),
    ]
