"""A plugin to begin with: a distribution with a tool, a slash command, a setting and tests."""

import keyword
import re
import sys
from collections.abc import Container, Sequence
from pathlib import Path
from string import Template

from sagent.errors import UsageError

_TEMPLATE = Path(__file__).with_name("plugin_template")


def write_plugin(folder: Path, installed: Container[str] = ()) -> Sequence[Path]:
    """Write the plugin and return its files. Raises OSError. Raises UsageError for an invalid name, for the name of a
    plugin in `installed`, and for an existing folder."""
    name = folder.name
    module = name.replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,60}", name) or keyword.iskeyword(module) or module == "sagent":
        raise UsageError(
            f"{name!r} cannot be the name of a plugin: use small letters, digits, - and _, a letter first."
        )
    if name in installed or module in sys.stdlib_module_names:
        whose = "There is a plugin" if name in installed else "Python has a module"
        raise UsageError(f"{whose} named {name}: give another name.")
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder} is there already: give another name, or remove it first.")
    tool = "".join(word.capitalize() for word in re.split("[-_]+", name) if word)
    words = {"name": name, "module": module, "tool": tool, "flag": module.replace("_", "-")}
    written: list[Path] = []
    for source in sorted(_TEMPLATE.rglob("*.in")):
        place = source.relative_to(_TEMPLATE).with_suffix("")
        target = folder / (Path("src", module, place.name) if place.parent.name == "src" else place)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(Template(source.read_text("utf-8")).substitute(words), "utf-8")
        written.append(target)
    typed = folder / "src" / module / "py.typed"
    typed.touch()
    return (*written, typed)
