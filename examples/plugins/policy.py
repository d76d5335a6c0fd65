"""A policy: with `--reviewer M`, a second model is asked about each command before it runs, and may refuse it."""

from collections.abc import Sequence

from sagent import Agent, Resources
from sagent.app.builder import AgentBuilder
from sagent.config.values import name_of
from sagent.messages import ToolCall
from sagent.peer import Action
from sagent.plugin import Part, Plugin, Setting
from sagent.policy import Allow, Deny, Policy, Turn, Verdict
from sagent.tool import Effect, Workspace

REVIEWER = Setting("reviewer", name_of, metavar="M", help="a model that is asked before each command")
SYSTEM = "You review shell commands of a coding agent. Answer with OK, or with one sentence that says what is wrong."


class Reviewed(Policy):
    """Judges as the policy within, and asks a model about commands that would be run."""

    def __init__(self, inner: Policy, reviewer: Agent[object]) -> None:
        self.inner, self.reviewer = inner, reviewer

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        verdict = await self.inner.before_tool(call, effect, workspace)
        if not isinstance(verdict, Allow) or not effect.command:
            return verdict
        answer = (await self.reviewer.run(effect.command)).content.strip()
        return verdict if answer.startswith("OK") else Deny(answer or "The reviewer gave no answer.")

    async def after_turn(self, turn: Turn) -> Sequence[Action]:
        return await self.inner.after_turn(turn)


async def add(builder: AgentBuilder) -> None:
    """Put the review around the policy. What the reviewer costs is on the session's ledger."""
    assert builder.resources.resolve is not None
    model = builder.resources.resolve(str(builder.settings.of(REVIEWER)))
    reviewer: Agent[object] = Agent(
        model, system=SYSTEM, tools=(), resources=Resources(ledger=builder.resources.ledger)
    )
    builder.stack.push_async_callback(reviewer.aclose)
    builder.judge = Reviewed(builder.judge, reviewer)


parts = (Part(":add", ("reviewer",), "around"),)
plugin = Plugin("policy", "has a second model review commands", parts=parts, settings=(REVIEWER,))
