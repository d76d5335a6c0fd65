"""A home and a repository with settings files in them."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sagent.config import Settings, load


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The person's home, with a directory for their settings."""
    monkeypatch.setattr(sys, "platform", "linux")
    found = tmp_path.resolve() / "home"
    (found / ".config" / "sagent").mkdir(parents=True)
    return found


@pytest.fixture
def config(home: Path) -> Path:
    """Where the person's settings lie."""
    return home / ".config" / "sagent"


@pytest.fixture
def settings(home: Path) -> Callable[..., Settings]:
    """Settings of a fresh repository: `project` is its file's text, `file` another one than the person's."""
    tree = home.parent / "tree"
    (tree / ".git").mkdir(parents=True)
    (tree / ".sagent").mkdir()

    def build(*, project: str = "", environ: dict[str, str] | None = None, file=None, **flags: object) -> Settings:
        (tree / ".sagent" / "config.toml").write_text(project)
        return load(flags, {"HOME": str(home), **(environ or {})}, tree, file=file)

    return build
