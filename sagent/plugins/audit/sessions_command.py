"""`sagent sessions`: list, search, show, compact, rewind, delete, prune, and what plugins add."""

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sagent.cli.flags import Parser, plugins_of
from sagent.cli.main import carry_out, check_former
from sagent.cli.render import report
from sagent.cli.settings import load_settings, session_path
from sagent.cli.tables import write
from sagent.config import Settings
from sagent.config.plugins import named_errors
from sagent.errors import UsageError
from sagent.lib.json import as_object, json_freeze_object
from sagent.lib.money import UNBILLED, show
from sagent.lib.text import Table, count, printable
from sagent.plugin import resolve
from sagent.plugins.audit.fetched import StoreAt, add_stores, elsewhere, reading
from sagent.plugins.audit.listing import list_sessions
from sagent.plugins.audit.pruning import age, prune
from sagent.plugins.audit.redacted import report_secrets
from sagent.session.folds import history, spend
from sagent.session.log import read_contents, read_log
from sagent.session.retention import Glance, glance, glances
from sagent.session.store import delete, named_logs
from sagent.session.summary import summarize
from sagent.usage import Totals

_OWN = ("list", "show", "search", "compact", "rewind", "prune", "delete")
_MAX_SEARCHED_CHARS = 4_000  # characters of a result's first line to search for secrets if fewer are shown

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from sagent.agent import Agent
    from sagent.events import Event
    from sagent.session.savings import Price

    Opening = Callable[[Settings, Callable[[Event], None]], AbstractAsyncContextManager[Agent]]


def run_sessions(argv: Sequence[str]) -> int:
    plugins = plugins_of(sys.argv[1:])
    if not argv or (argv[0].startswith("-") and argv[0] not in ("-h", "--help")):
        argv = ["list", *argv]
    operation = f"sessions {argv[0]}"
    others = {name: extra for name, extra in plugins.operations("sessions").items() if name not in _OWN}
    for owner, extra in plugins.extras(operation):
        if argv[0] not in others:
            sys.stderr.write(f"sagent: `{operation}` of the plugin {owner} is left out: sagent has one of that name.\n")
            break
        return carry_out(owner, extra.add, f"`{operation}`", argv[1:])
    check_former(plugins, operation)
    parser = Parser("sessions", "List, search, show and change the sessions on this machine.")
    operations = parser.add_subparsers(dest="operation", required=True)
    listing = operations.add_parser("list", help="sessions of this directory, last used first")
    listing.add_argument("--all", action="store_true", help="those of every directory")
    listing.add_argument("--ids", action="store_true", help="print only ids, for scripts")
    listing.add_argument("--costs", action="store_true", help="show what each cost and saved (reads every log)")
    add_stores(listing, listing=True)
    showing = operations.add_parser("show", help="show a conversation and what it cost")
    showing.add_argument(
        "session", nargs="?", help="a path, an id or the beginning of an id (default: the last session)"
    )
    showing.add_argument("--costs", action="store_true", help="show only its cost and where it is stored")
    add_stores(showing)
    searching = operations.add_parser(
        "search", help="search the messages of sessions in every directory; exits with 1 if nothing is found"
    )
    searching.add_argument(
        "words", nargs="+", metavar="WORD", help="words that a message must contain, in upper or lower case"
    )
    searching.add_argument("--here", action="store_true", help="search only the sessions of this directory")
    searching.add_argument("--limit", metavar="N", type=int, default=50, help="show at most N messages (50)")
    compacting = operations.add_parser("compact", help="have a model summarize the conversation, so that less is sent")
    compacting.add_argument("session", help="a path, an id or the beginning of an id")
    compacting.add_argument("hints", nargs="*", help="what to keep in the summary")
    rewinding = operations.add_parser("rewind", help="go back to before a prompt; what came after is kept as a branch")
    rewinding.add_argument("session", help="a path, an id or the beginning of an id")
    rewinding.add_argument(
        "request", nargs="?", help="the prompt's number, or the beginning of its entry's id (default: list the prompts)"
    )
    rewinding.add_argument(
        "what",
        nargs="?",
        choices=("conversation", "files", "both"),
        default="conversation",
        help="default: the conversation only",
    )
    _prune_flags(operations.add_parser("prune", help="delete old sessions of this directory"))
    deleting = operations.add_parser("delete", help="delete sessions")
    deleting.add_argument("session", nargs="+", help="a path, an id or the beginning of an id")
    for choice in operations.choices.values():
        choice.add_cwd()
    for name, extra in others.items():
        operations.add_parser(name, help=extra.help)
    operations.metavar = " | ".join(operations.choices)
    given = parser.parse_args(argv)
    settings = load_settings({"cwd": given.cwd})
    do: Mapping[str, Callable[[Settings, argparse.Namespace], int]] = {
        "list": _list,
        "search": _search,
        "show": _show,
        "compact": _compact,
        "rewind": _rewind,
        "delete": _delete,
        "prune": _prune,
    }
    return do[given.operation](settings, given)


