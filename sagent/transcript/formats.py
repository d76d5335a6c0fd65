"""Formats in which a session is exported: those of the core, by the door that plugins take too."""

import sys
from codecs import iterdecode
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sagent.errors import SagentError, UsageError
from sagent.lib.atomic import atomic_output
from sagent.lib.dataclass import dataclass
from sagent.lib.raised import reason
from sagent.lib.text import nearest
from sagent.plugin import ExportFormat, resolve
from sagent.transcript.export import Exported, export_bundle, export_lines, export_text
from sagent.transcript.export_redaction import Redaction

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.config.plugins import Installed


@dataclass(frozen=True, slots=True)
class Exporting:
    """A session that is to be exported to `out`, or with None to standard output. All text that is written goes through
    `redaction`, which takes out what looks like a secret."""

    session: Path
    redaction: Redaction
    out: Path | None
    settings: "Settings"

    def put(self, pieces: Iterable[bytes]) -> None:
        """Write to a file whole or not at all, for its owner alone; or to standard output: byte by byte, but as text to
        a terminal. Raises OSError."""
        if self.out is not None:
            with atomic_output(self.out) as file:
                file.writelines(pieces)
        elif sys.stdout.isatty():
            sys.stdout.writelines(iterdecode(pieces, "utf-8", "backslashreplace"))
        else:
            for piece in pieces:
                sys.stdout.buffer.write(piece)


def find_format(plugins: "Installed", name: str) -> ExportFormat:
    """Return the format of a name. Raises UsageError with the nearest names."""
    formats = {one.name: one for one in plugins.export_formats}
    if name not in formats:
        raise UsageError(f"There is no format {name!r}: give one of {', '.join(formats)}{nearest(name, formats)}")
    return formats[name]


def export_session(form: ExportFormat, exporting: Exporting) -> Exported:
    """Export a session. Raises OSError and SagentError, also where a plugin's format fails."""
    try:
        done = cast("Callable[[Exporting], object]", resolve(form.write))(exporting)
        if not isinstance(done, Exported):
            raise TypeError(f"it returned {type(done).__name__}, and no Exported")
    except (SagentError, OSError):
        raise
    except Exception as error:
        owner = exporting.settings.plugins.owner("export_formats", form.name)
        raise UsageError(f"The format {form.name} of the plugin {owner.name} failed: {reason(error)}.") from error
    return done


def export_html(exporting: Exporting) -> Exported:
    """Export a session as one page."""
    page, done = export_text(exporting.session, "html", exporting.redaction)
    exporting.put((page,))
    return done


def export_markdown(exporting: Exporting) -> Exported:
    """Export a session as Markdown."""
    page, done = export_text(exporting.session, "md", exporting.redaction)
    exporting.put((page,))
    return done


def export_jsonl(exporting: Exporting) -> Exported:
    """Export every entry of every agent, each a line of JSON."""
    exporting.put(export_lines(exporting.session, exporting.redaction))
    return Exported(exporting.redaction.count)


def export_bundle_file(exporting: Exporting) -> Exported:
    """Export all of a session as a bundle, with the settings that somebody has made, as they are now, without keys.
    Raises UsageError where it would go to standard output."""
    from sagent.config.report import show

    if exporting.out is None:
        raise UsageError("A bundle is written to a file: name one with --out.")
    rows = show(exporting.settings)
    made = {row.name: row.value for row in rows if row.origin != "default" and "key" not in row.name}
    return export_bundle(exporting.session, exporting.out, exporting.redaction, made)
