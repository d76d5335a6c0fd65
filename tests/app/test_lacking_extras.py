"""A tool whose packages are not installed is left out, and the notice names the extra and the command."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sagent.app import open_agent
from sagent.config import load
from sagent.events import Event, Notice

LANGUAGES = ("c", "cpp", "go", "java", "javascript", "python", "ruby", "rust", "typescript")
GRAMMARS = tuple(f"tree_sitter_{each}" for each in LANGUAGES)
"""What the extra code has; tree_sitter itself comes with sagent."""


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    find: Callable[..., Any] = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name in names else find(name, *more))


async def opened(
    tmp_path: Path, flags: dict[str, object], environ: dict[str, str] | None = None
) -> tuple[list[str], list[str]]:
    heard: list[Event] = []
    environ = {"HOME": str(tmp_path), **(environ or {})}
    settings = load({"model": "anthropic/claude-sonnet-4-6", **flags}, environ, tmp_path)
    async with open_agent(settings, heard.append) as session:
        names = [tool.name for tool in session.tools]
    return names, [each.text for each in heard if isinstance(each, Notice)]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k" * 20)


@pytest.mark.parametrize(
    ("group", "tool", "extra", "packages"),
    [
        ("notebook", "Notebook", "notebook", ("ipykernel",)),
        ("Notebook", "Notebook", "notebook", ("jupyter_client",)),
        ("code", "RepoMap", "code", ("tree_sitter",)),
        ("code", "RepoMap", "code", GRAMMARS),
        ("web", "WebSearch", "web", ("ddgs",)),
    ],
)
async def test_a_flag_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, group: str, tool: str, extra: str, packages: tuple[str, ...]
) -> None:
    without(monkeypatch, *packages)
    names, notices = await opened(tmp_path, {"tools": ["default", group]})
    assert tool not in names
    assert "Read" in names
    (told,) = [text for text in notices if text.startswith(f"{tool} (--tools)")]
    assert f"needs the extra {extra}, which is not installed. To install it: " in told
    assert f"[{extra}]" in told


async def test_a_file_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "ipykernel")
    file = tmp_path / ".config/sagent/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('tools = ["default", "notebook"]\n')
    names, notices = await opened(tmp_path, {})
    assert "Notebook" not in names
    assert any(f"Notebook ({file}) is left out" in text for text in notices)


async def test_a_variable_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "ipykernel")
    _, notices = await opened(tmp_path, {}, {"SAGENT_TOOLS": "default,notebook"})
    assert any("Notebook (SAGENT_TOOLS) is left out" in text for text in notices)


async def test_nothing_is_said_where_nothing_lacks(tmp_path: Path) -> None:
    names, notices = await opened(tmp_path, {"tools": ["default", "notebook", "code"]})
    assert {"Notebook", "RepoMap"} <= {*names}
    assert not any("is left out" in text for text in notices)


async def test_a_search_with_a_key_needs_no_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "ddgs", "html_to_markdown", "selectolax")
    monkeypatch.setenv("BRAVE_API_KEY", "b" * 20)
    names, notices = await opened(tmp_path, {"tools": ["web"]})
    assert {"WebSearch", "WebFetch"} <= {*names}
    assert not any("is left out" in text for text in notices)
