"""The policy that asks an advisor without the executor's asking: judged in code, after each turn and before some
calls."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from sagent.advisor.advisory import Advisors
from sagent.advisor.changes import writes
from sagent.advisor.conversation import HELD, TOOL, held_without
from sagent.advisor.destruction import destroys, is_destroyer, programs_of
from sagent.advisor.rules import Trigger, strength
from sagent.advisor.signals import Watch
from sagent.advisor.tool import is_answer, is_consent, message_of, prompt_text, refusal_of
from sagent.events import Advice
from sagent.messages import Message, ToolCall, user
from sagent.peer import Action, Inject
from sagent.policy import Allow, Ask, Policy, Postpone, Turn, Verdict
from sagent.tool import Effect, Workspace

NUDGE_TURN = 3  # turn of a task after which an executor that never asked is reminded once
MAX_RETURNS = 2  # times in a task that a reply ending in an unanswerable question is returned
_AT_THE_END: tuple[Trigger, ...] = ("done", "no_change", "no_calls")
"""Rules without a cooldown, because there is no later time for them; questions of the executor have none either."""


class AdvisorPolicy:
    """A policy with an agent's advisors put around it."""

    def __init__(self, advisors: Advisors, inner: Policy) -> None:
        self._advisors, self._state, self._inner = advisors, advisors.state, inner
        self._watch = Watch()
        self._task: Message | None = None
        self._pause = 0  # turns without automatic consultations
        self._done = self._nudged = self._asked = self._holds = False
        self._returned = 0  # returned replies that asked for unavailable advice
        self._cleared: set[str] = set()  # calls already held for a consultation
        self._at_end = (*_AT_THE_END, *(spotter.name for spotter in advisors.setup.spotters if spotter.at_end))

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        """Apply the inner policy; also ask an advisor before a first change, or one that cannot be undone."""
        verdict = await self._inner.before_tool(call, effect, workspace)
        self._begin()
        may_be = isinstance(verdict, Allow) or (isinstance(verdict, Ask) and self._state.neighbours.ask is not None)
        if call.name == TOOL and "first_write" in self._advisors.triggers() and not self._watch.wrote:
            self._holds = not self._asked  # a first change in the same reply waits for this advice
        if call.name == TOOL or not may_be or self._state.closing:
            return verdict
        changes = effect.kind == "write" or (effect.kind == "execute" and writes(effect.command))
        found = await self._checkpoint(call, effect, workspace, changes=changes)
        if found is not None:
            trigger, what, key = found
            self._cleared.add(key)
            answers = await self._ask(trigger, what)
            self._holds = any(map(is_answer, answers)) or self._holds
            if trigger == "destructive" and not any(map(is_answer, answers)):
                return Postpone(held_without(refusal_of(answers)))
        if self._holds and (changes or found is not None):  # until the executor has read the advice
            return Postpone(HELD)
        self._watch.wrote = self._watch.wrote or changes
        return verdict

    async def after_turn(self, turn: Turn) -> Sequence[Action]:
        """Apply the inner policy; also ask for advice if a rule fires that may be paid for and will be read."""
        actions = list(await self._inner.after_turn(turn) or ())
        self._begin()
        self._watch.observe(turn)
        ended = not turn.reply.calls
        asked = any(call.name == TOOL for call in turn.reply.whole_calls)
        self._asked = self._asked or asked
        doubted = self._advisors.outcomes.judge(turn)
        self._holds = False
        if asked:
            self._watch.heard()
            self._pause = self._advisors.setup.rules.cooldown_turns + 1
        elif self._state.closing:  # nobody would read it
            pass
        elif doubted:
            await self._ask("reconcile", doubted[1], doubted[0])
        elif fired := self._fired(ended=ended):
            self._done = self._done or fired[0] in self._at_end
            answers = await self._ask(*fired)
            if fired[0] == "need_advice" and not any(map(is_answer, answers)):
                self._return(refusal_of(answers), ended=ended)
        elif not ended and self._needs_nudge():
            self._nudged = True
            actions.append(Inject(user(prompt_text("nudge"), sender="sagent"), "next"))
        self._pause = max(0, self._pause - 1)
        self._advisors.turn_over()
        return actions

    def _begin(self) -> None:
        """Begin a new task if a person, or the agent above, has asked for one."""
        task = self._advisors.task()
        if task is not self._task:
            self._task, self._watch = task, Watch()
            self._done = self._nudged = self._asked = False
            self._pause = self._returned = 0
            self._cleared.clear()
            self._advisors.task_calls = 0

    async def _checkpoint(
        self, call: ToolCall, effect: Effect, workspace: Workspace, *, changes: bool
    ) -> tuple[str, str, str] | None:
        """Return the rule that fires before a call: its name, its finding, and a key, by which it is held only once."""
        triggers = self._advisors.triggers()
        if effect.kind in ("write", "execute") and "destructive" in triggers:
            what = " ".join(effect.command.split()) or f"{call.name} {call.arguments!r}"
            key = await asyncio.to_thread(_lost_by, call.name, effect.command, what, workspace.cwd)
            if key and key not in self._cleared:
                return "destructive", f"the executor is about to do something that cannot be undone: {what}", key
        first = changes and not self._watch.wrote and not self._asked and not self._holds
        if first and "first_write" in triggers and "write" not in self._cleared:
            return "first_write", "the executor is about to make its first change in this task", "write"
        return None

    def _fired(self, *, ended: bool) -> tuple[str, str] | None:
        spent = self._at_end if self._done else ()
        triggers = tuple(name for name in self._advisors.triggers() if name not in spent)
        setup = self._advisors.setup
        fired = self._watch.fires(setup.rules, triggers, setup.spotters, ended=ended)
        return fired if fired and (fired[0] in ("need_advice", *self._at_end) or not self._pause) else None

    def _needs_nudge(self) -> bool:
        small = strength(self._state.model.id) == "small" and not self._advisors.in_text
        unset = self._advisors.setup.rules.triggers is None
        return small and unset and not self._nudged and not self._asked and self._watch.turns == NUDGE_TURN

    def _return(self, reason: str, *, ended: bool) -> None:
        """Tell an executor that asked that there is no advice; its question is not accepted as an answer."""
        self._returned += ended
        if not ended or self._returned <= MAX_RETURNS:
            reason = reason.rstrip(".")
            text = f"You asked for advice, but there is none: {reason}. Continue by yourself, without asking again."
            self._advisors.agent.inform(user(text, sender="sagent"))

    async def _ask(self, trigger: str, question: str, name: str = "") -> Sequence[Advice]:
        """Ask, and have the answer read before the next model call."""
        self._pause = self._advisors.setup.rules.cooldown_turns + 1
        asked = await self._advisors.consult(question, name, trigger)
        answers = [one for one in asked if is_answer(one)]
        if answers:
            self._watch.heard()
            self._asked = True
        closing = prompt_text("advised") if self._advisors.in_text else ""  # small models follow the last text
        for answer in answers:
            if trigger not in self._at_end or not is_consent(answer):  # consent leaves the answer as it is
                self._advisors.agent.inform(message_of(answer, self._state.log.blobs, closing))
        return asked


def _lost_by(tool: str, command: str, action: str, cwd: Path) -> str:
    """Return a description of a call that cannot be undone, and the programs that it runs; "" for other calls."""
    if not (destroys(command, cwd) if command else is_destroyer(tool)):
        return ""
    return f"{cwd} {action} {programs_of(command, cwd)}"
