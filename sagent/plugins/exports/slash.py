"""`/export`: the session that is open, written to a file."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.lib.names import path_of
from sagent.lib.process import system_path
from sagent.plugin import ExportFormat
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.terminal.picker import Option
from sagent.repl.view.links import leading_to_file
from sagent.session.contents import MessageEntry

if TYPE_CHECKING:
    from sagent.config.plugins import Installed


@command(complete=lambda context: [(one.name, one.help) for one in context.settings.plugins.every(ExportFormat)])
async def export(context: CommandContext, form: str = "html", file: str = "") -> None:
    """Export this session to a file.

    As a web page, Markdown, JSON lines, a bundle, a terminal recording or what a plugin adds; `/export talk.md` takes
    the form from the file's name. Strings that look like secrets are taken out and counted.
    """
    from sagent.plugins.exports.exported import Exporting
    from sagent.plugins.exports.formats import export_session, find_format
    from sagent.transcript.redaction import Redaction

    session, plugins = _session(context, "export"), context.settings.plugins
    if not file and (named := form_of(plugins, form)):
        form, file = named, form
    chosen = find_format(plugins, form)
    usual = f"{session.name}.{chosen.file_suffix}"
    path = context.settings.cwd / path_of(file or usual)
    path = (path / usual if path.is_dir() else path).absolute()
    if file and path.exists() and not await _replaces(context, path):
        context.say("Nothing was exported.")
        return
    done = await asyncio.to_thread(export_session, chosen, Exporting(session, Redaction(), path, context.settings))
    note = f"{done.secrets} that looked like secrets were taken out" if done.secrets else "nothing looks like a secret"
    context.say(f"Exported; {note}: read it before you share it.")
    context.write([((leading_to_file("class:link", str(path)), str(path)),)])
    for problem in done.problems[:10]:
        context.say(problem)
    if context.has_person and form == "html":
        context.say(await asyncio.to_thread(show_page, path))


@command(here=True)
async def share(context: CommandContext, folder: str = "shared") -> None:
    """Add this session to a folder that any web server can show.

    As a page, as Markdown and as a recording, beside others in the folder (./shared). Strings that look like secrets
    are taken out and counted.
    """
    from sagent.plugins.exports.commands.share import share_session

    session = _session(context, "share")
    if not any(isinstance(entry.content, MessageEntry) for entry in context.opened.agent.log.contents()):
        raise UsageError("Nothing was said in this session yet, so there is nothing to share.")
    for sentence in await asyncio.to_thread(share_session, session, context.settings.cwd / path_of(folder)):
        context.say(sentence)


def _session(context: CommandContext, do: str) -> Path:
    """Return the session's directory. Raises UsageError if nothing of it is saved."""
    log = context.opened.agent.log
    if not log.path:
        raise UsageError(f"This session is not saved, so there is nothing to {do}.")
    return Path(log.path)


def form_of(plugins: "Installed", file: str) -> str:
    """Return the name of the format that a file's name ends with; "" for a format's own name or another end."""
    forms = plugins.every(ExportFormat)
    ending = "" if any(file == form.name for form in forms) else Path(file).suffix.removeprefix(".").lower()
    return next((form.name for form in forms if ending and form.file_suffix == ending), "")


async def _replaces(context: CommandContext, path: Path) -> bool:
    """Ask whether to replace a file. Raises UsageError if no one can be asked."""
    if not context.has_person:
        raise UsageError(f"{path} exists already: remove it first, or choose another file.")
    options = [Option("keep", "No, keep it"), Option("replace", "Yes, replace it")]
    return await context.pick(f"{path.name} exists already. Replace it?", options) == "replace"


def show_page(page: Path) -> str:
    """Open a page in the desktop's browser, if the person has a desktop; return a sentence about the result."""
    mac = sys.platform == "darwin"
    name = "open" if mac else "xdg-open"
    if "SSH_CONNECTION" in os.environ or "SSH_TTY" in os.environ:
        return "Not opened in a browser: the terminal is on another machine (ssh)."
    if not (mac or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return "Not opened in a browser: there is no desktop here."
    if (program := shutil.which(name, path=system_path())) is None:
        return f"Not opened in a browser: there is no {name} here."
    # a browser may outlive us: without a failure by then it has opened the page
    line = '"$0" "$1" & for i in 1 2 3 4 5; do sleep 0.2; kill -0 $! 2>&- || { wait $!; exit; }; done'
    argv, null = ["/bin/sh", "-c", line, program, page.as_uri()], subprocess.DEVNULL
    done = subprocess.run(argv, stdin=null, stdout=null, stderr=null, start_new_session=True, check=False)
    if done.returncode:
        return f"It could not be opened in a browser ({name}: exit {done.returncode})."
    return "It is open in your browser."
