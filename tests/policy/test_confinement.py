"""What commands in a sandbox may touch, by what lies in a workspace."""

import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sagent
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rules
from sagent.sandbox import Sandbox
from sagent.tool import Workspace

CONNECT = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('connected')"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path.resolve() / "work"


@pytest.fixture
def listeners(work: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Where the person's programs listen: opened by an absolute and by a relative name."""
    monkeypatch.chdir(work)
    names = [f"{work}/a.sock", "./b.sock"]
    servers = [socket.socket(socket.AF_UNIX) for _ in names]
    for server, name in zip(servers, names, strict=True):
        server.bind(name)
        server.listen()
    yield [f"{work}/a.sock", f"{work}/b.sock"]
    for server in servers:
        server.close()


@pytest.mark.needs("bwrap")
async def test_no_command_connects_to_a_socket_of_the_workspace(work: Path, listeners: list[str]) -> None:
    sandbox, policy = Sandbox(), PermissionPolicy("edit")
    if sandbox.means.name != "bubblewrap":
        pytest.skip(sandbox.means.why)
    try:
        for path in listeners:
            line = ["/usr/bin/env", "python3", "-c", CONNECT, path]
            confined = await sandbox.confine(line, policy.profile(Workspace(work)), work)
            ended = subprocess.run([*confined.wall, *confined.argv], cwd=work, capture_output=True, check=False)
            assert b"connected" not in ended.stdout
            assert re.search(rb"Errno (13|111)\b", ended.stderr)  # it is there, and nobody answers
            confined.finish()
    finally:
        await sandbox.aclose()


def test_sockets_are_hidden_wherever_commands_see_those_of_the_machine(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = [f"{work}/a.sock", f"{tmp_path}/home/b.sock", "/var/snap/lxd/common/lxd/unix.socket", "/srv/db/c.sock"]
    own = ["/run/docker.sock", f"{tmp_path}/tmux/default", "/var/tmp/d.sock", "/dev/log"]
    monkeypatch.setattr("sagent.policy.confinement.listening", lambda roots: frozenset([*seen, *own]))
    policy = PermissionPolicy("edit", home=tmp_path.resolve() / "home")
    hidden = policy.profile(Workspace(work)).hidden
    assert {*seen} <= {*hidden}
    assert not {*own} & {*hidden}


def test_what_a_rule_denies_wins_over_what_lies_deeper_or_is_allowed_by_the_same_name(tmp_path: Path) -> None:
    home, work = tmp_path.resolve() / "home", tmp_path.resolve() / "opt/work"
    work.mkdir(parents=True)
    (home / ".cache/pip").mkdir(parents=True)
    deny = [f"Edit({tmp_path}/opt/**)", "Edit(~/.cache/**)", "Edit(/srv/a)", "Read(/srv/b)", "Read(/srv/c/**)"]
    allow = ["Edit(/srv/a)", "Read(/srv/b)", "Edit(/srv/c/d)", "Edit(/srv/e)"]
    profile = PermissionPolicy("edit", Rules.parse(allow, deny), home=home).profile(Workspace(work))
    assert [path for path in (str(work), f"{home}/.cache/pip", "/srv/a") if profile.can_write(path)] == []
    assert [path for path in ("/srv/b", "/srv/c/d") if profile.can_read(path)] == []
    assert profile.can_write("/srv/e")
    assert profile.can_write(f"{home}/.npm/_cacache")


@pytest.mark.parametrize("place", [".venv/lib/python3/site-packages", "src"])
def test_the_sagent_that_runs_is_read_only_where_it_was_installed_in_the_workspace(work: Path, place: str) -> None:
    packages = work / place
    ignored = shutil.ignore_patterns("__pycache__", "repl", "cli", "providers", "lab", "app")
    shutil.copytree(Path(sagent.__path__[0]), packages / "sagent", ignore=ignored)
    program = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path;"
        "from sagent.policy.permissions import PermissionPolicy; from sagent.tool import Workspace;"
        "print(json.dumps(PermissionPolicy('edit').profile(Workspace(Path(sys.argv[2]))).protected))"
    )
    argv = [sys.executable, "-I", "-B", "-c", program, str(packages), str(work)]
    protected = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
    assert (f"{packages}/sagent" in protected) == ("site-packages" in place)
