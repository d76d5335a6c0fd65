"""`sagent share`: sessions as a folder that any web server can show."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from sagent.cli.flags import Parser
from sagent.cli.render import report
from sagent.cli.settings import load_settings, session_path
from sagent.errors import UsageError
from sagent.lib.text import count
from sagent.plugins.audit.fetched import add_stores, elsewhere, reading
from sagent.plugins.exports.cast import write_cast
from sagent.plugins.exports.export import export_text
from sagent.plugins.exports.folder import SharedFolder
from sagent.plugins.exports.timeline import read_timeline
from sagent.session.store import named_logs
from sagent.transcript.redaction import Redaction


def run_share(argv: Sequence[str]) -> int:
    """Write the folder, or add to it. Raises UsageError."""
    parser = Parser(
        "share",
        "Export sessions as a static folder for any web server: each as a page, as Markdown and as a recording for "
        "asciinema, and a page that lists all in the folder. Strings that look like secrets are taken out and counted.",
    )
    what = "paths or ids of sessions, or the beginning of an id (default: the last session)"
    parser.add_argument("session", nargs="*", metavar="SESSION", help=what)
    parser.add_argument(
        "--out", metavar="DIR", default="shared", help="the folder, which may have other sessions in it (./shared)"
    )
    add_stores(parser)
    parser.add_cwd()
    given = parser.parse_args(argv)
    settings = load_settings({"cwd": given.cwd})
    names: list[str | None] = given.session or [None]
    place = elsewhere(vars(given))
    folder = Path(given.out)
    with ExitStack() as stack:
        sessions = [stack.enter_context(reading(partial(session_path, settings, name), name, place)) for name in names]
        try:
            for session in sessions:
                report(*share_session(session, folder))
        except OSError as error:
            raise UsageError(f"{error.filename or folder}: {error.strerror or error}.") from error
    return 0


def share_session(session: Path, directory: Path) -> Sequence[str]:
    """Add a session to a shared folder; return a sentence about it, and a warning for each problem. Raises OSError."""
    folder = SharedFolder(directory)
    redaction, again = Redaction(), Redaction()
    page, done = export_text(session, "html", redaction)
    text, _ = export_text(session, "md", again)
    timeline = read_timeline(session, named_logs(session))
    files = (("index.html", (page,)), ("session.md", (text,)), ("session.cast", write_cast(timeline, again)))
    folder.add(timeline, session.name, files)
    said = (
        f"{count(redaction.count, 'secret')} taken out, recognized by their form ({redaction.kinds})"
        if redaction.count
        else "nothing in it looks like a secret"
    )
    where = f"{folder.path / session.name}/index.html: {said}; read it before you publish it"
    return [where, *(f"warning: {problem}" for problem in done.problems[:10])]
