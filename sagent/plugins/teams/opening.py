"""A team from settings and a file, and its report from the log."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.agent import Agent
from sagent.app.assembly import open_agent
from sagent.config import Settings
from sagent.errors import SagentError
from sagent.events import Event
from sagent.lib.money import in_words
from sagent.plugins.teams.files import TeamFile
from sagent.plugins.teams.rounds import HandOff, last_round
from sagent.plugins.teams.team import Team, TeamResult
from sagent.providers.wire.exchange import OnWaiting, ignore_wait
from sagent.session.log import read_log
from sagent.session.store import find, latest

if TYPE_CHECKING:
    from sagent.providers.wire.collecting import Collecting


@asynccontextmanager
async def open_team(
    settings: Settings,
    file: TeamFile,
    listener: Callable[[Event], None],
    *,
    batches: "Collecting | None" = None,
    on_waiting: OnWaiting = ignore_wait,
) -> AsyncGenerator[Team]:
    """Yield a team with its session open and the events of all its agents passed to `listener`; everything is closed at
    the end. Requests are sent by `batches`; `on_waiting` is as for `open_agent`. The budget is the file's unless the
    person's is smaller or comes from the command line. Raises UsageError, and SessionBusy or SessionCorrupt for the
    session."""
    settings, file = settle_team(settings, file)
    async with open_agent(settings, listener, batches=batches, on_waiting=on_waiting) as lead:
        yield make_team(lead, file)


def settle_team(settings: Settings, file: TeamFile) -> tuple[Settings, TeamFile]:
    """Return the settings of a team's lead, and the team with the advisors of its roles."""
    cap = settings.max_budget_usd
    if not settings.origins.get("max_budget_usd", "").startswith("--"):
        cap = min((each for each in (cap, file.budget_usd) if each is not None), default=None)
    settings = replace(
        settings,
        max_budget_usd=cap,
        model=settings.model or _earlier_model(settings),
        system=settings.system if settings.system is not None else file.system or None,
    )
    roles = file.roles
    if file.unadvised or any(role.advisors for role in roles):  # each role then has its own
        common = tuple(str(advisor) for advisor in settings.advisors)
        roles = tuple(
            role if role.advisors or role.name in file.unadvised else replace(role, advisors=common) for role in roles
        )
        settings = replace(settings, advisors=())
    return settings, replace(file, roles=roles)


def make_team(lead: Agent, file: TeamFile) -> Team:
    """Return the team of a lead."""
    return Team(
        lead,
        file.roles,
        name=file.name,
        mode=file.mode,
        editor=file.editor,
        visible_handoffs=file.visible_handoffs,
        handoff=file.handoff,
    )


def _earlier_model(settings: Settings) -> str | None:
    """Return the model that the roles of a session's last team had by default."""
    name = settings.fork.partition("@")[0] if settings.fork is not None else str(settings.session or "")
    if settings.provider or settings.base_url or not (name or settings.continue_session):
        return None
    with suppress(SagentError, OSError):  # whoever opens the session reports them
        path = find(settings.state_dir, name, settings.cwd) if name else latest(settings.state_dir, settings.cwd)
        found = last_round(read_log(path / "root.jsonl"))
        return None if found is None else found.model or None
    return None


# -- the report --------------------------------------------------------------------------------------------------------


def report(file: TeamFile, result: TeamResult) -> str:
    """Return a team's work as Markdown, from its log: roles, hand-offs, what each handed on."""
    done = (role for role in result.roles if role.state in ("done", "kept"))  # the last one has the team's answer
    answers = [line for each in done for line in ("", f"## {each.name}", "", each.text)]
    return "\n".join([*_head(file, result), *_roles(result), *_handoffs(result.handoffs), *answers]) + "\n"


def _head(file: TeamFile, result: TeamResult) -> Sequence[str]:
    outcome = "done" if result.error is None else f"{result.error.kind}: {result.error.message}"
    cost, saved = result.cost, result.handoffs_saved
    usd = in_words(saved.usd)
    where = [f"- Session: `{result.session_path}`"] if result.session_path else ["- Session: not kept"]
    check = [f"- Check it: `sagent verify {result.session_path} --head {result.head}`"] if result.session_path else []
    sight = f", visible hand-offs: {file.visible_handoffs}" if file.mode == "sequential" else ""
    return [
        f"# Team {file.name}",
        "",
        f"- Outcome: {_line(outcome)}",
        f"- Mode: {file.mode}{sight}",
        f"- Cost: {'≥ ' if cost.unpriced else ''}{in_words(cost.total)}, all rounds of the session",
        *([f"- Saved by hand-offs that are left out or cut: {saved.tokens} tokens, {usd}"] if saved.tokens else []),
        *where,
        f"- Head: `{result.head}`",
        *check,
        "",
        "## Task",
        "",
        *(f"> {line}".rstrip() for line in result.task.splitlines()),
    ]


def _roles(result: TeamResult) -> Sequence[str]:
    rows = [
        (
            role.name,
            role.model,
            role.state if role.error is None else f"failed: {role.error.kind}: {role.error.message}",
            str(role.turns),
            str(role.usage.total_input),
            str(role.usage.output),
            in_words(role.usd),
            f"`{role.agent}`" if role.agent else "",
        )
        for role in result.roles
    ]
    head = ("role", "model", "state", "turns", "tokens in", "tokens out", "cost", "agent")
    return ["", "## Roles", "", *_table(head, rows)]


def _handoffs(handoffs: Sequence[HandOff]) -> Sequence[str]:
    rows: list[tuple[str, ...]] = []
    for handoff in handoffs:
        said, given = handoff.said, handoff.given
        what = f"{said.size} B `{said.sha256[:12]}`" if said.error is None else f"failed: {said.error.kind}"
        begun = ("",) * 5
        if given is not None:
            prompt = f"{given.size} B `{given.sha256[:12]}`"
            budget = "none" if given.cap is None else f"the team's, ${given.cap}"
            budget = budget if given.budget is None else f"${given.budget}"
            sees = (f"{name} ({given.shown[name]} B)" if name in given.shown else name for name in given.visible)
            begun = (prompt, given.model, budget, ", ".join(sees), ", ".join(given.left_out))
        rows.append((handoff.giver or "(task)", handoff.taker or "(answer)", what, *begun, f"`{handoff.entry[:12]}`"))
    head = ("from", "to", "handed on", "prompt", "model", "budget", "sees", "left out", "entry")
    return ["", "## Hand-offs", "", "Sizes are bytes; the rest begins a sha256.", "", *_table(head, rows)]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, tuple("---" for _ in head), *rows]
    return [f"| {' | '.join(_line(cell).replace('|', chr(92) + '|') for cell in line)} |" for line in lines]


def _line(text: str) -> str:
    return " ".join(text.split())


def write_report(directory: Path, result: TeamResult, text: str) -> None:
    """Write `final.md`, the answer unchanged, and `report.md`, without what looks like a secret, to a directory. Raises
    OSError."""
    from sagent.lib.atomic import atomic_output
    from sagent.lib.secrets import redact

    for name, content in (("final.md", result.content + "\n"), ("report.md", redact(text)[0])):
        with atomic_output(directory / name, 0o666) as file:
            file.write(content.encode("utf-8", "replace"))
