"""Sessions in which packages are not installed."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sagent.app import open_agent
from sagent.config import load
from sagent.events import Event, Notice


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Have Python find none of these packages."""
    find: Callable[..., Any] = importlib.util.find_spec
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k" * 20)
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


async def check_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, group: str, tool: str, extra: str, packages: tuple[str, ...]
) -> None:
    """Check that a tool is left out, and that the notice names the extra and the command."""
    without(monkeypatch, *packages)
    names, notices = await opened(tmp_path, {"tools": ["default", group]})
    assert tool not in names
    assert "Read" in names
    (told,) = [text for text in notices if text.startswith(f"{tool} (--tools)")]
    assert f"needs the extra {extra}, which is not installed. To install it: " in told
    assert f"[{extra}]" in told
