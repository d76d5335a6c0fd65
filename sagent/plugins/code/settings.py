"""The settings of language servers: parsing, display, and the servers for a directory."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from sagent.config.files import GivenTable
from sagent.config.tables import plain
from sagent.errors import ConfigError
from sagent.plugin import Finding
from sagent.plugins.code import DIAGNOSTICS, LANGUAGE_SERVERS
from sagent.plugins.code.lsp.rows import ServerRow, every_row, find_program, read_rows

if TYPE_CHECKING:
    from sagent.config import Settings


def servers_of(settings: "Settings") -> Mapping[str, ServerRow]:
    """Return the settings of language servers."""
    return cast("Mapping[str, ServerRow]", settings.of(LANGUAGE_SERVERS))


def read_servers(table: GivenTable) -> Mapping[str, ServerRow]:
    """Read `[language_servers.NAME]`: members of a row of servers.toml. Raises ConfigError with file and line."""

    known = cast("Mapping[str, ServerRow] | None", table.before)
    found: dict[str, ServerRow] = {}
    for name, row in table.rows().items():
        try:
            found |= read_rows({name: {key: plain(value) for key, value in row.items()}}, known)
        except (ConfigError, TypeError) as error:
            raise table.file.error(("language_servers", name), f"language_servers.{error}") from None
    return found


def show_servers(value: object) -> Iterator[tuple[str, str]]:
    """Yield the name and the command of each server that is set."""
    for name, server in cast("Mapping[str, ServerRow]", value).items():
        yield name, "off" if server.off else " ".join(server.command)


def check_servers(settings: "Settings", _: str) -> Sequence[Finding]:
    """Return the present language servers for the working directory."""
    if settings.of(DIAGNOSTICS) == "off":
        return [Finding("good", "language servers", "not used: diagnostics is off")]
    root, roots = settings.cwd, (settings.cwd, *settings.add_dirs)
    rows = [row for row in every_row(servers_of(settings)) if not row.off]
    found = [row.name for row in rows if find_program(row, root, roots, own=True)]
    detail = ", ".join(found) or "none is installed: errors are not reported after edits (docs/code.md)"
    return [Finding("good" if found else "poor", "language servers", detail)]
