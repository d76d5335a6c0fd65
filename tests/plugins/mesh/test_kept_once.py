"""Keys and lists that several processes create or change at the same moment."""

import json
import os
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path

import pytest

from sagent.plugins.imports.folders import PLUGINS, installed, remove
from sagent.plugins.mesh.security import Users
from sagent.plugins.mesh.server import _own_key
from tests.cli.program import Shell
from tests.depth import later

MANY = 7


def _make_key(folder: str) -> str:
    return _own_key(Path(folder))


def test_key_is_made_once(tmp_path: Path) -> None:
    with get_context("fork").Pool(MANY) as processes:
        assert len(set(processes.map(_make_key, [str(tmp_path)] * 5 * MANY, chunksize=1))) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["bus.nk"]
    assert (tmp_path / "bus.nk").stat().st_mode & 0o777 == 0o600


def test_key_is_made_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def refuse(source: str, target: str, *, dst_dir_fd: int | None = None) -> None:
        if dst_dir_fd is None:
            raise PermissionError
        link(source, target, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "link", refuse)
    assert _make_key(str(tmp_path)) == _make_key(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["bus.nk"]


def test_users_added_at_once_are_all_kept(tmp_path: Path) -> None:
    users = Users(tmp_path / "users")
    with ThreadPoolExecutor(MANY) as pool:
        list(pool.map(lambda name: users.change("main", [("node", name, ())], ()), [f"n{n}" for n in range(20)]))
    assert {user.name for user in users.all()} == {f"n{n}" for n in range(20)}


def test_plugins_removed_at_once_are_all_forgotten(tmp_path: Path) -> None:
    names = [f"p{number}" for number in range(20)]
    for name in names:
        (tmp_path / PLUGINS / name).mkdir(parents=True)
    (tmp_path / PLUGINS / "installed.json").write_text(json.dumps({name: {"from": "x"} for name in [*names, "kept"]}))
    with ThreadPoolExecutor(MANY) as pool:
        list(pool.map(lambda name: remove(name, tmp_path), names))
    assert installed(tmp_path) == {"kept": {"from": "x"}}


@later
def test_refused_server_is_told(shell: Shell) -> None:
    assert shell.run("nodes", "permissions", "--dir", "u", "--node", "n1", model="").code == 0
    routes = _free_ports(3)
    servers = list[subprocess.Popen[bytes]]()
    for number, own in enumerate(routes[:2]):
        peers = [f"--peer=127.0.0.1:{port}" for port in routes if port != own]
        places = ["--dir", f"b{number}", "--cluster", f"127.0.0.1:{own}", "--cluster-key", f"key{number}"]
        servers.append(shell.start("bus", "--port", "0", "--users", "u/users.conf", *places, *peers, model=""))
    for server in servers:
        assert server.stderr is not None
        assert b"cluster keys differ" in server.stderr.readline()


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [each.getsockname()[1] for each in sockets]
