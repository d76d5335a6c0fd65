"""Conversations and keys as commands find them: the state directory, this session's own files, and all homes."""

import os
import pwd
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sagent.lib.json import json_freeze_object
from sagent.messages import Text, ToolCall
from sagent.policy import Ask
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rules
from sagent.sandbox import Sandbox
from sagent.sandbox.places import homes, other_names
from sagent.sandbox.probe import Confinement, keep
from sagent.sandbox.profile import Need, Profile
from sagent.sandbox.seatbelt import profile_text
from sagent.session.blobs import OUTPUTS
from sagent.session.contents import Label
from sagent.session.store import Session, copy, delete
from sagent.tool import Effect, RunContext, Workspace
from sagent.tools.bash import Bash
from tests.depth import later
from tests.intact import faults

SECRET = "TOKEN-of-the-env-file"
WALLS = [
    pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap")),
    pytest.param("landlock", marks=pytest.mark.needs("landlock")),
]


def word(path: object) -> str:
    """Return a path as a word of a shell's line."""
    return shlex.quote(str(path))


class Rig:
    """A session in a state directory, and the Bash tool of its agent within one wall."""

    def __init__(self, base: Path, wall: str) -> None:
        self.base, self.work, self.state = base, base / "work", base / "state"
        for directory in (self.work, self.state, base / "cache"):
            directory.mkdir()
        keep(base / "cache", Confinement("bubblewrap" if wall == "bubblewrap" else "landlock"))
        self.session = Session.create(self.state, self.work)
        self.session.begin(self.work)
        self.session.log().append(Label(f"said: {SECRET}"))
        self.blobs = self.session.log().blobs
        self.secret = self.blobs.put(SECRET.encode())  # as Read and rewinding keep a file
        self.policy = PermissionPolicy("edit", Rules(), home=base / "home", private=(self.state,))
        self.policy.expose(session=(self.session.path,))
        self.workspace = Workspace(self.work)
        self.workspace.profile = self.policy.profile
        self.sandbox = Sandbox("required", cache=base / "cache")
        self.tool = Bash(sandbox=self.sandbox)

    async def bash(self, command: str, *needs: Need) -> str:
        effect = Effect("execute", command=command, needs=needs)
        run = RunContext("root", "call", self.workspace, self.blobs, lambda text: None, effect=effect)
        output = await self.tool(json_freeze_object({"command": command}), run)
        return "".join(part.text for part in output.content if isinstance(part, Text))

    async def aclose(self) -> None:
        await self.tool.aclose()
        await self.sandbox.aclose()
        self.session.close()


@pytest.fixture
def base() -> Iterator[Path]:
    """A directory that is not among temporary files, of which a box has its own."""
    with tempfile.TemporaryDirectory(prefix=".sagent-test-", dir=Path(__file__).parents[2]) as place:
        yield Path(os.path.realpath(place))


@pytest.fixture(params=WALLS)
async def rig(request: pytest.FixtureRequest, base: Path) -> AsyncIterator[Rig]:
    rig = Rig(base, request.param)
    yield rig
    await rig.aclose()


def named(text: str) -> str:
    """The file that a long output says it is in."""
    return text.partition("the full text is in ")[2].partition(":")[0]


