"""The tool is left out where its packages are not installed, and the notice names the extra and the command."""

from pathlib import Path

import pytest

from tests.lacking import check_told, opened, without


@pytest.mark.parametrize(("given", "package"), [("notebook", "ipykernel"), ("Notebook", "jupyter_client")])
async def test_missing_kernel_of_flag_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str, package: str
) -> None:
    await check_told(monkeypatch, tmp_path, given, "Notebook", "notebook", (package,))


async def test_missing_kernel_of_file_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "ipykernel")
    file = tmp_path / ".config/sagent/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('tools = ["default", "notebook"]\n')
    names, notices = await opened(tmp_path, {})
    assert "Notebook" not in names
    assert any(f"Notebook ({file}) is left out" in text for text in notices)


async def test_missing_kernel_of_variable_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "ipykernel")
    _, notices = await opened(tmp_path, {}, {"SAGENT_TOOLS": "default,notebook"})
    assert any("(SAGENT_TOOLS) is left out" in text for text in notices)


async def test_no_notice_when_complete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch)
    names, notices = await opened(tmp_path, {"tools": ["default", "notebook"]})
    assert "Notebook" in names
    assert not any("is left out" in text for text in notices)