def _delete(settings: Settings, args: argparse.Namespace) -> int:
    for name in args.session:
        path = session_path(settings, name)
        left = ", ".join(each.name for each in delete(path))
        _say(
            f"deleted {path.name}"
            + (f"; {path} also has what is not of the session, and stays: {left}" if left else "")
        )
    return 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def _list(settings: Settings, args: argparse.Namespace) -> int:
    if (place := elsewhere(vars(args))) is not None:
        return _list_elsewhere(place, args)
    cwd = None if args.all else settings.cwd
    found = list_sessions(settings.state_dir, cwd)
    if args.ids:
        for session in found:
            _say(session.id)
        return 0
    if not found:
        _say(
            "No sessions yet."
            if args.all
            else f"No sessions in {settings.cwd} yet; --all lists those of every directory."
        )
    rows: list[tuple[str, ...]] = []
    problems: list[str] = []
    price = _price(settings) if args.costs else None
    for session in found:
        row = _row(session)
        if price is not None:
            summary = summarize(session.path)
            saved = _saved(session.path, price) if summary.compacted and not summary.problem else ""
            row = (*row[:2], summary.bill, saved, *row[2:])
            problems += [f"! {session.id}: {summary.problem}"] if summary.problem else []
        rows.append((*row, session.cwd) if args.all else row)
    write(sys.stdout, [Table(tuple(rows), right=(2, 3, 4) if args.costs else (2,)), *problems])
    if len(found) > 1:
        _say(f"{len(found)} sessions, {_size(sum(session.size for session in found))}")
    return 0


def _list_elsewhere(place: StoreAt, args: argparse.Namespace) -> int:
    """List the sessions of a place that is not this machine. Raises UsageError, and what its store raises."""
    if args.costs:
        raise UsageError(f"--costs reads every log: of one on a {place.store.name}, {place.store.costs}.")
    found = place.rows()
    if not found and not args.ids:
        _say(f"No sessions on this {place.store.name} yet.")
    write(sys.stdout, [Table(tuple(row[:1] if args.ids else row for row in found))])
    return 0


def _price(settings: Settings) -> "Price":
    from sagent.app.models import price_book

    return price_book(settings).price


def _saved(path: Path, price: "Price") -> str:
    """Describe the savings of a session's compactions, "" if there were none."""
    from sagent.plugins.audit.savings import add_savings

    saving = add_savings(named_logs(path), price)
    usd = "an unknown sum" if saving.usd is None else f"{'-' if saving.usd < 0 else ''}${abs(saving.usd):.4f}"
    return f"{usd} saved" if saving.compactions else ""


def _row(session: Glance) -> tuple[str, ...]:
    return session.id, session.last[:16].replace("T", " "), _size(session.size), session.title


def _search(settings: Settings, args: argparse.Namespace) -> int:
    from sagent.session.search import search

    if args.limit < 1:
        raise UsageError(f"--limit {args.limit}: give a number of messages, 1 or more.")
    found = glances(settings.state_dir, settings.cwd if args.here else None)
    hits = list(islice(search((session.path for session in found), args.words), args.limit + 1))
    rows = tuple(
        (hit.session.name, hit.at[:16].replace("T", " "), hit.role if hit.agent == "root" else hit.agent, hit.excerpt)
        for hit in hits[: args.limit]
    )
    write(sys.stdout, [Table(rows)])
    if len(hits) > args.limit:
        _say(f"{args.limit} messages shown of more: give more words, or --limit {2 * args.limit}")
    if not hits:
        where = f" of {settings.cwd}. Leave out --here to search every directory" if args.here else ""
        _say(f"No message matches in any session{where}.")
    return 0 if hits else 1


def _compact(settings: Settings, args: argparse.Namespace) -> int:
    """Compact sessions; return 1 if nothing could be made smaller."""
    from sagent.app import open_agent

    command = " ".join(["/compact", *" ".join(args.hints).split()])
    before, after = _carry_out(_there(settings, args), command, open_agent)
    return 0 if after < before else 1


def _rewind(settings: Settings, args: argparse.Namespace) -> int:
    from sagent.plugins.audit.offline import open_offline

    command = f"/rewind {args.request} {args.what}" if args.request else "/tree"
    _carry_out(_there(settings, args), command, open_offline)
    return 0


def _there(settings: Settings, args: argparse.Namespace) -> Settings:
    """Return the settings for a session in its own directory."""
    path = session_path(settings, args.session)
    cwd = args.cwd or glance(path).cwd
    return load_settings({"session": str(path), **({"cwd": cwd} if cwd and Path(cwd).is_dir() else {})})


def _carry_out(settings: Settings, command: str, opening: "Opening") -> tuple[int, int]:
    """Open a session and run a slash command in it; return its context's tokens before and after."""
    import asyncio

    from sagent.cli.headless import carry_out
    from sagent.events import Event, Notice

    def on_event(event: Event) -> None:
        if isinstance(event, Notice):
            sys.stderr.write(printable(event.text) + "\n")

    async def act() -> tuple[int, int]:
        async with opening(settings, on_event) as agent:
            before = agent.status().context_tokens
            await carry_out(command, settings, agent)
            return before, agent.status().context_tokens

    return asyncio.run(act())