@pytest.mark.costly
async def test_session_is_hidden_from_commands(rig: Rig) -> None:
    log, blob, me = rig.session.path / "root.jsonl", rig.secret, os.getpid()
    session, kept = word(rig.session.path), word(blob)
    (rig.base / "link").symlink_to(rig.state)
    other = rig.base / "link" / log.relative_to(rig.state)
    open_log = os.open(log, os.O_RDONLY)
    ways = [
        *(
            f"cat {word(path)}"
            for path in (log, blob, other, f"/proc/self/root{log}", f"/proc/self/cwd/../state/{blob.name}")
        ),
        f"cat {session}/../*/root.jsonl; cat {session}/blobs/*",
        f"grep -rs TOKEN {word(rig.state)} {word(rig.base)}",
        f"ln {word(log)} a; cat a; ln {kept} taken-blob; cat taken-blob; cp {kept} c; mv {kept} m; cat c m",
        f"cat /proc/{me}/fd/{open_log} /proc/{me}/root{log} /proc/{me}/cwd/x",
        f"cat /proc/{me}/environ | tr '\\0' '\\n' | grep ^PATH && echo TOKEN",
        f"dd if=/proc/{me}/mem bs=1 count=1 skip=$((0x$(sed 's/-.*//;q' /proc/{me}/maps))) && echo TOKEN",
        f"cd {session} && cat root.jsonl",
    ]
    try:
        assert "TOKEN" not in await rig.bash("\n".join(f"({way})" for way in ways))
    finally:
        os.close(open_log)


@later
@pytest.mark.costly
async def test_long_output_is_read_by_later_ones(rig: Rig) -> None:
    path = named(await rig.bash("seq 100000"))
    assert Path(path).parent == rig.secret.parent
    assert (await rig.bash(f"tail -n 1 {word(path)}")).strip() == "100000"
    path = named(await rig.bash("seq 200000"))
    assert (await rig.bash(f'p={word(path)}; tail -qn 1 "$p"; echo x >> "$p"; rm -f "$p"')).startswith("200000")
    assert Path(path).read_text().endswith("200000\n")
    assert SECRET not in await rig.bash(f"cat {word(rig.secret.parent)}/*")


@pytest.mark.costly
async def test_output_needing_more_is_not_shown(rig: Rig) -> None:
    key = rig.base / "home/.ssh/id"
    key.parent.mkdir(parents=True)
    key.write_text(f"{SECRET}\n" * 5_000)
    said = await rig.bash(f"cat {word(key)}", Need("read", str(key)))
    assert SECRET in said
    assert SECRET not in await rig.bash(f"cat {word(named(said))} {word(key)}")


@pytest.mark.costly
async def test_long_command_is_run(rig: Rig) -> None:
    assert (await rig.bash(f"echo {'x' * 200_000} | wc -c")).strip() == "200001"
    assert list(rig.session.path.glob(f"{OUTPUTS}/scratch-*")) == []


@pytest.mark.costly
async def test_shown_outputs_outlive_the_run(rig: Rig) -> None:
    path = named(await rig.bash("seq 100000"))
    await rig.aclose()
    assert faults(rig.session.path) == []
    with Session.open(rig.session.path) as again:
        shown, source = again.log().blobs.shown()
        assert [file.name for file in source.iterdir()] == [Path(path).name]
        assert shown == Path(path).parent
    delete(rig.session.path)
    assert not rig.session.path.exists()


@pytest.mark.costly
async def test_commands_of_copy_read_outputs(rig: Rig) -> None:
    name = Path(named(await rig.bash("seq 100000"))).name
    (rig.session.path / OUTPUTS / "scratch-1-of-a-command").touch()
    with Session.open(copy(rig.session.path, rig.state, rig.work)) as again:
        rig.policy.expose(session=(again.path,))
        rig.blobs = again.log().blobs
        said = await rig.bash(f"tail -n 1 {word(again.path)}/blobs/{name}; cat {word(again.path)}/*")
    assert said.split()[0] == "100000"
    assert "TOKEN" not in said


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts something")
async def test_twice_mounted_state_is_hidden_twice(tmp_path: Path) -> None:
    base = Path(os.path.realpath(tmp_path))
    (base / "once/state").mkdir(parents=True)
    (base / "twice here").mkdir()
    (base / "once/state/log").write_text("x")
    script = f"""mount --bind '{base}/once' '{base}/twice here' && {shutil.which("env")} python3 -I -c '
import sys; sys.path.insert(0, "{Path(__file__).parents[2]}")
from sagent.sandbox.places import other_names
print(*sorted(set(other_names(["{base}/once/state", "{base}/once/none"]))), sep=chr(10))'"""
    ran = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False)
    if "unshare" in ran.stderr or "mount:" in ran.stderr:
        pytest.skip("cannot mount here")
    assert ran.stdout.splitlines() == [f"{base}/once/state", f"{base}/twice here/state"], ran.stderr
    assert [path for path in other_names([str(base / "none")]) if "none" in path] == []


