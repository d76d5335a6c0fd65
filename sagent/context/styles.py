"""Output styles: files that say how an agent is to write, chosen when a session starts."""

from pathlib import Path
from typing import NamedTuple

from sagent.context.frontmatter import read_document
from sagent.context.places import places
from sagent.errors import UsageError
from sagent.lib.encoding import readable
from sagent.lib.regular import read_regular

_MOST_BYTES = 100_000


class Style(NamedTuple):
    """What a style says; `replaces`: in place of the instructions an agent has without one, and not after it."""

    text: str
    replaces: bool


def find_style(name: str, cwd: Path, user_dir: Path) -> Style:
    """A style by its name or its file's. Raises UsageError, with the names that there are."""
    known: list[str] = []
    for place in places("output-styles", cwd, user_dir):
        for file in sorted(place.path.glob("*.md")):
            try:
                document = read_document(readable(read_regular(file, place.border, most=_MOST_BYTES)))
            except OSError as error:
                if file.stem == name:
                    raise UsageError(f"The output style {file} could not be read: {error.strerror}.") from error
                continue
            own = document.fields.get("name", file.stem)
            if name.lower() in (own.lower(), file.stem.lower()):
                return Style(document.body.strip(), not document.flag("keep-coding-instructions", default=False))
            known.append(own)
    found = f"there are {', '.join(known)}" if known else "none was found"
    raise UsageError(f"There is no output style {name!r}; {found}. A style is a file: .sagent/output-styles/NAME.md.")
