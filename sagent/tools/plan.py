"""Plan mode: its notices for the model, and the ExitPlan tool, which proposes a plan."""

from collections.abc import Callable, Container
from typing import Literal

from sagent.context.plan import EXIT_PLAN, ON
from sagent.errors import ToolError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import JsonObject, as_str
from sagent.peer import Stop
from sagent.tool import Harmless, RunContext, ToolOutput, arguments_schema
from sagent.tools.ask import Answerer, Question

PROPOSED = "planned"  # stop reason of a run that has proposed a plan to nobody in particular
_ON = f"{ON}: nothing can be written now. Look at what matters first. When it is clear what is to be done, "
_BY_TOOL = "call ExitPlan with the plan: the person accepts, changes or refuses it before anything is changed."
_BY_HEADING = (
    'answer with the plan, under a heading "## Plan": the person accepts or edits it before anything is changed.'
)
_OPEN = "The person has not decided on the plan, and plan mode is still on. End your turn: they will write."
PLANNED = "Plan mode is off: you may change what the permissions allow."


def plan_notice(tools: Container[str], *, is_on: bool) -> str:
    """Return the notice for a model with these tools when plan mode begins or ends."""
    return _ON + (_BY_TOOL if EXIT_PLAN in tools else _BY_HEADING) if is_on else PLANNED


@dataclass(frozen=True, slots=True)
class PlanDecision:
    """Decision on a plan: the mode to carry it out in, None if it is refused; the plan as it was changed, and why it
    was refused."""

    mode: Literal["ask", "edit"] | None
    changed: str = ""
    reason: str = ""

    def order(self) -> str:
        """Return the prompt that asks the model to carry it out."""
        return f"Carry out the plan as I changed it:\n\n{self.changed}" if self.changed else "Carry out the plan."

    def answer(self) -> str:
        """Return the decision as the answer to a call."""
        if self.mode is None:
            why = f": {self.reason}" if self.reason else "."
            return f"The person rejected the plan{why}\nPlan mode is still on; propose another plan when you have one."
        how = "asked before every change" if self.mode == "ask" else "free to edit in the project"
        if self.changed:
            return f"The person has changed the plan. Plan mode is off: {how}. Carry out this plan:\n\n{self.changed}"
        return f"The person accepts the plan. Plan mode is off: {how}. Carry it out."


class ExitPlan(Harmless):
    """Shows the plan to a person through `answer`, and returns the decision. Without it the run ends with the plan.
    Outside plan mode (`planning`) a call fails, so that the tool can stay when the mode changes."""

    name = EXIT_PLAN
    quick = True
    description = (
        "In plan mode, when you have looked at what matters: propose the plan, in Markdown. The person decides."
    )
    parameters = arguments_schema("plan", plan={"type": "string"})

    def __init__(self, answer: Answerer | None = None, planning: Callable[[], bool] = lambda: True) -> None:
        self._answer, self._planning = answer, planning

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Propose, and wait. Raises ToolError outside plan mode, for a spawned agent and an empty plan."""
        plan = as_str(arguments.get("plan")).strip()
        if not self._planning():
            raise ToolError("Plan mode is off: do what the person asked for.")
        if "/" in run.agent:
            raise ToolError("Only the first agent proposes plans: end your turn with the plan as your answer.")
        if not plan:
            raise ToolError("The plan is empty: say what to do, and where.")
        if self._answer is None:
            if run.caller is not None:
                run.caller.apply(Stop(PROPOSED))
            return ToolOutput.of("The plan was given to the person.", summary="proposed")
        said = await self._answer(Question(run.agent, "Carry out this plan?", plan=plan))
        if said is None:
            return ToolOutput.of(_OPEN, summary="left open, plan mode is still on")
        return ToolOutput.of(said, summary=said.partition(". ")[0].partition("\n")[0])
