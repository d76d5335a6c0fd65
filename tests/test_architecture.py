"""What docs/architecture.md says of files and layers is so."""

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

from tests.deleted import deleted

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/architecture.md").read_text("utf-8")


def test_named_files_exist() -> None:
    named = re.findall(r"`([\w/]+(?:\.py|\.md|\.toml|/)|Makefile)`", PAGE)
    assert len(named) > 30
    for name in named:
        if (of := re.match(r"(?:sagent/)?plugins/(\w+)/", name)) and deleted(of[1]):
            continue
        assert (ROOT / name).exists() or (ROOT / "sagent" / name).exists(), f"there is no {name}"


def test_layers_are_those_of_the_linter() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    held = next(contract for contract in contracts if contract["name"] == "Imports point one way")["layers"]
    drawn = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert drawn is not None
    rows = [re.split(r"\s{2,}", line)[0].split(" | ") for line in drawn[1].splitlines()]
    unseen = {"__main__", "version", "bridges"}  # one line of code; a constant; old names
    layers = [[name.strip(" ()").removeprefix("sagent.") for name in layer.split("|")] for layer in held]
    assert rows == [seen for layer in layers if (seen := [name for name in layer if name not in unseen])]


def test_no_import_is_hidden_from_linter() -> None:
    """Imports by name are of other packages, of a package's own members, or of what plugins name."""
    hidden = re.compile(r"import_module\(\s*(f?\"sagent|module)")
    found = {
        str(file.relative_to(ROOT)) for file in ROOT.glob("sagent/**/*.py") if hidden.search(file.read_text("utf-8"))
    }
    assert found == {"sagent/plugin.py", "sagent/bridges/mcp.py"}  # the second leads from an old name


def test_plugin_imports_only_its_needs() -> None:
    mentioned = re.compile(r"\bsagent\.plugins\.(\w+)")
    for folder in ROOT.glob("sagent/plugins/*/"):
        if not (folder / "__init__.py").is_file():
            continue
        plugin = import_module(f"sagent.plugins.{folder.name}").plugin
        assert plugin.name == folder.name
        seen = {name for file in folder.rglob("*.py") for name in mentioned.findall(file.read_text("utf-8"))}
        assert seen <= {folder.name, *plugin.needs}, f"{folder.name} needs {seen}, and says {plugin.needs}"


def test_core_names_no_plugin() -> None:
    naming = re.compile(r"\bsagent[./]plugins[./]\w+")
    files = [file for file in ROOT.glob("sagent/**/*.py") if ROOT / "sagent/plugins" not in file.parents]
    files = [file for file in files if file.parent != ROOT / "sagent/bridges"]  # old names of modules that moved
    named = {str(file.relative_to(ROOT)): naming.findall(file.read_text("utf-8")) for file in files}
    assert len(files) > 300
    assert {name: found for name, found in named.items() if found} == {}


def test_picture_is_of_this_code() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/make_architecture.py", "--check"], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
