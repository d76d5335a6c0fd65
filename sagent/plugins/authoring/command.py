"""`sagent plugin`: list the plugins, begin one, test one. Plugins can add operations, such as `add` for folders."""

import re
import sys
from collections.abc import Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.cli.flags import Parser, plugins_of
from sagent.cli.main import carry_out, check_former
from sagent.cli.render import binary_safe
from sagent.cli.settings import load_settings
from sagent.cli.tables import write
from sagent.errors import UsageError
from sagent.lib.text import Table, printable
from sagent.plugin import KINDS

if TYPE_CHECKING:
    from sagent.config.plugin_index import Known

DESCRIPTION = """list: show the plugins and what each adds. new: write a plugin to begin with into the folder NAME,
with a tool, a slash command, a setting and a test. test: check that a plugin, or a file, can do what it says."""
FOLDERS = """ add: show what a folder or repository of skills, agents, commands, hooks and MCP servers contains, and
copy it into your configuration directory once you confirm. remove: delete such a folder."""
_SOURCES = {"list": "", "new": "name", "test": "name or a file", "add": "source", "remove": "name"}


def run_plugin(argv: Sequence[str]) -> int:
    """Run the operation. Raises UsageError."""
    plugins = plugins_of(argv)
    more = plugins.operations("plugin")
    operations = list(dict.fromkeys(("list", "new", "test", *more)))
    for owner, extra in plugins.extras(f"plugin {argv[0]}") if argv[:1] in (["new"], ["test"]) else ():
        sys.stderr.write(f"sagent: `{extra.to}` of the plugin {owner} is left out: sagent has one of that name.\n")
    if argv and argv[0] not in operations:
        check_former(plugins, f"plugin {argv[0]}")
    parser = Parser("plugin", DESCRIPTION + FOLDERS * ("add" in more))
    parser.add_argument("operation", nargs="?", default="list", choices=operations, help="default: list")
    parser.add_argument(
        "source", nargs="?", metavar="SOURCE", help="a plugin's name or file; with add, a folder or a git repository"
    )
    if "add" in more:
        parser.add_argument("--ref", metavar="REF", default="", help="a branch, tag or commit of the repository")
        parser.add_argument("--name", metavar="NAME", default="", help="the name to install it under")
        parser.add_argument("--yes", action="store_true", help="add it without asking")
    given = parser.parse_args(argv)
    if (needed := _SOURCES.get(given.operation)) and not given.source:
        raise UsageError(f"sagent plugin {given.operation} needs a {needed}.")
    match given.operation:
        case "new":
            return _begin(given.source, plugins.names)
        case "test":
            return _test(given.source)
        case "list":  # also if the settings cannot be read, because a plugin may be the reason
            table = Table(tuple(map(_row, plugins.known)), ("plugin", "version", "from", "adds"))
            write(binary_safe(sys.stdout), [table])
        case _:
            pass
    settings = load_settings({})
    for owner, extra in plugins.extras(f"plugin {given.operation}"):
        return carry_out(owner, extra.add, f"`sagent plugin {given.operation}`", settings, given)
    return 0


def _begin(name: str, installed: Container[str]) -> int:
    """Write a plugin to begin with. Raises UsageError."""
    from sagent.plugins.authoring.new_plugin import write_plugin

    folder = Path(name)
    try:
        files = write_plugin(folder, installed)
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: {error.strerror or error}. Nothing more was written.") from error
    write(
        binary_safe(sys.stdout), [*(f"Written: {printable(str(file))}" for file in files), _NEXT.format(folder=folder)]
    )
    return 0


_NEXT = "Next: pip install -e '{folder}[dev]', then sagent plugin test {folder.name}, and read {folder}/README.md."


def _test(source: str) -> int:
    """Check a plugin, by its name or its file. Returns 1 if something is wrong."""
    from sagent.testing.plugin_check import check_plugin

    file = Path(source)
    findings = [*check_plugin(plugins_of(["--plugin", source] if file.suffix == ".py" else []), source)]
    rows = tuple((finding.state, printable(finding.what), printable(finding.detail)) for finding in findings)
    write(binary_safe(sys.stdout), [Table(rows)])
    return int(any(finding.state == "bad" for finding in findings))


def _name(row: tuple[str, ...]) -> str:
    """Return the name of a plugin's contribution; for a function, that of its module."""
    module = row[0].rpartition(":")[0].removesuffix(".py")
    return re.split(r"[./\\]", module)[-1] if module else row[0]


def _row(known: "Known") -> tuple[str, ...]:
    """Return the table row for a plugin in Python."""
    plugin = known.plugin
    parts = {f"{word}s": list(map(_name, getattr(plugin, member))) for member, (word, _) in KINDS.items()}
    added = [f"{len(names)} {kind}" if len(names) > 3 else f"{kind}: {', '.join(names)}"
             for kind, names in parts.items() if names]  # fmt: skip
    return plugin.name, plugin.version, printable(known.source.origin), printable(known.error or "; ".join(added))
