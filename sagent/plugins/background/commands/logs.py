"""`sagent logs`: what a background session has said and done so far, and what it does next."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, TextIO

from sagent.cli.flags import Parser
from sagent.cli.headless import exit_code
from sagent.cli.render import MAX_COLUMNS, Transcript, binary_safe, report
from sagent.codec import encode_message
from sagent.errors import UsageError
from sagent.lib.json import json_dump
from sagent.lib.text import printable
from sagent.plugins.audit.fetched import add_stores, elsewhere, locating
from sagent.plugins.background.commands.listing import SESSION, add_form, describe, read_form, state_directory
from sagent.plugins.background.peer import Viewer
from sagent.plugins.background.place import UnreachableError
from sagent.plugins.background.records import Record, find
from sagent.plugins.hosting.followed import whole_replies, without_open_calls
from sagent.repl.view.blocks import past_blocks, render_block
from sagent.session.blobs import BlobDirectory
from sagent.session.contents import ResultEntry
from sagent.session.folds import contents, history
from sagent.session.log import read_contents
from sagent.session.view import MemoryLogView

if TYPE_CHECKING:
    from sagent.messages import Message
    from sagent.session.entries import Entry
    from sagent.session.view import LogView

MAX_MESSAGES = 100  # that are shown unless --all is given


def run_logs(argv: Sequence[str]) -> int:
    """Show a session. Raises UsageError, SessionNotFound and SessionCorrupt."""
    parser = Parser("logs", "Show what a background session has said and done.")
    parser.add_argument("session", nargs="?", default="", metavar="SESSION", help=SESSION)
    parser.add_argument("-f", "--follow", action="store_true", help="go on until it rests; then exit as it did")
    parser.add_argument("-a", "--all", action="store_true", help=f"show more than the last {MAX_MESSAGES} messages")
    add_stores(parser)
    add_form(parser)
    given = parser.parse_args(argv)
    as_json, state = read_form(given.output_format), state_directory()
    if as_json and given.follow:
        raise UsageError("--follow prints text: give it without --output-format json.")
    out, name = binary_safe(sys.stdout), given.session
    with locating(lambda: Path(find(state, name).path), name, elsewhere(vars(given))) as (path, place):
        record = None if place is not None else find(state, name)
        if record is None and given.follow:
            raise UsageError(
                f"--follow is for sessions of this machine: sagent attach {given.session} --watch follows."
            )
        limit = None if given.all else MAX_MESSAGES
        if record is not None and given.follow:
            with suppress(UnreachableError):  # it has ended: nothing follows
                return asyncio.run(_follow(state, record, out, limit))
            record = find(state, record.id)
        _print(out, path, record, as_json=as_json, limit=limit)
    if record is None or as_json:
        return 0
    report(f"session {record.id}: {record.condition}")
    return 0


def _print(
    out: TextIO, path: Path, record: Record | None, *, as_json: bool, limit: int | None, until: str = ""
) -> "Sequence[Message]":
    """Print the last messages of a session, up to the entry `until` if that is given; return them."""
    log = read_contents(path / "root.jsonl")
    if until:
        log = _up_to(log, until)
    messages = history(log, BlobDirectory(path / "blobs").get)
    messages = messages[-limit:] if limit else messages
    if as_json:
        shown = [encode_message(message, None) for message in messages]
        head = {"id": path.name} if record is None else describe(record)
        out.write(json_dump({**head, "messages": shown}) + "\n")
        out.flush()
    else:
        _show(out, without_open_calls(messages) if record is not None and record.is_open else messages, log)
    return messages


def _up_to(log: "LogView", head: str) -> "LogView":
    """Return the entries of a log up to one of them."""
    entries: list[Entry] = []
    for entry in log:
        entries.append(entry)
        if entry.id == head:
            break
    return MemoryLogView(entries)


def _show(out: TextIO, messages: "Sequence[Message]", log: "LogView") -> None:
    width = max(get_terminal_size().columns - 1, 40) if out.isatty() else MAX_COLUMNS
    for block in past_blocks(messages, "root", len(messages) or 1, contents(log, ResultEntry)):
        out.writelines(
            printable("".join(text for _, text in row).rstrip()) + "\n" for row in render_block(block, width)
        )
    out.flush()


async def _follow(state_dir: Path, record: Record, out: TextIO, limit: int | None) -> int:
    """Attach to a session, print what its log had then, and every event since. Raises UnreachableError if its process
    has ended already."""
    async with Viewer.attached(state_dir, record) as peer:
        shown = _print(out, Path(record.path), peer.record, as_json=False, limit=limit, until=peer.head)
        listener = Transcript(out).on_event
        peer.listen(listener if peer.rests or (shown and shown[-1].calls) else whole_replies(listener))
        try:
            result = await peer.wait()
        except UnreachableError as error:  # killed
            report(str(error))
            return 1
    if result.error is not None:
        report(result.error.message)
    return exit_code(result)
