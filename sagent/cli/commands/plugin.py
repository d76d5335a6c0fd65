"""`sagent plugin`: add one from a folder or a git repository, list them, remove one."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sagent.cli.flags import Parser
from sagent.cli.render import binary_safe
from sagent.cli.settings import load_settings
from sagent.cli.tables import write
from sagent.errors import UsageError
from sagent.lib.text import Table, printable
from sagent.plugin import KINDS

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.config.plugins import Known
    from sagent.imports.plugin import Plugin

DESCRIPTION = """add: show what a plugin contains, and copy it into your configuration directory once you confirm. list:
show the plugins in Python and what each adds, and the folders that were added, with their commits. remove: delete a
folder."""


def run_plugin(argv: Sequence[str]) -> int:
    parser = Parser("plugin", DESCRIPTION)
    parser.add_argument("operation", choices=["add", "list", "remove"])
    parser.add_argument(
        "source", nargs="?", metavar="SOURCE", help="a folder or a git repository; with remove, a plugin's name"
    )
    parser.add_argument("--ref", metavar="REF", default="", help="a branch, tag or commit of the repository")
    parser.add_argument("--name", metavar="NAME", default="", help="the name to install it under")
    parser.add_argument("--yes", action="store_true", help="add it without asking")
    given = parser.parse_args(argv)
    settings = load_settings({})
    if given.operation != "list" and not given.source:
        raise UsageError(
            f"sagent plugin {given.operation} needs a {'name' if given.operation == 'remove' else 'source'}."
        )
    match given.operation:
        case "add":
            return _add(settings, given)
        case "remove":
            return _remove(settings, given.source)
        case _:
            return _list(settings)


def _add(settings: "Settings", given: argparse.Namespace) -> int:
    from sagent.imports.plugin import digest, fetched, install, read_plugin

    out = binary_safe(sys.stdout)
    with fetched(given.source, given.ref) as (folder, commit):
        plugin = read_plugin(folder, given.name, settings.plugins)
        pin = commit or f"sha256 {digest(folder)}"
        _show(plugin, pin)
        if not given.yes and not _agreed():
            write(out, ["It was not added."])
            return 1
        record = {"source": given.source, "ref": given.ref, "pin": pin, "version": plugin.version}
        try:
            target = install(plugin, folder, settings.config_dir, record)
        except OSError as error:
            raise UsageError(f"The plugin cannot be saved: {error.strerror or error} ({error.filename}).") from error
    write(out, [f"Added as {target}. To undo this: sagent plugin remove {plugin.name}"])
    return 0


def _show(plugin: "Plugin", pin: str) -> None:
    out = binary_safe(sys.stdout)
    title = f"{plugin.name} {plugin.version}".strip()
    write(out, [printable(f"{title}: {plugin.description}" if plugin.description else title), f"pinned to {pin}"])
    write(out, [Table(tuple((kind, printable(what)) for kind, what in plugin.parts))])
    write(out, (printable(f"left out: {each}") for each in plugin.left_out))
    if any(kind in ("hook", "mcp") for kind, _ in plugin.parts):
        write(out, ["Hooks and MCP servers are programs that run without asking, in the sandbox where there is one."])


def _agreed() -> bool:
    """Whether the person says yes. Raises UsageError where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("There is no terminal to ask on: check what it contains, then give --yes.")
    sys.stdout.write("Add it? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _list(settings: "Settings") -> int:
    from sagent.context.places import plugin_folders
    from sagent.imports.plugin import digest, installed

    known = installed(settings.config_dir)
    rows: list[tuple[str, ...]] = []
    for folder in plugin_folders(settings.config_dir):
        record = known.get(folder.name, {})
        try:
            same = digest(folder) == record.get("sha256")
        except UsageError:
            same = False
        state = "" if same else "changed since it was added" if record else "not added by sagent plugin add"
        pin = str(record.get("pin") or record.get("commit") or record.get("sha256") or "").removeprefix("sha256 ")
        rows.append((folder.name, str(record.get("version", "")), pin[:12], str(record.get("source", "")), state))
    out = binary_safe(sys.stdout)
    write(out, [Table(tuple(map(_row, settings.plugins.known)), ("plugin", "version", "from", "adds"))])
    folders = Table(tuple(rows), ("folder", "version", "pin", "from", "")) if rows else "No plugin has a folder here."
    write(out, ["", folders])
    return 0


def _name(row: tuple[str, ...]) -> str:
    """Return the name of what a plugin adds; for a function, that of its module."""
    return row[0].rpartition(":")[0].rpartition(".")[2] if ":" in row[0] else row[0]


def _row(known: "Known") -> tuple[str, ...]:
    """Return what is shown of a plugin in Python."""
    plugin = known.plugin
    parts = {f"{word}s": list(map(_name, getattr(plugin, member))) for member, (word, _) in KINDS.items()}
    added = [f"{len(names)} {kind}" if len(names) > 3 else f"{kind}: {', '.join(names)}"
             for kind, names in parts.items() if names]  # fmt: skip
    return plugin.name, plugin.version, printable(known.origin), printable(known.error or "; ".join(added))


def _remove(settings: "Settings", name: str) -> int:
    from sagent.imports.plugin import remove

    try:
        target = remove(name, settings.config_dir)
    except OSError as error:
        raise UsageError(f"{error.filename or name} cannot be removed: {error.strerror or error}") from error
    write(binary_safe(sys.stdout), [f"Removed {target}."])
    return 0
