"""`sagent export`: a session for others, without the secrets in it."""

import argparse
import sys
from codecs import iterdecode
from collections.abc import Iterable, Sequence
from pathlib import Path

from sagent.cli.fetched import add_stores, elsewhere, reading
from sagent.cli.flags import SESSION, Parser
from sagent.cli.render import report
from sagent.cli.settings import load_settings, session_path
from sagent.config import Settings
from sagent.config.report import show
from sagent.errors import UsageError
from sagent.lib.atomic import atomic_output
from sagent.lib.text import count
from sagent.session.store import named_logs
from sagent.transcript.export import Exported, export_bundle, export_lines, export_text
from sagent.transcript.export_redaction import Redaction
from sagent.transcript.timeline import read_timeline

FORMATS = ("bundle", "html", "md", "jsonl", "cast")


def run_export(argv: Sequence[str]) -> int:
    """Write it, to a file or to standard output. Raises UsageError."""
    parser = Parser("export", "Export a session. Strings that look like secrets are taken out and counted.")
    parser.add_argument("session", nargs="?", help=SESSION)
    form = (
        "bundle (default): all of it, checked by `sagent verify`; html: one page; md: Markdown; jsonl: every entry; "
        "cast: a terminal recording for asciinema"
    )
    parser.add_argument("--format", choices=FORMATS, default="bundle", help=form)
    out_help = "write to FILE (- is stdout; default: SESSION.tar, .html, .md, .jsonl or .cast)"
    parser.add_argument("--out", metavar="FILE", help=out_help)
    parser.add_argument("--keep-secrets", action="store_true", help="do not take out secrets")
    add_stores(parser)
    parser.add_cwd()
    given = parser.parse_args(argv)
    settings = load_settings({"cwd": given.cwd})
    with reading(lambda: session_path(settings, given.session), given.session, elsewhere(vars(given))) as session:
        return _export_as(session, given, settings)


def _export_as(session: Path, given: argparse.Namespace, settings: Settings) -> int:
    redaction = Redaction(keep=given.keep_secrets)
    suffix = {"bundle": "tar"}.get(given.format, given.format)
    out = Path(given.out or f"{session.name}.{suffix}")
    if given.format == "bundle" and given.out == "-":
        raise UsageError("A bundle is written to a file: name one with --out.")
    try:
        done = _export(session, given.format, None if given.out == "-" else out, redaction, settings)
    except OSError as error:
        if given.out == "-" and error.filename is None:
            raise  # nobody reads it any more, or it has no room
        where = error.filename if isinstance(error.filename, str) else out  # bytes are a name within a directory
        raise UsageError(f"{where}: {error.strerror or error}. Nothing was exported.") from error
    _report(done, "" if given.out == "-" else str(out), redaction)
    return 0


def _export(session: Path, kind: str, out: Path | None, redaction: Redaction, settings: Settings) -> Exported:
    if kind == "bundle" and out is not None:
        # the settings that somebody has made, without keys, as they are when this is exported
        made = {row.name: row.value for row in show(settings) if row.origin != "default" and "key" not in row.name}
        return export_bundle(session, out, redaction, made)
    if kind == "jsonl":
        _write(out, export_lines(session, redaction))
        return Exported(redaction.count)
    if kind == "cast":
        from sagent.repl.cast import write_cast

        timeline = read_timeline(session, named_logs(session))
        _write(out, write_cast(timeline, redaction))
        return Exported(redaction.count, problems=tuple(timeline.damaged))
    page, done = export_text(session, "html" if kind == "html" else "md", redaction)
    _write(out, (page,))
    return done


def _write(out: Path | None, pieces: Iterable[bytes]) -> None:
    """To a file whole or not at all, for its owner alone; or to standard output: byte by byte, but as text to a
    terminal."""
    if out is None and sys.stdout.isatty():
        sys.stdout.writelines(iterdecode(pieces, "utf-8", "backslashreplace"))
        return
    if out is None:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        return
    with atomic_output(out) as file:
        file.writelines(pieces)


def _report(done: Exported, out: str, redaction: Redaction) -> None:
    """On standard error, so that it never mixes with what is exported."""
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
