"""What of a workspace a sandbox knows: all that is there, also in a large one, at a few looks' delay."""

import os
import shutil
import tempfile
import time
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rules
from sagent.sandbox import Sandbox
from sagent.sandbox.survey import Survey
from sagent.tool import Workspace
from tests.depth import deep


def is_env(path: str) -> bool:
    return path.endswith("/.env")


def test_deep_keys_and_repositories_are_found(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "work"
    for number in range(700):
        (root / f"{number // 100}/{number}").mkdir(parents=True)
    (root / "6/699/.env").write_text("KEY=1")
    (root / "6/698/sub/.git").mkdir(parents=True)
    policy, workspace = PermissionPolicy("edit", Rules.parse([], ["Read(*.pem)"]), home=tmp_path), Workspace(root)
    profiles = (policy.profile(workspace) for _ in range(100))  # each goes on from there for a time
    hooks = f"{root}/6/698/sub/.git/hooks"
    assert any(f"{root}/6/699/.env" in each.hidden and hooks in each.protected for each in profiles)
    (root / "6/697/.env.local").write_text("KEY=1")
    (root / "6/697/a.pem").write_text("KEY")
    profiles = (policy.profile(workspace) for _ in range(10))
    wanted = {f"{root}/6/697/.env.local", f"{root}/6/697/a.pem"}
    assert any(wanted <= {*profile.hidden} for profile in profiles)


async def test_too_large_workspace_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.sandbox.survey.MAX_DIRECTORIES", 3)
    root = tmp_path.resolve() / "work"
    for number in range(2):
        (root / str(number)).mkdir(parents=True)
    policy, workspace, told = PermissionPolicy("edit", home=tmp_path), Workspace(root), list[str]()
    assert policy.profile(workspace).partly_known == ()
    (root / "0/a/b").mkdir(parents=True)
    sandbox = Sandbox()
    sandbox.warn = told.append
    try:
        for _ in range(2):
            (await sandbox.confine(["true"], policy.profile(workspace), root)).finish()
    finally:
        await sandbox.aclose()
    if not sandbox.stands:
        pytest.skip(sandbox.means.why)
    assert len(told) == 1
    assert told[0].startswith(f"{root} has more directories")


def test_installed_packages_are_skipped(tmp_path: Path) -> None:
    for name in ("node_modules", "src"):
        (tmp_path / name / "a").mkdir(parents=True)
        (tmp_path / name / "a/.env").touch()
    assert [*Survey(str(tmp_path), is_env).look()] == [f"{tmp_path}/src/a/.env"]


@pytest.mark.parametrize("below", ["", "a", "a/b/c/d/e"])
def test_nearest_are_known_on_slow_machines(below: str, tmp_path: Path) -> None:
    """A deny rule would protect nothing of what was not looked at within the time."""
    place = tmp_path / below
    place.mkdir(parents=True, exist_ok=True)
    (place / ".env").touch()
    assert [*Survey(str(tmp_path), is_env).look(seconds=0)] == [str(place / ".env")]


_NAMES = st.sampled_from(["a", "b", "a/a", "a/b", "b/a", "a/a/b", "b/a/a"])
_CHANGES = st.tuples(st.sampled_from(["file", "directory", "remove", "move", "link"]), _NAMES, _NAMES)


def change(root: Path, kind: str, name: str, other: str) -> None:
    place = root / name
    try:
        match kind:
            case "file":
                place.mkdir(parents=True, exist_ok=True)
                (place / ".env").touch()
            case "directory":
                place.mkdir(parents=True, exist_ok=True)
            case "remove":
                place.unlink() if place.is_symlink() else shutil.rmtree(place)
            case "move":
                place.rename(root / other)
            case _:
                place.symlink_to(root / other)
    except OSError:
        pass  # there is no such thing, or one already


@settings(max_examples=deep(15, 60), deadline=None)
@given(st.lists(st.lists(_CHANGES, max_size=5), min_size=1, max_size=5))
def test_survey_knows_what_is_there(rounds: list[list[tuple[str, str, str]]]) -> None:
    with tempfile.TemporaryDirectory(prefix="sagent-test-") as place:
        root, ages = Path(place), count(10)
        survey = Survey(str(root), is_env)
        for changes in rounds:
            for each in changes:
                change(root, *each)
            settle(root, next(ages))
            there = {os.path.join(base, ".env") for base, _, files in os.walk(root) if ".env" in files}
            assert {*survey.look()} == there


def settle(root: Path, age: int) -> None:
    """Have what has changed just now look as if that were some seconds ago."""
    now = time.time_ns()
    for directory, _, _ in os.walk(root):
        if now - os.lstat(directory).st_mtime_ns < 9_000_000_000:
            os.utime(directory, ns=(0, now - age * 1_000_000_000))
