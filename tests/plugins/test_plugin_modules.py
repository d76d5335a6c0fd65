"""A plugin imports the modules that docs/reference/names.md lists. Ours import more, which is to become less.

After a move that is meant, `python -m tests.plugins.test_plugin_modules` writes the list anew.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from scripts.make_names import is_there, public_names
from tests.snippets import FENCE

ROOT = Path(__file__).parents[2]
INNER = Path(__file__).with_name("inner_modules.txt")
PUBLIC = {each.module for each in public_names() if is_there(each.module)}


def statements(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield statements, and those within them. Expressions, which are most of a file, import nothing."""
    for node in nodes:
        yield node
        for part in ("body", "handlers", "orelse", "finalbody", "cases"):
            yield from statements(getattr(node, part, ()))


def imported(source: str) -> Iterator[str]:
    """Yield the modules of the core that a file imports."""
    for node in statements(ast.parse(source).body):
        names = [each.name for each in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [f"{module}.{name}" if _is_module(f"{module}.{name}") else module for name in names]
        yield from (name for name in names if re.match(r"sagent\b(?!\.plugins\.)", name))


@cache
def _is_module(name: str) -> bool:
    place = ROOT / name.replace(".", "/")
    return place.is_dir() or place.with_suffix(".py").is_file()


def is_public(module: str) -> bool:
    """Return True for a module of the page; those of sagent.testing are."""
    return module in PUBLIC or module.startswith("sagent.testing.")


def inner() -> set[tuple[str, str]]:
    """Return what our plugins import that is not public, each with the plugin."""
    return {
        (file.relative_to(ROOT / "sagent/plugins").parts[0], module)
        for file in (ROOT / "sagent/plugins").glob("*/**/*.py")
        for module in imported(file.read_text("utf-8"))
        if not is_public(module)
    }


def listed() -> set[tuple[str, str]]:
    """Return the list, without plugins that were deleted."""
    found: set[tuple[str, str]] = set()
    plugin = ""
    for line in INNER.read_text("utf-8").splitlines():
        if not line.startswith(" "):
            plugin = line
        elif (ROOT / "sagent/plugins" / plugin).is_dir():
            found.add((plugin, line.strip()))
    return found


def write(rows: set[tuple[str, str]]) -> None:
    """Write the list anew."""
    plugins = dict.fromkeys(plugin for plugin, _ in sorted(rows))
    lines = (line for each in plugins for line in (each, *(f"    {of}" for name, of in sorted(rows) if name == each)))
    INNER.write_text("\n".join(lines) + "\n", "utf-8")


def test_plugins_import_only_listed() -> None:
    assert inner() - listed() == set(), "is it meant? make it public, or python -m tests.plugins.test_plugin_modules"


def test_examples_import_public_modules() -> None:
    files = [*(ROOT / "examples/plugins").glob("*.py")]
    sources = {file.name: file.read_text("utf-8") for file in files}
    page = FENCE.findall((ROOT / "docs/plugins.md").read_text("utf-8"))
    sources |= {f"block {at}": text for at, (_, language, text) in enumerate(page) if language == "python"}
    wrong = {name: sorted(each for each in imported(text) if not is_public(each)) for name, text in sources.items()}
    assert len(files) >= 10
    assert {name: modules for name, modules in wrong.items() if modules} == {}


def test_public_modules_are_there() -> None:
    assert len(PUBLIC) > 30
    for module in PUBLIC:
        assert find_spec(module) is not None
        import_module(module)


if __name__ == "__main__":
    write(inner())
