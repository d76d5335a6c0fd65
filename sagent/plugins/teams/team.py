"""A team: named roles that work on one task, in sequence or in parallel, and pass on their findings."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Never

from sagent.agent.agent import Agent
from sagent.agent.agent_tool import Stage
from sagent.agent.asking import Prompt
from sagent.agent.resources import check_kind, check_whole
from sagent.agent.tree import Node, check_usd
from sagent.errors import UsageError
from sagent.events import Failure, Result
from sagent.lib.dataclass import dataclass
from sagent.lib.json import valid_text
from sagent.messages import Message, Text, assistant, user
from sagent.model import EFFORTS, full_name
from sagent.peer import Switch
from sagent.plugins.teams.handoffs import HandoffBudget, RoleReport, report_role
from sagent.plugins.teams.pattern import Pattern, media_of
from sagent.plugins.teams.rounds import HandOff, Round, last_round
from sagent.plugins.teams.shift import Mode, Role, RoleHandoff, Setup, Shift, sections
from sagent.usage import Saving, Usage

MODES: tuple[Mode, ...] = ("sequential", "parallel")
VISIBLE = 4  # hand-offs that a role sees
ROLE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True)
class TeamResult(Result):
    """The result of a team: `roles` in their order, `handoffs` as they are in the log.

    If a role failed, `error` names it and has its kind; `content` is then the answers of the others.
    """

    roles: tuple[RoleReport, ...] = ()
    handoffs: tuple[HandOff, ...] = ()
    task: str = ""

    @property
    def handoffs_saved(self) -> Saving:
        """The tokens that the roles would have been sent in addition if each had seen all earlier hand-offs in full."""
        return sum((role.saving for role in self.roles), Saving())


class Team(Pattern):
    """Roles that work on one task below a lead: an agent that makes no calls itself, but has the log and the ledger.

    "sequential": each role sees the task and the last `visible_handoffs` hand-offs; the last role's answer is the
    team's. "parallel": all roles but the `editor` work on the task at once. The editor combines their answers into one;
    without an editor, the answers are joined. `handoff` limits how much of each hand-off the following prompts show,
    unless a role has a limit of its own; the default is 40,000 characters.

    `run` with the same task resumes a round that did not end well, in this process or a later one: roles that have
    handed on are not run again, unless their prompt would now be different.

    Raises UsageError for an invalid role, before anything is spent.
    """

    def __init__(
        self,
        lead: Agent[Never],
        roles: Sequence[Role],
        *,
        name: str = "team",
        mode: Mode = "sequential",
        editor: str = "",
        visible_handoffs: int = VISIBLE,
        handoff: HandoffBudget | None = None,
    ) -> None:
        super().__init__((lead,))
        check_kind("roles", roles, Iterable, "a list of roles, [Role(...), ...]")
        if strangers := [each for each in roles or () if not isinstance(each, Role)]:  # pyright: ignore[reportUnnecessaryIsInstance] -- not everybody has a checker
            raise UsageError(f"{strangers[0]!r:.60} is not a role: use Role(name, prompt)")
        self.name = name
        self._lead: Node = lead
        self._finish = lead.resources.finish
        self._setup = Setup(tuple(roles or ()), name, mode, editor, visible_handoffs, handoff or HandoffBudget())
        self._watchers: list[Callable[[RoleReport], None]] = []
        self._check()

    @property
    def roles(self) -> Sequence[Role]:
        return self._setup.roles

    @property
    def session_path(self) -> str:
        """The session's directory; "" if nothing is kept."""
        return self._lead.log.path

    @property
    def unfinished(self) -> str | None:
        """The task of the last round if it did not end well; `run` resumes it. None if there is none."""
        found = last_round(self._lead.log.entries())
        return found.task if found is not None and found.answer is None else None

    def watch(self, watcher: Callable[[RoleReport], None]) -> None:
        """Call a function with the report of every role when it begins and when it ends."""
        self._watchers.append(watcher)

    async def run(self, prompt: Prompt, *, deps: object = None) -> TeamResult:
        """Carry out a task. A role's failure is part of the result; only UsageError and OSError are raised."""
        result = await super().run(prompt, deps=deps)
        return result if isinstance(result, TeamResult) else self.so_far(result.error)

    def so_far(self, failure: Failure | None = None) -> TeamResult:
        """Return the result of the last round so far, from the log; `failure` says why it is incomplete."""
        found = last_round(self._lead.log.entries())
        result = _read_result(self._lead, self._setup.roles, found)
        if failure is None:
            return result
        reason = "interrupted" if failure.kind == "interrupted" else "error"
        return replace(result, stop_reason=reason, error=failure)

    async def perform(self, prompt: Message, stage: Stage) -> TeamResult:
        """Return the team's work: below its lead, or, as a tool, below the calling agent."""
        caller = stage.caller
        if media_of(prompt):
            raise UsageError("a team's task is text: save images and documents in files that its roles can read")
        task = valid_text(prompt.content).strip()  # as the log will have it
        if not task:
            raise UsageError("a team needs a task: what is it to do?")
        lead = caller or self._lead
        if caller is None and lead.running:
            raise UsageError(f"{lead.path} is running: a team's lead makes no calls of its own")
        if caller is None:
            lead.reopen()
        past = last_round(lead.log.entries()) if caller is None else None
        taken_up = past is not None and past.answer is None and past.task == task
        shift = Shift(self._setup, self._notify, lead, stage, task, past if taken_up else None)
        if caller is None and not taken_up:
            shift.say(user(task))
        result = await (shift.one_by_one() if self._setup.mode == "sequential" else shift.side_by_side())
        if caller is None and result.error is None:
            shift.say(assistant(result.content, model=result.model))
        if caller is None and (finish := self._finish) is not None:  # the lead has no run to end
            await finish()
        await shift.keep()
        log = lead.log
        result = replace(
            result, session_id=log.session_id, session_path=log.path, head=log.head, denials=tuple(shift.denials)
        )
        found = last_round(log.entries())
        logged = _read_result(lead, self._setup.roles, found) if caller is None else TeamResult("", (), "")
        own = {field.name: getattr(result, field.name) for field in fields(Result)}
        return TeamResult(**own, roles=logged.roles, handoffs=logged.handoffs, task=task)

    def _notify(self, report: RoleReport) -> None:
        for watcher in self._watchers:
            watcher(report)

    def _check(self) -> None:
        """Raise UsageError for an impossible request, before any money is spent."""
        setup = self._setup
        if setup.mode not in MODES:
            raise UsageError(f"mode: {setup.mode!r} is not one of {', '.join(MODES)}")
        check_whole(f"visible_handoffs={setup.visible_handoffs!r:.60}", setup.visible_handoffs)
        for role in (None, *setup.roles):
            budget = setup.handoff if role is None else setup.handoff_of(role)
            whose = "" if role is None else f"role {role.name}: "
            for kind, most in (("tokens", budget.tokens), ("bytes", budget.bytes)):
                if most is not None:
                    check_whole(f"{whose}HandoffBudget({kind}={most!r:.60})", most, 1)
        if not setup.roles:
            raise UsageError("a team needs at least one role")
        names = [str(role.name) for role in setup.roles]
        if twice := [name for name in names if [other.lower() for other in names].count(name.lower()) > 1]:
            raise UsageError(f"two roles are called {twice[0]!r}: give each its own name")
        if setup.editor and setup.mode == "sequential":
            raise UsageError("an editor combines answers given in parallel; in a sequence the last role does that")
        if setup.editor and (setup.editor not in names or len(names) < 2):
            raise UsageError(f"the editor {setup.editor!r} must be one of at least two roles: {', '.join(names)}")
        live = self._lead.tree.limits.max_live
        if setup.mode == "parallel" and len(names) > live:
            raise UsageError(f"{len(names)} roles cannot be at work at once: at most {live} agents may be alive")
        for role in setup.roles:
            try:
                self._check_role(role)
            except UsageError as error:
                raise UsageError(f"role {role.name}: {error}") from error

    def _check_role(self, role: Role) -> None:
        if not isinstance(role.name, str) or not isinstance(role.prompt, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- as above
            raise UsageError("its name and its prompt must be strings")
        if not ROLE_NAME.fullmatch(role.name) or role.name == "parent":
            raise UsageError("a role's name is a letter, then letters, digits, - and _, at most 32")
        if not role.prompt.strip():
            raise UsageError("it needs a prompt that says what it is to do")
        if role.max_turns is not None:
            check_whole(f"max_turns={role.max_turns!r:.60}", role.max_turns, 1)
        if role.budget_usd is not None:
            check_usd(role.budget_usd)
        if role.effort and role.effort not in EFFORTS:
            raise UsageError(f"unknown effort {role.effort!r}; one of {', '.join(EFFORTS)}")
        offered = {tool.name.lower(): tool.name for tool in self._lead.tools}
        if lost := [name for name in role.tools or () if name.lower() not in offered]:
            there = ", ".join(offered.values()) or "none"
            raise UsageError(f"there is no tool {lost[0]!r} to use; there are {there}. --tools chooses others")
        if role.model and role.model != full_name(self._lead.model):
            self._lead.check(Switch(model=role.model))
        if role.advisors and self._lead.advisory is not None:
            raise UsageError("the lead has advisors, which all roles use: give them to the lead or to this role")
        for advisor in role.advisors:
            self._lead.check(Switch(advisor=advisor))


def _read_result(lead: Node, roles: Sequence[Role], team_round: Round | None) -> TeamResult:
    if team_round is None:
        return TeamResult("", (), "end", roles=tuple(RoleReport(role.name) for role in roles))
    reports = tuple(report_role(lead, team_round, role.name) for role in roles)
    text = sections([RoleHandoff(each.name, each.text, each.agent) for each in reports if each.state == "done"])
    text = text if team_round.answer is None else team_round.answer
    return TeamResult(
        text,
        (Text(text),) if text else (),
        "end",
        usage=sum((report.usage for report in reports), Usage()),
        cost=lead.ledger.cost(),
        turns=sum(report.turns for report in reports),
        session_id=lead.log.session_id,
        session_path=lead.log.path,
        head=lead.log.head,
        roles=reports,
        handoffs=team_round.handoffs,
        task=team_round.task,
    )
