"""`sagent export`: a session for others, without its secrets."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sagent.cli.flags import SESSION, Parser, plugins_of
from sagent.cli.render import report
from sagent.cli.settings import load_settings, session_path
from sagent.config import Settings
from sagent.errors import UsageError
from sagent.lib.text import count
from sagent.plugin import ExportFormat
from sagent.plugins.audit.fetched import add_stores, elsewhere, reading
from sagent.plugins.exports.exported import Exported, Exporting
from sagent.plugins.exports.formats import export_session
from sagent.transcript.redaction import Redaction


def run_export(argv: Sequence[str]) -> int:
    """Write it, to a file or to standard output. Raises UsageError."""
    parser = Parser("export", "Export a session. Strings that look like secrets are taken out and counted.")
    parser.add_argument("session", nargs="?", help=SESSION)
    formats = plugins_of(sys.argv[1:]).named(ExportFormat)
    form = "; ".join(f"{one.name}{' (default)' * (one.name == 'bundle')}: {one.help}" for one in formats.values())
    parser.add_argument("--format", choices=tuple(formats), default="bundle", help=form)
    endings = ", ".join(f".{one.file_suffix}" for one in formats.values())
    parser.add_argument("--out", metavar="FILE", help=f"write to FILE (- is stdout; default: SESSION with {endings})")
    parser.add_argument("--keep-secrets", action="store_true", help="do not take out secrets")
    add_stores(parser)
    parser.add_cwd()
    given = parser.parse_args(argv)
    settings = load_settings({"cwd": given.cwd})
    with reading(lambda: session_path(settings, given.session), given.session, elsewhere(vars(given))) as session:
        return _export_as(session, formats[given.format], given, settings)


def _export_as(session: Path, form: ExportFormat, args: argparse.Namespace, settings: Settings) -> int:
    redaction = Redaction(keep=args.keep_secrets)
    out = Path(args.out or f"{session.name}.{form.file_suffix}")
    try:
        done = export_session(form, Exporting(session, redaction, None if args.out == "-" else out, settings))
    except OSError as error:
        if args.out == "-" and error.filename is None:
            raise  # its reader is gone, or the disk is full
        where = error.filename if isinstance(error.filename, str) else out  # bytes are a name within a directory
        raise UsageError(f"{where}: {error.strerror or error}. Nothing was exported.") from error
    _report(done, "" if args.out == "-" else str(out), redaction)
    return 0


def _report(done: Exported, out: str, redaction: Redaction) -> None:
    """Report on stderr, so that the report never mixes with the export."""
    lines = [f"exported to {out}"] if out else []
    if done.id:
        lines.append(f"manifest {done.id}")
    if redaction.keep:
        lines.append("it was not searched for secrets")
    elif redaction.count:
        what = f"{count(redaction.count, 'secret')} taken out"
        of = f"{count(done.entries, 'entry', 'entries')} and {count(done.blobs, 'blob')}"
        where = f", of {of}: these no longer match their ids" if done.id else ""
        lines.append(f"{what}, recognized by their form ({redaction.kinds}){where}; read the rest before you share it")
    else:
        lines.append("nothing in it looks like a secret; read it before you share it")
    if done.unsearched:
        lines.append(f"not searched, as not text: {count(done.unsearched, 'blob')}")
    report(*lines, *(f"warning: {problem}" for problem in done.problems[:10]))
