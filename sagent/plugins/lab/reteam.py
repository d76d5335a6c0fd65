"""Reads the team of a recorded session from its log so that it can be asked again: roles, hand-offs, budgets, task."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sagent.agent import Agent
from sagent.lib.dataclass import dataclass
from sagent.model import Effort
from sagent.plugins.lab.rebuild import sampling_of
from sagent.plugins.lab.recording import Recording
from sagent.plugins.teams.handoffs import HandoffBudget
from sagent.plugins.teams.rounds import HandOff, last_round
from sagent.plugins.teams.shift import PART, TASK, Mode, Role
from sagent.plugins.teams.team import Team, TeamResult
from sagent.session.contents import Handoff
from sagent.session.entries import Entry
from sagent.session.folds import contents


@dataclass(frozen=True, slots=True)
class AskedTeam:
    """The last task of a team as far as it came: roles that had not begun are in no log. `agents` are the paths of the
    roles' logs, of their last try."""

    name: str
    mode: Mode
    editor: str
    visible: int
    task: str
    roles: tuple[Role, ...]
    agents: tuple[str, ...]

    async def ask(self, lead: Agent, moved: Callable[[str], str]) -> TeamResult:
        """Run the team below a lead on the same task; `moved` puts another directory into texts."""
        roles = [replace(role, prompt=moved(role.prompt)) for role in self.roles]
        team = Team(lead, roles, name=self.name, mode=self.mode, editor=self.editor, visible_handoffs=self.visible)
        return await team.run(moved(self.task))


def read_team(
    entries: Sequence[Entry], logs: Mapping[str, Recording], effort_of: Callable[[Recording], Effort | None]
) -> AskedTeam | None:
    """Return the team whose lead has this log; None if its last request was not for a team."""
    found = last_round(entries)
    teams = list(contents(entries, Handoff))
    if found is None:
        return None
    begun: dict[str, HandOff] = {each.taker: each for each in found.handoffs if each.taker and each.given is not None}
    roles = [
        (role, each.given.agent)
        for each in begun.values()
        if each.given is not None and (role := _role(each, logs.get(each.given.agent), found.task, effort_of))
    ]
    if not roles:
        return None
    mode: Mode = "parallel" if teams[-1].mode == "parallel" else "sequential"
    joined = {handoff.taker for handoff in found.handoffs if handoff.giver and handoff.taker and handoff.given is None}
    short = [len(each.given.visible) for each in begun.values() if each.given is not None and each.given.left_out]
    return AskedTeam(
        teams[-1].team,
        mode,
        next(iter(joined), "") if mode == "parallel" else "",
        short[-1] if short else len(roles),
        found.task,
        tuple(role for role, _ in roles),
        tuple(agent for _, agent in roles),
    )


def _role(
    handoff: HandOff, log: Recording | None, task: str, effort_of: Callable[[Recording], Effort | None]
) -> Role | None:
    """Return a role as it began. Its model is the one being asked now, and its limit of turns is not in the log."""
    given, first = handoff.given, log.turns[0] if log is not None and log.turns else None
    if given is None or log is None or first is None or first.prompt is None or not first.came:
        return None
    text = first.came[0].message.content
    start, end = text.find(PART), text.find(f"\n\n{TASK}{task}")
    if start < 0 or end < 0:
        return None
    budget = HandoffBudget(given.handoff_tokens, given.handoff_bytes)
    return Role(
        handoff.taker,
        text[start + len(PART) : end],
        effort=effort_of(log) or "",
        tools=tuple(tool.name for tool in first.prompt.tools if tool.name != "advisor"),
        budget_usd=given.budget,
        options=(first.sent and sampling_of(first.sent.parameters)) or None,
        handoff=budget or None,
    )
