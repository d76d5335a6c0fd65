"""`sagent plugin add`, `list` and `remove` of folders: skills, agents, commands, hooks and MCP servers."""

import argparse
import sys

from sagent.cli.render import binary_safe
from sagent.cli.tables import write
from sagent.config import Settings
from sagent.context.places import plugin_folders
from sagent.errors import UsageError
from sagent.lib.text import Table, printable
from sagent.plugins.imports.folders import FolderPlugin, digest, fetched, install, installed, read_plugin, remove


def run_add(settings: Settings, args: argparse.Namespace) -> int:
    """Show a folder's contents, and copy it into the configuration directory once the person agrees."""
    out = binary_safe(sys.stdout)
    with fetched(args.source, args.ref) as (folder, commit):
        plugin = read_plugin(folder, args.name, settings.plugins)
        pin = commit or f"sha256 {digest(folder)}"
        _show(plugin, pin)
        if not args.yes and not _agreed():
            write(out, ["It was not added."])
            return 1
        record = {"source": args.source, "ref": args.ref, "pin": pin, "version": plugin.version}
        try:
            target = install(plugin, folder, settings.config_dir, record)
        except OSError as error:
            raise UsageError(f"The plugin cannot be saved: {error.strerror or error} ({error.filename}).") from error
    write(out, [f"Added as {target}. To undo this: sagent plugin remove {plugin.name}"])
    return 0


def _show(plugin: FolderPlugin, pin: str) -> None:
    out = binary_safe(sys.stdout)
    title = f"{plugin.name} {plugin.version}".strip()
    write(out, [printable(f"{title}: {plugin.description}" if plugin.description else title), f"pinned to {pin}"])
    write(out, [Table(tuple((kind, printable(what)) for kind, what in plugin.parts))])
    write(out, (printable(f"left out: {each}") for each in plugin.left_out))
    if any(kind in ("hook", "mcp") for kind, _ in plugin.parts):
        write(out, ["Hooks and MCP servers are programs that run without asking, in the sandbox if there is one."])


def _agreed() -> bool:
    """Return True if the person says yes. Raises UsageError if no one can be asked."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("There is no terminal to ask on: check what it contains, then give --yes.")
    sys.stdout.write("Add it? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def run_list(settings: Settings, args: argparse.Namespace) -> int:
    """List the folders that were added, with their commits."""
    del args
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
    folders = (
        Table(tuple(rows), ("folder", "version", "pin", "from", ""))
        if rows
        else "No folders of skills, agents, commands, hooks and MCP servers are installed."
    )
    write(binary_safe(sys.stdout), ["", folders])
    return 0


def run_remove(settings: Settings, args: argparse.Namespace) -> int:
    """Delete the folder of a plugin."""
    name = args.source
    try:
        target = remove(name, settings.config_dir)
    except OSError as error:
        raise UsageError(f"{error.filename or name} cannot be removed: {error.strerror or error}") from error
    write(binary_safe(sys.stdout), [f"Removed {target}."])
    return 0
