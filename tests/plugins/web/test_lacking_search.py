"""The tool is left out where its packages are not installed, and the notice names the extra and the command."""

from pathlib import Path

import pytest

from tests.lacking import check_told, opened, without


async def test_missing_search_of_flag_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    await check_told(monkeypatch, tmp_path, "web", "WebSearch", "web", ("ddgs",))


async def test_keyed_search_needs_no_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "ddgs", "html_to_markdown", "selectolax")
    monkeypatch.setenv("BRAVE_API_KEY", "b" * 20)
    names, notices = await opened(tmp_path, {"tools": ["web"]})
    assert {"WebSearch", "WebFetch"} <= {*names}
    assert not any("is left out" in text for text in notices)
