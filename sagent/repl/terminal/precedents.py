"""Precedents of rules: calls of a session's agents that a rule would have allowed."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from heapq import nlargest
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sagent.codec import decode_message
from sagent.lib.json import as_array, as_str
from sagent.lib.names import path_of, unquote_path
from sagent.lib.text import main_argument, one_line, spelled, spelled_name
from sagent.messages import ToolCall
from sagent.policy.rules import COMMAND_RULES, EDITS, PATH_TOOLS, Rule
from sagent.policy.shell import split, unwrap
from sagent.sandbox.hosts import Endpoint, Entry, is_within
from sagent.session.contents import MessageEntry
from sagent.session.log import MemoryLog, read_contents
from sagent.session.store import named_logs

if TYPE_CHECKING:
    from sagent.policy.shell import Part
    from sagent.repl.root import RootAgent
    from sagent.session.view import LogView

MAX_SEARCHED_CALLS = 1_000  # of a session, the latest
MAX_NAMED_CALLS = 3


def rules_text(rules: Sequence[str], call: ToolCall, agent: "RootAgent", directory: Path) -> str:
    """Return the rules that would allow a call, with other calls of the session that they match. Reads files."""
    names = ", ".join(map(spelled_name, rules))
    try:
        made = calls_made(agent)
        own = next((one for one in reversed(made) if one.id == call.id), None)  # as the model made it: it may be edited
        others = also_allowed(rules, call, [one for one in made if one is not own], directory)
    except Exception:  # whatever the log holds, the person is asked about the call
        return f"{names} · what else they match is unknown: the session's log could not be read"
    more = f" and {len(others) - MAX_NAMED_CALLS} more" if len(others) > MAX_NAMED_CALLS else ""
    last = f"last {MAX_SEARCHED_CALLS:,} " if len(made) > MAX_SEARCHED_CALLS else ""
    matched = f" · also matches {', '.join(others[:MAX_NAMED_CALLS])}{more} of this session's {last}calls"
    return f"{names}{matched if others else ''}"


def calls_made(agent: "RootAgent") -> list[ToolCall]:
    """Return the calls of a session so far from its logs, including ended agents and parts removed by compaction or
    rewind. At most one more than MAX_SEARCHED_CALLS. Raises OSError and SessionCorrupt."""
    made = chain.from_iterable(islice(_latest(view), MAX_SEARCHED_CALLS + 1) for view in _logs(agent))
    last = nlargest(MAX_SEARCHED_CALLS + 1, made, key=lambda one: one[0])
    return [call for _, call in reversed(last)]


def also_allowed(rules: Sequence[str], call: ToolCall, calls: Sequence[ToolCall], directory: Path) -> list[str]:
    """Return descriptions of the session's last calls that the rules would have allowed or helped to allow, each once.
    Relative paths in calls are below the `directory`."""
    parsed = [Rule.parse(rule) for rule in rules]
    same = (call.name, call.arguments)
    others = (one for one in calls[-MAX_SEARCHED_CALLS:] if (one.name, one.arguments) != same)
    found = {
        (one.name, main_argument(one.arguments)): one
        for one in others
        if any(_names(rule, one, call, directory) for rule in parsed)
    }
    return list(map(_describe_call, found.values()))


def _logs(agent: "RootAgent") -> "Iterator[LogView]":
    log = agent.log
    yield log.contents()
    if log.path:
        yield from map(read_contents, named_logs(Path(log.path))[1:])  # the first is the root's
    elif isinstance(log, MemoryLog):
        yield from (log.child(path).contents() for path in agent.ledger.totals().by_agent if path != log.agent)


def _latest(view: "LogView") -> Iterator[tuple[str, ToolCall]]:
    """Yield the calls of a log with their times, last one first."""
    for entry in view.latest("message"):
        if isinstance(content := entry.content, MessageEntry):
            message = decode_message(content.message.encoded, _no_media)
            yield from ((entry.at, call) for call in reversed(message.whole_calls))


def _no_media(_blob: str) -> None:
    """Return no media: calls have none."""


def _names(rule: Rule, earlier: ToolCall, asked: ToolCall, directory: Path) -> bool:
    """Return True if a rule would have helped to allow an earlier call, judged by its arguments."""
    if rule.tool in COMMAND_RULES:
        commands = (words for part in _parts(earlier) for words in (part.words, unwrap(part.words)) if words)
        return any(not rule.pattern or rule.allows_command(words) for words in commands)
    if rule.tool == "Network":
        needs, page = _needs(earlier, "network"), as_str(earlier.arguments.get("url"))
        # A tool without an address argument, such as a search, always reaches the same host.
        same = not (needs or page) and earlier.name == asked.name != "Bash"
        return same or any(is_within(need.lower(), rule.pattern) for need in needs) or _is_at(page, rule.pattern)
    if rule.tool not in ("Read", *EDITS):
        return rule.tool == earlier.name and not rule.pattern
    writes = rule.tool in EDITS
    paths = [*_needs(earlier, "write"), *(() if writes else _needs(earlier, "read"))]
    opened = (redirect for part in _parts(earlier) for redirect in part.redirects if redirect.writes == writes)
    paths += (redirect.target.text for redirect in opened if redirect.target.kind == "literal")
    if earlier.name in PATH_TOOLS and (earlier.name in EDITS) == writes:
        paths.append(as_str(earlier.arguments.get("file_path")) or as_str(earlier.arguments.get("path")) or ".")
    return any(rule.matches_path(_real(path, directory), (), "", anywhere=True) for path in paths)


def _parts(call: ToolCall) -> "Sequence[Part]":
    """Return the commands that a call would run."""
    return split(as_str(call.arguments.get("command"))).parts if call.name == "Bash" else ()


def _describe_call(call: ToolCall) -> str:
    """Return a short description of a call: a command alone, any other with its tool."""
    words = spelled(one_line(main_argument(call.arguments), 60))
    return words if call.name == "Bash" and words else f"{spelled(call.name)} {words}".rstrip()


def _needs(call: ToolCall, kind: str) -> list[str]:
    """Return a command's requests of one kind beyond its sandbox."""
    given = call.arguments.get("needs")
    texts = [given] if isinstance(given, str) else as_array(given)
    return [target for text in map(as_str, texts) if (target := text.strip().removeprefix(f"{kind}:")) != text.strip()]


def _real(path: str, directory: Path) -> str:
    """Resolve a call's path as rules do; "" if it is not a path."""
    with suppress(ValueError, OSError):
        return os.path.realpath(directory / path_of(unquote_path(path)))
    return ""


def _is_at(page: str, entry: str) -> bool:
    """Return True if a page that a call names is at a host that an entry covers."""
    with suppress(ValueError):
        host = urlsplit(page).netloc.rpartition("@")[2]
        return Entry.parse(entry).covers(Endpoint.parse(host, 443))
    return False
