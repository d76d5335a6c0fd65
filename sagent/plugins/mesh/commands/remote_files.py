"""Transport of a session's files to a bus and back."""

from pathlib import Path
from typing import TYPE_CHECKING

from sagent.cli.render import report
from sagent.errors import UsageError

if TYPE_CHECKING:
    from sagent.plugins.mesh.jetstream import JetStream
    from sagent.plugins.mesh.records import FilesKind, SessionRecord


async def offer_files(bus: "JetStream", requested: str | None, cwd: Path) -> "tuple[FilesKind, str]":
    """Return how files travel, and the reference to them. Raises UsageError."""
    from sagent.plugins.mesh import names
    from sagent.plugins.mesh.workspace import offer

    if requested == "shared":
        return "shared", str(cwd)
    if requested == "none" or (requested is None and not (cwd / ".git").exists()):
        return "none", ""
    return "git", await offer(bus.store(names.BLOBS), cwd)


async def bring_files(bus: "JetStream", record: "SessionRecord", cwd: Path, *, quiet: bool = False) -> None:
    """Fetch a session's changes to files of this repository as a reference, and print its name; no file here is
    changed. Raises Unavailable."""
    from sagent.plugins.mesh import names
    from sagent.plugins.mesh.workspace import fetch_changes

    if record.files != "git" or record.now in ("", record.base):
        return
    try:
        reference = await fetch_changes(bus.store(names.BLOBS), record.now, cwd, record.id)
    except UsageError as error:  # the result itself is unaffected
        report(f"its files could not be fetched: {error}")
        return
    if quiet:
        return
    if reference:
        report(f"its files are {reference}: git diff {reference}")
    else:
        report(f"its files belong to another repository; to get them, run there: sagent attach {record.id}")