def _prune_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--older-than", metavar="AGE", help="only sessions not used for this long: 12h, 90d, 2w")
    parser.add_argument("--keep", metavar="N", type=int, help="keep at least the last N used")
    parser.add_argument("--all", action="store_true", help="those of every directory, counted together")
    parser.add_argument("--dry-run", action="store_true", help="show what would be deleted, and delete nothing")


def _prune(settings: Settings, args: argparse.Namespace) -> int:
    """Delete old sessions; return 1 if one could not be deleted."""
    if args.older_than is None and args.keep is None:
        raise UsageError("What to delete is not given: give --older-than 90d, --keep 50, or both.")
    if args.keep is not None and args.keep < 0:
        raise UsageError(f"--keep {args.keep}: give a number of sessions, 0 or more.")
    cutoff = time.time() - age(args.older_than).total_seconds() if args.older_than else float("inf")
    found = glances(settings.state_dir, None if args.all else settings.cwd)
    done = list(prune(found, settings.state_dir, cutoff, args.keep or 0, dry=args.dry_run))
    gone = [each.session for each in done if not each.kept]
    kept = [each for each in done if each.kept]
    verb = "would delete" if args.dry_run else "deleted"
    rows = tuple(("kept" if each.kept else verb, *_row(each.session)) for each in done)
    write(sys.stdout, [Table(rows, right=(3,)), *(f"! {each.session.id}: {each.kept}" for each in kept)])
    verb = "would be deleted" if args.dry_run else "deleted"
    _say(f"{len(gone)} of {len(found)} sessions {verb}, {_size(sum(session.size for session in gone))}")
    return 1 if kept and not args.dry_run else 0


def _show(settings: Settings, args: argparse.Namespace) -> int:
    place = elsewhere(vars(args))
    with reading(lambda: session_path(settings, args.session), args.session, place) as path:
        where = path / "root.jsonl" if place is None else place.address
        return _show_at(path, settings, where, costs=args.costs)


def _show_at(path: Path, settings: Settings, log: object, *, costs: bool) -> int:
    from sagent.plugins.audit.savings import add_savings

    summary = summarize(path)
    if not costs:
        _transcript(path)
    _say(f"session  {summary.id}")
    _say(f"log      {log}  ({summary.entries} entries, {_size(summary.size)})")
    files = named_logs(path)
    _costs(spend(entry for file in files for entry in read_log(file)))
    saving = add_savings(files, _price(settings))
    if saving.compactions:
        usd = "an unknown price" if saving.usd is None else show(saving.usd)
        _say(f"saved    {saving.tokens} tokens, {usd}, by {count(saving.compactions, 'compaction')}")
    for line in _further_costs(path, settings):
        _say(line)
    if summary.problem:
        raise UsageError(summary.problem)
    return 0


def _further_costs(path: Path, settings: Settings) -> Iterator[str]:
    """Yield what plugins say of a session's cost. One that fails is named on standard error."""
    for plugin, extra in settings.plugins.extras("session costs"):
        try:
            with named_errors("`session costs`", plugin):
                yield from cast("Callable[[Path, Price], Iterable[str]]", resolve(extra.add))(path, _price(settings))
        except UsageError as error:
            report(f"warning: {error}")


def _transcript(path: Path) -> None:
    """Print the conversation, without text that looks like a secret."""
    from sagent.repl.view.calls import argument_line
    from sagent.transcript.redaction import Redaction

    redaction = Redaction()
    for message in history(read_contents(path / "root.jsonl"), lambda _: b""):
        for line in printable(redaction.text(message.content)).splitlines():
            _say(f"{'>' if message.role == 'user' else ' '} {line}")
        for call in message.calls:
            arguments = json_freeze_object(as_object(redaction.value(call.arguments)))
            _say(f"  ● {call.name} {argument_line(replace(call, arguments=arguments))}")
        for result in message.results:
            first = printable(redaction.text(result.text.strip().split("\n", 1)[0][:_MAX_SEARCHED_CHARS]))[:100]
            _say(f"    {'✗' if result.is_error else '│'} {first}")
    _say("")
    report_secrets(redaction)


def _costs(spent: Totals) -> None:
    usage, cost = spent.whole.usage, spent.cost()
    _say(f"calls    {spent.whole.charges}")
    _say(
        f"tokens   {usage.input} in, {usage.cache_read} read from cache, "
        f"{usage.cache_write + usage.cache_write_1h} written to cache, {usage.output} out"
    )
    atleast = "≥ " if cost.unpriced else ""
    for model, usd in sorted(cost.by_model.items()):
        _say(f"         {model:40} {'unpriced' if model in cost.unpriced and not usd else show(usd)}")
    _say(f"cost     {atleast}{show(cost.total)}")
    if cost.unbilled:
        _say(f"         {show(cost.unbilled)} more count towards a budget ({UNBILLED})")


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size = size / 1000
    return f"{size:.1f} GB"
