"""Plugins of ours whose folders were deleted, and which files need one: `make check` and pytest leave those out.

`python -m tests.deleted CONFIG` runs pyright with a configuration, without them.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest

ROOT = Path(__file__).parents[1]
PLUGINS = ROOT / "sagent/plugins"
TRANSPORTS = ["direct", pytest.param("sdk", marks=pytest.mark.plugin("clouds"))]
_NAMED = re.compile(r"^ *(?:from|import) sagent\.plugins\.(\w+)", re.MULTILINE)
_AT_ONCE = re.compile(r"^(?:from|import) (sagent\.plugins|tests)\.([\w.]+)", re.MULTILINE)


@cache
def deleted(plugin: str) -> str:
    """Return the name of a plugin that was deleted: this one, or one that it needs; "" where all are there."""
    if not (PLUGINS / plugin / "__init__.py").is_file():
        return plugin
    needs: tuple[str, ...] = import_module(f"sagent.plugins.{plugin}").plugin.needs
    return next(filter(None, map(deleted, needs)), "")


def lacking(text: str) -> str:
    """Return the name of a deleted plugin without which a program cannot run, "" for none."""
    return next(filter(None, map(deleted, _NAMED.findall(text))), "")


@cache
def _imported(file: Path) -> list[tuple[str, str]]:
    return _AT_ONCE.findall(file.read_text("utf-8")) if file.is_file() else []


@cache
def lacked(place: Path) -> str:
    """Return the name of a deleted plugin that a file or a folder of tests cannot be collected without, "" for none."""
    if place.parent == ROOT / "tests/plugins" and place.is_dir() and (name := deleted(place.name)):
        return name
    waiting, seen = [place / "conftest.py" if place.is_dir() else place], set[Path]()
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for package, name in _imported(file):
            if package == "tests":
                waiting.append(ROOT / f"tests/{name.replace('.', '/')}.py")
            elif found := deleted(name.partition(".")[0]):
                return found
    return ""


def left_out() -> Iterator[Path]:
    """Yield the folders of plugins and of their tests, and the files of tests and examples, that need a deleted one."""
    yield from (file.parent for file in PLUGINS.glob("*/__init__.py") if deleted(file.parent.name))
    yield from filter(lacked, (ROOT / "tests/plugins").glob("[a-z]*/"))
    files = (file for folder in ("tests", "examples") for file in (ROOT / folder).rglob("*.py"))
    yield from (file for file in files if lacked(file) or lacking(file.read_text("utf-8")))


def copied_without(plugin: str, place: Path) -> Path:
    """Return a copy of the program, in a place, without a plugin: directories whose files are links to ours."""
    shutil.copytree(ROOT / "sagent", place / "sagent", copy_function=os.symlink)
    shutil.rmtree(place / "sagent/plugins" / plugin)
    return place


def main(config: Path) -> int:
    """Run pyright; return its exit code."""
    argv = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p"]
    if not (files := [str(each.relative_to(ROOT)) for each in left_out()]):
        return subprocess.call([*argv, str(config)])
    sys.stdout.write(f"pyright leaves out {len(files)} files and folders that need a deleted plugin\n")
    sys.stdout.flush()
    always = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pyright"]["exclude"]
    with NamedTemporaryFile("w", dir=ROOT, prefix=".pyright-", suffix=".json") as file:  # its paths are beside it
        json.dump({"extends": str(config), "exclude": [*always, *files]}, file)
        file.flush()
        return subprocess.call([*argv, file.name])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
