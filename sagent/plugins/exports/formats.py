"""The formats of exported sessions: plugins' and ours."""

from typing import TYPE_CHECKING, cast

from sagent.errors import SagentError, UsageError
from sagent.lib.raised import reason
from sagent.lib.text import nearest
from sagent.plugin import ExportFormat, resolve
from sagent.plugins.exports.export import export_bundle, export_lines, export_text
from sagent.plugins.exports.exported import Exported, Exporting

if TYPE_CHECKING:
    from collections.abc import Callable

    from sagent.config.plugins import Installed


def find_format(plugins: "Installed", name: str) -> ExportFormat:
    """Return the format of a name. Raises UsageError with the nearest names."""
    formats = plugins.named(ExportFormat)
    if name not in formats:
        raise UsageError(f"There is no format {name!r}: give one of {', '.join(formats)}{nearest(name, formats)}")
    return formats[name]


def export_session(form: ExportFormat, exporting: Exporting) -> Exported:
    """Export a session. Raises OSError and SagentError, also if a plugin's format fails."""
    try:
        done = cast("Callable[[Exporting], object]", resolve(form.write))(exporting)
        if not isinstance(done, Exported):
            raise TypeError(f"it returned {type(done).__name__}, and no Exported")
    except (SagentError, OSError):
        raise
    except Exception as error:
        owner = exporting.settings.plugins.owner(ExportFormat, form.name)
        raise UsageError(f"The format {form.name} of the plugin {owner} failed: {reason(error)}.") from error
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
    """Export a whole session as a bundle, with a person's present settings without keys. Raises UsageError for standard
    output."""
    from sagent.config.report import show

    if exporting.out is None:
        raise UsageError("A bundle is written to a file: name one with --out.")
    rows = show(exporting.settings)
    made = {row.name: row.value for row in rows if row.origin != "default" and "key" not in row.name}
    return export_bundle(exporting.session, exporting.out, exporting.redaction, made)
