"""Output styles: files that tell an agent how to write, chosen when a session starts. Those of output-styles/ come with
sagent, and a person's or project's of the same name replaces one."""

from pathlib import Path
from typing import NamedTuple

from sagent.context.definitions import DefinitionReader, Form
from sagent.context.places import Place, places
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
    own_folder = Path(__file__).with_name("output-styles")
    own_place = Place(own_folder, own_folder, "plugin", "sagent")
    for place in (*places("output-styles", cwd, user_dir, notices), own_place):
        for file in reader.files(place.path):
            if (document := reader.read(file, place)) is None:
                continue
            if not (text := document.body.strip()):
                reader.leave_out(file, "it says nothing after its head")
                continue
            own = document.fields.get("name") or file.stem
            style = Style(text, not document.flag("keep-coding-instructions", default=False))
            if own.lower() in found:
                if place is not own_place:
                    reader.leave_out_twin(own, file, found[own.lower()][1], place)
            else:
                known.append(own)
            for each in (own.lower(), file.stem.lower()):
                found.setdefault(each, (style, file))
    reader.finish()
    if name.lower() in found:
        return found[name.lower()][0]
    left = "".join(f" {notice}" for notice in notices if name.lower() in notice.lower() or " is not read: " in notice)
    raise UsageError(
        f"There is no output style {name!r}; there are {', '.join(known)}. A style of your own is a file: "
        f".sagent/output-styles/NAME.md.{left}"
    )