def test_seatbelt_shows_outputs_one_by_one(tmp_path: Path) -> None:
    (tmp_path / OUTPUTS).mkdir()
    (tmp_path / OUTPUTS / "abc").touch()
    place = f"{tmp_path}/blobs"
    profile = Profile(hidden=(str(tmp_path),), exposed=(place,), shown=((place, f"{tmp_path}/{OUTPUTS}"),))
    text = profile_text(profile, "/scratch")
    assert f'(allow file-read* (subpath "{place}/abc"))' in text
    assert f'(allow file-read* (subpath "{place}"))' not in text
    assert text.rstrip().endswith("(deny file-write-setugid)")


# -- homes


class Account:
    """The user database, with an account whose home is not $HOME."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **places: Path) -> None:
        known = {str(os.getuid()): places["own"], "alice": places["alice"], "4242": places["alice"]}

        def find(key: object) -> pwd.struct_passwd:
            if str(key) not in known:
                raise KeyError(key)
            return pwd.struct_passwd(("x", "x", 0, 0, "", str(known[str(key)]), "/bin/sh"))

        monkeypatch.setattr(pwd, "getpwuid", find)
        monkeypatch.setattr(pwd, "getpwnam", find)


@pytest.mark.parametrize("variable", ["SUDO_USER=alice", "SUDO_UID=4242", "DOAS_USER=alice", "PKEXEC_UID=4242", ""])
async def test_all_homes_of_a_person_are_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    base = Path(os.path.realpath(tmp_path))
    for name in ("given", "own", "alice", "work"):
        (base / name / ".ssh").mkdir(parents=True)
        (base / name / ".ssh/id").write_text("KEY")
        (base / name / ".bashrc").touch()
    Account(monkeypatch, own=base / "own", alice=base / "alice")
    name, _, value = variable.partition("=")
    if name:
        monkeypatch.setenv(name, value)
    policy = PermissionPolicy("edit", Rules(), home=base / "given")
    workspace = Workspace(base / "work")
    hidden = policy.profile(workspace)
    private = ["given", "own", *(["alice"] if name else [])]
    for home in ("given", "own", "alice"):
        assert hidden.can_read(f"{base}/{home}/.ssh/id") == (home not in private)
        read = Effect("read", (base / home / ".ssh/id",))
        verdict = await policy.before_tool(ToolCall("1", "Read"), read, workspace)
        assert isinstance(verdict, Ask) == (home in private)


@pytest.mark.parametrize(
    ("variable", "below"),
    [
        *(("XDG_CONFIG_HOME", name) for name in ("gh/hosts.yml", "gcloud/x", "sagent/config.toml")),
        *(("XDG_DATA_HOME", "keyrings/x"), ("XDG_STATE_HOME", "sagent/x"), ("XDG_CACHE_HOME", "huggingface/token")),
        *(("ZDOTDIR", ".zsh_history"), ("GRADLE_USER_HOME", "gradle.properties"), ("MYSQL_HOME", "my.cnf")),
    ],
)
def test_keys_where_variables_say_are_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, below: str
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    profile = PermissionPolicy("edit", home=tmp_path / "home").profile(Workspace(tmp_path / "work"))
    assert not profile.can_read(f"{tmp_path}/elsewhere/{below}")
    assert profile.can_read(f"{tmp_path}/elsewhere/another")


def test_invalid_homes_are_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Account(monkeypatch, own=tmp_path / "gone", alice=tmp_path)
    odd = {"SUDO_USER": "nobody-of-that-name", "SUDO_UID": "9" * 40, "PKEXEC_UID": "-1", "SUDO_HOME": "relative"}
    assert homes("/h", odd) == ("/h",)
    assert homes("/h", {"SUDO_USER": "alice", "HOME": str(tmp_path)}) == ("/h", str(tmp_path))


@pytest.mark.costly
@pytest.mark.parametrize("wall", WALLS)
async def test_account_keys_are_not_read(base: Path, wall: str, monkeypatch: pytest.MonkeyPatch) -> None:
    account = base / "account"
    (account / ".ssh").mkdir(parents=True)
    (account / ".ssh/id").write_text("KEY")
    (account / "notes").write_text("plain")
    Account(monkeypatch, own=account, alice=account)
    rig = Rig(base, wall)
    try:
        said = await rig.bash(f'cd {word(account)}; cat .ssh/id; cat ~x/.ssh/id "$PWD/.ssh/id"; cat notes')
    finally:
        await rig.aclose()
    assert "plain" in said
    assert "KEY" not in said


LEADS = {
    "outside": "{base}/out/.env",
    "other name": "{base}/out/settings",
    "inside": "{base}/work/sub/settings",
    "relative": "sub/settings",
    "directory": "{base}/out",
    "circle": ".env",
    "nowhere": "{base}/none",
}


@pytest.mark.costly
@pytest.mark.parametrize("target", LEADS.values(), ids=LEADS)
@pytest.mark.parametrize("wall", WALLS)
async def test_linked_env_file_is_hidden(base: Path, wall: str, target: str) -> None:
    if wall == "landlock" and "sub" in target:
        pytest.skip("Landlock hides nothing in what can be written")
    rig = Rig(base, wall)
    for name in ("out/.env", "out/settings", "work/sub/settings"):
        (base / name).parent.mkdir(exist_ok=True)
        (base / name).write_text("KEY")
    (base / "work/.env").symlink_to(target.format(base=base))
    try:
        said = await rig.bash("cat .env .env/*; echo ran")
    finally:
        await rig.aclose()
    assert said.rstrip().endswith("ran")
    assert "KEY" not in said


@pytest.mark.costly
@pytest.mark.parametrize("target", ["/usr", "/", "/etc", "/bin/sh", "{base}", "{base}/work", "/proc"])
async def test_links_of_commands_stop_no_command(rig: Rig, target: str) -> None:
    await rig.bash(
        f"ln -s {word(target.format(base=rig.base))} .env; mkdir sub; ln -s / sub/.env.local; echo plain > file"
    )
    said = await rig.bash("cat file && ls -d .env && head -c 0 /etc/passwd && echo ran")
    assert said.split() == ["plain", ".env", "ran"]


LINKED = {"home": "", "keys": ".ssh", "settings": ".config", "one file": ".netrc", "state": ".local"}


@pytest.mark.costly
@pytest.mark.parametrize("linked", LINKED.values(), ids=LINKED)
@pytest.mark.parametrize("wall", WALLS)
async def test_places_behind_links_are_hidden(base: Path, wall: str, linked: str) -> None:
    real = base / "real"
    for name in (".ssh/id", ".config/gh/hosts.yml", ".netrc", ".local/state/sagent/log"):
        (real / name).parent.mkdir(parents=True, exist_ok=True)
        (real / name).write_text("KEY")
    (real / "notes").write_text("plain")
    home = base / "home"
    if linked:
        real.rename(home)
        (home / linked).rename(base / "elsewhere")
        (home / linked).symlink_to(base / "elsewhere")
    else:
        home.symlink_to(real)
    rig = Rig(base, wall)
    try:
        at, keys = word(home), f"{word(base)}/elsewhere {word(real)}/.ssh"
        said = await rig.bash(f"cat {at}/notes; grep -rs . {at}/.*/ {at}/.netrc {keys}")
    finally:
        await rig.aclose()
    assert said.startswith("plain")
    assert "KEY" not in said
