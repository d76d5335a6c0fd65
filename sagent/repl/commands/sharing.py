"""Commands by which a session leaves this machine."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sagent.errors import UsageError
from sagent.repl.commands.command import CommandContext, command

if TYPE_CHECKING:
    from sagent.transcript.export import Exported


def _forms(context: CommandContext) -> Iterator[tuple[str, str]]:
    del context
    yield "html", "one page"
    yield "md", "Markdown"
    yield "jsonl", "every entry"
    yield "bundle", "all of it, checked by `sagent verify`"


@command(complete=_forms)
async def export(
    context: CommandContext, form: Literal["html", "md", "jsonl", "bundle", ""] = "", file: str = ""
) -> None:
    """Write this session to a file for others.

    A page, Markdown, its entries, or a bundle. What looks like a secret is taken out and counted.
    """
    session = context.opened.agent.log.path
    if not session:
        raise UsageError("This session is not kept, so there is nothing to export.")
    suffix = {"": "html", "bundle": "tar"}.get(form, form)
    path = context.settings.cwd / Path(file or f"{Path(session).name}.{suffix}").expanduser()
    done = await asyncio.to_thread(_write, Path(session), path, form or "html")
    note = f"{done.secrets} that looked like secrets were taken out" if done.secrets else "nothing looks like a secret"
    context.say(f"Exported to {path}; {note}: look before you share it.")
    for problem in done.problems[:10]:
        context.say(problem)


def _write(session: Path, path: Path, form: Literal["html", "md", "jsonl", "bundle"]) -> "Exported":
    from sagent.repl.settings_file import write_private
    from sagent.transcript.export import Exported, export_bundle, export_lines, export_text
    from sagent.transcript.export_redaction import Redaction

    redaction = Redaction()
    if form == "bundle":
        return export_bundle(session, path, redaction, {})
    if form == "jsonl":
        write_private(path, b"".join(export_lines(session, redaction)))
        return Exported(redaction.count)
    page, done = export_text(session, form, redaction)
    write_private(path, page)
    return done
