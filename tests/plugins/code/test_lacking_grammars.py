"""The tool is left out where its packages are not installed, and the notice names the extra and the command."""

from pathlib import Path

import pytest

from tests.lacking import check_told, opened, without

LANGUAGES = ("c", "cpp", "go", "java", "javascript", "python", "ruby", "rust", "typescript")
GRAMMARS = tuple(f"tree_sitter_{each}" for each in LANGUAGES)
"""What the extra code has; tree_sitter itself comes with sagent."""


@pytest.mark.parametrize("packages", [("tree_sitter",), GRAMMARS])
async def test_missing_grammar_of_flag_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, packages: tuple[str, ...]
) -> None:
    await check_told(monkeypatch, tmp_path, "code", "RepoMap", "code", packages)


async def test_no_notice_when_complete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch)
    names, notices = await opened(tmp_path, {"tools": ["default", "code"]})
    assert "RepoMap" in names
    assert not any("is left out" in text for text in notices)
