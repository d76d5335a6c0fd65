"""`sagent update` and `sagent uninstall`: in the way in which it was installed, and never more than was said."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sagent.context.places import directory
from sagent.plugins.installation.installer import find_installation
from tests.cli.program import Shell
from tests.depth import slow

ROOT = Path(__file__).parents[3]
METADATA = "Metadata-Version: 2.4\nName: sagent\nVersion: 0.1.0\n"
EXTRAS = "Requires-Dist: pytest; extra == 'mcp'\nRequires-Dist: no-such-package; extra == 'web'\n"
GIT = {"url": "https://git.example/s", "vcs_info": {"vcs": "git", "commit_id": "abc", "requested_revision": "main"}}
WHEEL = {"url": "file:///wheels/sagent-0.1.0-py3-none-any.whl", "archive_info": {}}


@pytest.mark.parametrize(
    ("mark", "came_from", "update", "note"),
    [
        ("pipx_metadata.json", None, ["pipx", "upgrade", "sagent"], ""),
        ("pipx_metadata.json", WHEEL, [], "/wheels/sagent-0.1.0-py3-none-any.whl"),
        ("uv-receipt.toml", GIT, ["uv", "tool", "upgrade", "sagent"], ""),
        ("", GIT, ["-m", "pip", "install", "--upgrade", "sagent[mcp] @ git+https://git.example/s@main"], ""),
        ("", WHEEL, [], "get a newer one"),
        ("", None, [], "--index-url"),
    ],
)
def test_update_uses_the_installer(
    mark: str,
    came_from: dict[str, object] | None,
    update: list[str],
    note: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    info = tmp_path / "site" / "sagent-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA + EXTRAS)
    if came_from:
        (info / "direct_url.json").write_text(json.dumps(came_from))
    if mark:
        (tmp_path / mark).touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    found = find_installation(tmp_path / "site" / "sagent", tmp_path)
    words = [word for command in found.update for word in command if word != sys.executable]
    assert words == update
    assert note in found.update_note
    assert found.remove and "uninstall" in found.remove[0]


def test_update_of_a_checkout_is_shown(shell: Shell) -> None:
    shown = shell.run("update", "--json", model="").json
    assert shown["installer"] == "checkout"
    done = shell.run("update", model="")
    assert done.code == 2 and "--yes" in done.err


def test_uninstall_names_what_stays(shell: Shell) -> None:
    session = _state(shell) / "sessions" / "here" / "one"
    session.mkdir(parents=True)
    (session / "root.jsonl").write_text("{}")
    shown = shell.run("uninstall", "--json", model="").json
    assert isinstance(data := shown["data"], dict) and data[str(_state(shell))] > 0
    assert shell.run("uninstall", "--data", model="").code == 2
    with (session / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = shell.run("uninstall", "--data", "--yes", model="")
        assert done.code == 2 and "in use" in done.err
    assert session.is_dir()
    assert shell.run("uninstall", "--data", "--yes", model="").code == 0
    assert not _state(shell).exists()


def test_uninstall_follows_no_link(shell: Shell, tmp_path: Path) -> None:
    state, shared = _state(shell), tmp_path / "shared"
    shutil.rmtree(state, ignore_errors=True)
    shared.mkdir()
    (shared / "other.txt").write_text("of somebody else")
    state.symlink_to(shared)
    assert shell.run("uninstall", "--data", "--yes", model="").code == 0
    assert (shared / "other.txt").exists()


def _state(shell: Shell) -> Path:
    return directory("state", shell.environment, Path(shell.environment["HOME"]))


@slow
def test_wheel_removes_itself(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "v")], check=True)
    python = tmp_path / "v" / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), str(wheel)]
    subprocess.run(pip, check=True)
    own = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": "", "XDG_CONFIG_HOME": ""}
    run = [str(tmp_path / "v" / "bin" / "sagent")]
    again = subprocess.run(
        [*run, "update", "--yes"], env=own, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert again.returncode == 1 and wheel.name in again.stderr
    gone = subprocess.run(
        [*run, "uninstall", "--yes"], env=own, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert gone.returncode == 0, gone.stderr
    assert not Path(run[0]).exists()
