"""Output styles: files that tell an agent how to write, chosen when a session starts."""

from pathlib import Path
from typing import NamedTuple

from sagent.context.definitions import DefinitionReader, Form
from sagent.context.places import places
from sagent.errors import UsageError

_FORM = Form("output style", {"name": "text", "description": "text", "keep-coding-instructions": "flag"}, much=100_000)


class Style(NamedTuple):
    """Text of an output style; `replaces`: it replaces the default instructions instead of following them."""

    text: str
    replaces: bool


def find_style(name: str, cwd: Path, user_dir: Path, notices: list[str] | None = None) -> Style:
    """Return a style by its name or its file's. Raises UsageError that lists the known names and what was left out."""
    notices = [] if notices is None else notices
    found: dict[str, tuple[Style, Path]] = {}
    known: list[str] = []
    reader = DefinitionReader(_FORM, notices)
    for place in places("output-styles", cwd, user_dir, notices):
        for file in reader.files(place.path):
            if (document := reader.read(file, place)) is None:
                continue
            if not (text := document.body.strip()):
                reader.leave_out(file, "it says nothing after its head")
                continue
            own = document.fields.get("name") or file.stem
            style = Style(text, not document.flag("keep-coding-instructions", default=False))
            if own.lower() in found:
                reader.leave_out_twin(own, file, found[own.lower()][1], place)
            else:
                known.append(own)
            for each in (own.lower(), file.stem.lower()):
                found.setdefault(each, (style, file))
    reader.finish()
    if name.lower() in found:
        return found[name.lower()][0]
    there = f"there are {', '.join(known)}" if known else "none was found"
    left = "".join(f" {notice}" for notice in notices if name.lower() in notice.lower() or " is not read: " in notice)
    raise UsageError(
        f"There is no output style {name!r}; {there}. A style is a file: .sagent/output-styles/NAME.md.{left}"
    )
