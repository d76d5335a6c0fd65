"""What commands in a sandbox may touch, by what lies in a workspace."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import sagent
from sagent.app import policy_of
from sagent.config import load
from sagent.lib.json import JsonObject
from sagent.messages import ToolCall
from sagent.policy import Allow, Ask
from sagent.policy.permissions import Mode, PermissionPolicy
from sagent.policy.rules import Rules
from sagent.sandbox import Sandbox, places
from sagent.tool import Effect, Workspace
from tests.depth import later

CONNECT = (  # by a relative name: all of a path may be longer than a socket's address
    "import os, socket, sys; place, name = os.path.split(sys.argv[1]); os.chdir(place);"
    "socket.socket(socket.AF_UNIX).connect(name); print('connected')"
)


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


@pytest.mark.parametrize("linked", [False, True])
async def test_settings_in_workspace_are_protected(work: Path, linked: bool) -> None:
    file = work / "mine.toml"
    file.write_text("")
    (work / "link.toml").symlink_to("mine.toml")
    settings = load({}, {"HOME": str(work.parent)}, work, file=work / ("link.toml" if linked else "mine.toml"))
    policy, workspace = policy_of(settings), Workspace(work)
    assert policy.mode == "edit"
    for name, asked in (("mine.toml", True), ("link.toml", True), ("other.toml", False)):
        call = ToolCall("c", "Write", JsonObject({"file_path": name, "content": ""}))
        verdict = await policy.before_tool(call, Effect("write", (work / name,)), workspace)
        assert isinstance(verdict, Ask if asked else Allow)
    assert not policy.profile(workspace).can_write(str(file))
    assert policy.profile(workspace).can_read(str(file))


def test_autorun_files_in_nested_repositories(work: Path) -> None:
    for directory in ("nested/.git", "with-hg/.hg", "a/b/.vscode"):
        (work / directory).mkdir(parents=True)
    (work / "a/.envrc").write_text("")
    profile = PermissionPolicy("edit").profile(Workspace(work))
    names = ("nested/.envrc", "nested/.claude/settings.json", "with-hg/.hg/hgrc", "a/b/.vscode/tasks.json", "a/.envrc")
    assert [name for name in names if profile.can_write(f"{work}/{name}")] == []
    assert [name for name in ("nested/a", "a/b/c") if not profile.can_write(f"{work}/{name}")] == []


@later
@pytest.mark.needs("bwrap")
async def test_no_command_reaches_workspace_socket(work: Path, listeners: list[str]) -> None:
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


LISTEN = (
    "import os, socket, sys; server = socket.socket(socket.AF_UNIX); server.bind(sys.argv[1]); server.listen();"
    "os.chdir(sys.argv[2]); print('listens', flush=True); sys.stdin.read()"
)


@pytest.mark.costly
@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("name", [".git", "elsewhere/gitdir"])
def test_gitdir_pointer_fifo_is_not_waited_for(work: Path, name: str) -> None:
    (work / "elsewhere").mkdir()
    (work / ".git").write_text("gitdir: elsewhere")
    (work / name).unlink(missing_ok=True)
    os.mkfifo(work / name)
    told = "import sys; from pathlib import Path; from sagent.policy.permissions import PermissionPolicy as P; "
    told += "from sagent.tool import Workspace as W; print(P('edit').profile(W(Path(sys.argv[1]))).writable[0])"
    ended = subprocess.run([sys.executable, "-c", told, work], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.strip() == str(work)


@pytest.mark.costly
@pytest.mark.parametrize("temporary", [True, False])
@pytest.mark.parametrize(
    "way", ["stays", "goes away", "another network, SSH_AUTH_SOCK", "another network, DOCKER_HOST"]
)
async def test_no_command_reaches_relative_socket(
    work: Path, monkeypatch: pytest.MonkeyPatch, way: str, temporary: bool
) -> None:
    sandbox, policy = Sandbox(), PermissionPolicy("edit")
    if sandbox.means.name != "bubblewrap":
        pytest.skip(sandbox.means.why)
    scratch = tempfile.TemporaryDirectory(prefix="sockets-", dir=None if temporary else sys.prefix)
    place = Path(scratch.name)
    apart = ["unshare", "-rn", "--"] if "network" in way else []
    if apart:
        monkeypatch.setenv(way.rpartition(" ")[2], f"{'unix://' if 'DOCKER' in way else ''}{place}/a.sock")
    argv = [*apart, sys.executable, "-c", LISTEN, "./a.sock", "." if way == "stays" else "/"]
    pipe, environment = subprocess.PIPE, {**os.environ, "PWD": str(place)}
    with subprocess.Popen(argv, cwd=place, env=environment, stdin=pipe, stdout=pipe) as server:
        assert server.stdout is not None
        try:
            assert server.stdout.readline() == b"listens\n"
            line = ["/usr/bin/env", "python3", "-c", CONNECT, f"{place}/a.sock"]
            confined = await sandbox.confine(line, policy.profile(Workspace(work)), work)
            ended = subprocess.run([*confined.wall, *confined.argv], cwd=work, capture_output=True, check=False)
            assert b"connected" not in ended.stdout
            assert re.search(rb"Errno (2|13|111)\b", ended.stderr)
            confined.finish()
        finally:
            server.kill()
            scratch.cleanup()
            await sandbox.aclose()


@pytest.mark.parametrize("value", ["{0}", "unix:path={0},guid=1", "unix://{0}", "{0},123,0", "a:{0}:b", "  {0};x"])
@pytest.mark.parametrize("name", ["b", "b c", "b, c:d=1; e & é"])
def test_socket_in_environment_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, name: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{tmp_path}/a")
        (tmp_path / "a").rename(tmp_path / name)  # as a program does that wants it to appear when it listens
        monkeypatch.setenv("SOME_SOCKET", value.format(tmp_path / name))
        assert f"{tmp_path}/{name}" in places.listening(())


def test_key_files_in_variables_are_known(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/k8s/one:{tmp_path}/k8s/two:relative:")
    monkeypatch.setenv("GNUPGHOME", f"{tmp_path}/keys/../gpg/")
    monkeypatch.setenv("CODEX_HOME", f"{tmp_path}/codex")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/ticket")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))  # in which the home directory lies: all would be hidden
    hidden = PermissionPolicy("edit", home=tmp_path / "home").profile(Workspace(work)).hidden
    own = sorted(path.removeprefix(f"{tmp_path}/") for path in hidden if path.startswith(f"{tmp_path}/"))
    assert [path for path in own if not path.startswith("home/")] == ["codex/auth.json", "codex/history.jsonl",
        "codex/sessions", "gpg", "k8s/one", "k8s/two", "ticket"]  # fmt: skip
    assert str(tmp_path) not in hidden


def test_machine_sockets_are_hidden(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [f"{work}/a.sock", f"{tmp_path}/home/b.sock", "/var/snap/lxd/common/lxd/unix.socket", "/srv/db/c.sock"]
    own = ["/run/docker.sock", f"{tmp_path}/tmux/default", "/var/tmp/d.sock", "/dev/log"]
    monkeypatch.setattr("sagent.policy.confinement.listening", lambda roots: frozenset([*seen, *own]))
    policy = PermissionPolicy("edit", home=tmp_path.resolve() / "home")
    hidden = policy.profile(Workspace(work)).hidden
    assert {*seen} <= {*hidden}
    assert not {*own} & {*hidden}


def test_denial_beats_deeper_and_equal_rules(tmp_path: Path) -> None:
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


@pytest.mark.costly
@pytest.mark.parametrize("place", [".venv/lib/python3/site-packages", "src"])
def test_running_sagent_is_read_only_in_workspace(work: Path, place: str) -> None:
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


def test_later_finds_keep_permissions(work: Path) -> None:
    """By these commands share their processes and their network: what is hidden from some is hidden from all."""

    def permissions(*denied: str, mode: Mode = "edit") -> object:
        return PermissionPolicy(mode, Rules.parse([], denied)).profile(Workspace(work)).permissions

    before = permissions()
    (work / ".env").touch()
    subprocess.run(["git", "init", "-q", str(work / "sub")], check=True)
    assert permissions() == before
    others = {permissions(mode="plan"), permissions("Read(*.pem)"), permissions("Edit(*.pem)")}
    assert len({before, *others}) == 4
