"""Commands about sessions: the open one and its cost, earlier ones, and exports."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Annotated

from sagent.errors import UsageError
from sagent.lib.figures import bill, count, money
from sagent.lib.money import UNBILLED
from sagent.lib.names import quote_path
from sagent.lib.text import count as counted
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.commands.conversation import saved
from sagent.repl.opening import SessionChoices
from sagent.repl.terminal.picker import Lookup, Option, Stop
from sagent.repl.view.lines import Line, Span, table
from sagent.session.lock import in_use
from sagent.session.retention import Glance, glances
from sagent.session.store import find
from sagent.usage import Sum, Totals, Usage


def _own(context: CommandContext) -> str:
    """Return the id of the open session, "" if there is none."""
    try:
        return context.opened.agent.log.session_id
    except UsageError:
        return ""


def earlier_sessions(context: CommandContext) -> list[Glance]:
    """Return other sessions of this directory that have messages."""
    found, own = glances(context.settings.state_dir, context.settings.cwd), _own(context)
    return [one for one in found if one.title and one.id != own]


def minute(at: str) -> str:
    return at[:16].replace("T", " ")


@command(complete=lambda context: [(one.id, one.title) for one in earlier_sessions(context)], here=True)
async def resume(context: CommandContext, session: str = "") -> None:
    """Continue an earlier session.

    Give its id or the beginning of its id, or choose from a list.
    """
    settings = context.settings
    if context.turn.locked():
        raise UsageError("A turn is in progress: interrupt it first (Esc).")
    if session:
        path = await asyncio.to_thread(find, settings.state_dir, session, settings.cwd)
    else:
        path = await choose_session(context)
    if path is not None:
        context.reopen(replace(settings, session=path, continue_session=False, ephemeral=False, fork=None))


@command(here=True)
async def new(context: CommandContext) -> None:
    """Begin a new session; this one can be resumed."""
    said, chosen = "This is a new session.", None
    with suppress(UsageError):  # no session could be opened
        opened = context.opened
        log = opened.agent.log
        said += f" To go back: /resume {log.session_id}" if log.path and opened.agent.messages else ""
        chosen = replace(SessionChoices.of(opened), rules=None, cap=None)  # rules and budget belong to the old session
    context.reopen(replace(context.settings, session=None, continue_session=False, fork=None), chosen, said)


async def choose_session(context: CommandContext) -> Path | None:
    """Let the person choose an earlier session of this directory. Raises UsageError if there is none."""
    cwd = context.settings.cwd
    found = await asyncio.to_thread(earlier_sessions, context)
    if not found:
        raise UsageError(
            f"There is no earlier session in {cwd}; `sagent sessions list --all` lists those of every directory."
        )
    options = [Option(one.path, one.title, minute(one.last), also=one.id) for one in found]
    lookup = Lookup(partial(_search, [one.path for one in found]), partial(_describe, cwd))
    return await context.pick("Which session?", options, lookup)


def _search(paths: Sequence[Path], words: str, stop: Stop) -> Mapping[Path, str]:
    from sagent.session.search import search

    found: dict[Path, str] = {}
    for path in paths if len(words.strip()) > 1 else ():
        if stop():
            break
        if (said := next(search((path,), words.split()), None)) is not None:
            found[path] = said.excerpt
    return found


def _describe(cwd: Path, path: Path, stop: Stop) -> Sequence[tuple[str, str]]:
    from sagent.session.summary import summarize

    seen = summarize(path, stop)
    files = [quote_path(file.removeprefix(f"{cwd}/")) for file in seen.files]
    facts = [minute(seen.last), seen.bill, seen.model.partition("/")[2]]
    facts += [counted(len(files), "file")] if files else []
    with suppress(OSError):
        facts += ["open elsewhere"] if in_use(path) else []
    rows = [("damage", seen.problem), ("used", " · ".join(filter(None, facts)))]
    rows += [("said", seen.said), ("asked", seen.asked), ("files", ", ".join(files[-20:]))]
    return [row for row in rows if row[1]]


@command(here=True)
async def rename(context: CommandContext, text: Annotated[str, "name"]) -> None:
    """Give this session a name."""
    from sagent.session.contents import Label

    context.local.log.append(Label(text))
    context.say(f"This session is called {text!r} now")


@command()
async def cost(context: CommandContext, budget: str = "") -> None:
    """Show what this session has cost, or change its budget.

    By role, model and agent, with the share read from the cache, and what compactions have saved. The budget is in USD,
    for the whole session, and lasts while it is open.
    """
    ledger = context.opened.agent.ledger
    if budget:
        context.require_person("--max-budget-usd")
        context.require_here("/cost with a budget")
        usd = _usd(budget)
        if ledger.cap is None:
            _check_first_budget(context)
        ledger.cap = usd
    totals, spent = ledger.totals(), ledger.cost()
    whole = totals.whole.usage
    sum_of_all = bill(spent.total, spent.unbilled, least=bool(spent.unpriced))
    most = f" of {money(ledger.cap)}" if ledger.cap is not None else ""
    read = f"{count(whole.total_input)} tokens read, {_cached(whole, '0%')} of them from the cache"
    tokens = f"  {read}; {count(whole.output)} written"
    rows = [*_rows("role", totals.by_role), *_rows("model", totals.by_model), *_rows("agent", totals.by_agent)]
    heading: Line = (("class:heading", f"{sum_of_all}{most}"), ("class:dim", tokens))
    lines = [heading, *table(rows, right=(1, 2, 3, 4))]
    if spent.unpriced:
        lines.append((("class:warning", f"No known price: {', '.join(spent.unpriced)}"),))
    if spent.unbilled:
        lines.append((("class:warning", f"+{money(spent.unbilled)}? is the most of {UNBILLED}"),))
    if ledger.held:
        lines.append((("class:dim", f"{money(ledger.held)} are reserved by calls in flight"),))
    context.write([*lines, *await saved(context), *_on_the_advisor_alone(context, totals)])


def _check_first_budget(context: CommandContext) -> None:
    """Raise UsageError or ConfigError if a session without a budget cannot get one that holds."""
    from sagent.agent.options import check_body

    if any(one.running for one in context.opened.agent.tree.living):
        raise UsageError(
            "Calls in flight would count in no budget: set the first one when nothing runs (Esc interrupts)."
        )
    for name, custom in context.settings.providers.items():
        check_body(name, custom.row.quirks.body, capped=True)


def _usd(text: str) -> Decimal:
    from sagent.config.values import usd
    from sagent.plugin import RefusedError

    try:
        return usd(text)
    except RefusedError as error:
        raise UsageError(f"{text!r} is not a budget: {error}.") from error


def _cached(usage: Usage, nothing: str) -> str:
    return f"{usage.cache_read / usage.total_input:.0%}" if usage.total_input else nothing


def _rows(head: str, sums: Mapping[str, Sum]) -> Iterator[Sequence[Span]]:
    if sums:
        yield ()
        yield [("class:dim", word) for word in (head, "read", "cached", "written", "cost")]
    for name, each in sorted(sums.items(), key=lambda item: -item[1].usd):
        figures = (count(each.usage.total_input), _cached(each.usage, "-"), count(each.usage.output))
        usd = bill(each.usd, each.unbilled, least=bool(each.unpriced))
        yield [("", name), *(("class:dim", figure) for figure in figures), ("", usd)]


def _on_the_advisor_alone(context: CommandContext, totals: Totals) -> Iterator[Line]:
    """Yield the cost of the executors' tokens at the advisor's prices."""
    done = totals.by_role.get("executor", Sum()).usage
    for advisor in context.settings.advisors:
        name, _, model = advisor.model.partition("/")
        usd = context.opened.agent.ledger.prices.price(name, model, done)
        if usd is not None and done != Usage():
            yield ()
            yield (("class:dim", f"  The executor's work on {advisor.model} alone: {money(usd)}"),)
