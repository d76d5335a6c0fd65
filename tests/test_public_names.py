"""The API is what docs/reference/names.md lists: a name that appears, vanishes or moves, and a member of one, is a
change that must be seen in a review.

Members of stable names are listed, each once: with the public base or protocol that has it, and not again with each
class that implements it. The tests of a suite are no names that anybody uses. `python -m tests.test_public_names`
writes the list anew.
"""

import ast
import importlib
import re
import subprocess
import sys
from functools import cache, partial
from pathlib import Path
from types import ModuleType

from sagent.model import Model, Provider
from sagent.policy import Policy
from sagent.session.log import Log
from sagent.tool import Tool
from scripts.make_names import is_there, public_names
from tests.snippets import documented

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_name("public_names.txt")


def public_names_of() -> dict[str, list[str]]:
    """Return the names of the page by their modules, without those of plugins that were deleted."""
    found: dict[str, list[str]] = {}
    for each in filter(lambda each: is_there(each.module), public_names()):
        found.setdefault(each.module, []).append(each.name)
    return found


def members(module: ModuleType, name: str) -> list[str]:
    """A class with its public members, an agent's or a log's from all its classes; anything else by its name."""
    value = getattr(module, name)
    if not isinstance(value, type):
        return [name]
    parts = ("sagent.agent.", "sagent.session.log")
    homes = [value, *(base for base in value.__mro__[1:] if base.__module__.startswith(parts))]
    fields = {field for home in homes for field in own_fields(home) if not field.startswith("test_")}
    for other in public_classes():
        is_met = other in (Log, Model, Policy, Provider, Tool) and all(map(partial(hasattr, value), own_fields(other)))
        if other is not value and (is_met or other in value.__mro__):
            fields -= own_fields(other)
    return [name, *(f"{name}.{field}" for field in sorted(fields))]


def own_fields(value: type) -> set[str]:
    """The public members that a class itself defines."""
    return {field for field in (*getattr(value, "__annotations__", {}), *vars(value)) if not field.startswith("_")}


@cache
def public_classes() -> list[type]:
    """All classes in the list."""
    names = ((importlib.import_module(path), name) for path, each in public_names_of().items() for name in each)
    found = (getattr(module, name) for module, name in names)
    return [value for value in found if isinstance(value, type)]


def expected() -> str:
    """Return the list as it is kept, without modules of plugins that were deleted."""
    kept: list[str] = []
    path = ""
    for line in LIST.read_text("utf-8").splitlines(keepends=True):
        path = line.strip() if not line.startswith(" ") else path
        kept += [line] if is_there(path) else []
    return "".join(kept)


def listed() -> str:
    """The whole list, a module's names after its own."""
    lines: list[str] = []
    stable = {each[:2] for each in public_names() if each.stability == "stable" and each.module != "sagent"}
    for path, names in public_names_of().items():
        module = importlib.import_module(path)
        shown = (members(module, name) if (path, name) in stable else [name] for name in names)
        lines += [path, *(f"    {line}" for each in shown for line in each)]
    return "\n".join(lines) + "\n"


def test_public_names_are_those_listed() -> None:
    assert listed() == expected(), "the public API changed: is it meant? python -m tests.test_public_names"


def test_page_is_made_from_the_code() -> None:
    done = subprocess.run([sys.executable, "scripts/make_names.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0


def test_what_examples_and_pages_import_is_public() -> None:
    listed = {(each.module, each.name) for each in public_names()}
    listed |= {tuple(each.module.rsplit(".", 1)) for each in public_names() if "." in each.module}  # modules themselves
    private = {
        (name, f"from {node.module} import {alias.name}")
        for name, text in documented().items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "sagent"
        for alias in node.names
        if (node.module, alias.name) not in listed
    }
    assert private == set(), "put the name into scripts/make_names.py, or do without it"


def test_pages_lead_to_the_list() -> None:
    pages = ("README.md", *(f"docs/{name}.md" for name in ("index", "tutorial", "api", "reference/index", "versions")))
    for page in pages:
        assert re.search(r"\]\((?:docs/)?(?:reference/)?names\.md\)", (ROOT / page).read_text("utf-8")), page


if __name__ == "__main__":
    LIST.write_text(listed(), "utf-8")
