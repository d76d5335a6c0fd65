"""Old public names warn for two minor versions, the one that renames them and the next, and are gone in the third."""

import ast
import asyncio
import importlib
import re
from collections.abc import Callable

import pytest

from sagent import Agent
from sagent.testing import ScriptedModel
from sagent.version import __version__
from tests.deleted import ROOT, deleted

TABLE = re.compile(r"^\| `(?P<old>[^`\n]+)` \|.*\| (?P<since>[\d.]+) \| (?P<goes>[\d.]+) \|$", re.MULTILINE)
VERSIONS = 2
"""Minor versions in which an old name works and warns."""


def renamed() -> dict[str, str]:
    """Return the old names of the code, each with the version that renamed it."""
    found: dict[str, str] = {}
    for path in (ROOT / "sagent").rglob("*.py"):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "warn_renamed(" in text else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "warn_renamed":
                old, _, since = (ast.literal_eval(each) for each in node.args)
                found[old] = since
    return found


def documented() -> dict[str, re.Match[str]]:
    """Return the rows of the page on versions."""
    return {row["old"]: row for row in TABLE.finditer((ROOT / "docs/versions.md").read_text("utf-8"))}


def minor(version: str) -> int:
    major, number = version.split(".")[:2]
    assert major == "0", "from 1.0 on the page on versions promises more"
    return int(number)


def test_page_lists_old_names_of_the_code() -> None:
    rows, names = documented(), renamed()
    gone = {"Batches(longest=)": "batches", "handoff(most=)": "teams", "open_servers(notices)": "mcp"}
    expected = {name for name in rows if name not in gone or not deleted(gone[name])}
    assert {*names} == expected and len(names) > 1
    assert all(rows[name]["since"] == since for name, since in names.items())


@pytest.mark.parametrize(("old", "since"), sorted(renamed().items()))
def test_old_name_goes_in_time_and_not_sooner(old: str, since: str) -> None:
    assert minor(documented()[old]["goes"]) == minor(since) + VERSIONS
    assert minor(since) <= minor(__version__) < minor(since) + VERSIONS, f"{old} has warned long enough: remove it"


def go_on() -> object:
    return asyncio.run(Agent(ScriptedModel("Hello.")).go_on())


def bridge() -> object:
    return importlib.import_module("sagent.bridges.mcp").McpServer


@pytest.mark.parametrize("use", [go_on, pytest.param(bridge, marks=pytest.mark.plugin("mcp"))])
def test_warning_names_both_and_blames_the_caller(use: Callable[[], object]) -> None:
    with pytest.warns(DeprecationWarning, match=r"is .* since sagent 0\.\d") as told:
        use()
    assert use is bridge or told[0].filename == __file__ or "asyncio" in told[0].filename
