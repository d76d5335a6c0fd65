"""Boxes by bubblewrap, attacked: every line runs for real, as we are and as nobody, and is judged by its effect."""

import errno
import functools
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from sagent.errors import ToolError
from sagent.sandbox import Sandbox
from sagent.sandbox.bubblewrap import Box, Boxes, View, has_own_pid_limit
from sagent.sandbox.profile import Profile
from sagent.sandbox.scratch import Scratch
from sagent.sandbox.seccomp import MACHINES
from tests.depth import later
from tests.surroundings import PYTHON

PROGRAM = Path(__file__).with_name("boxed_lines.py")
SOURCES = Path(__file__).parents[2]
SYSTEMS_PYTHON = "/usr/bin/python3.11"  # which nobody may run, wherever ours is
OUTSIDERS = ("self", "nobody")
# Of the ways in escapes.py those into parts of the kernel that no namespace keeps from a command.
INTO_THE_KERNEL = (
    *("make_keyring", "make_a_request_key", "ring", "reach_the_machine_below", "use_the_kernels_ciphers"),
    *("load_a_program", "count_events", "handle_page_faults", "unshare_user", "unshare_files", "clone_user"),
    *("clone3_user", "change_root", "mount", "call_as_32_bits"),
)
SET_ID = tuple(re.findall(r"@way\ndef (set_\w+|give_a_file_capabilities)", PROGRAM.with_name("escapes.py").read_text()))

DEBUGGER = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if not (child := os.fork()):
    libc.ptrace(0, 0, 0, 0)
    os.execv("/bin/true", ["true"])
_, status = os.waitpid(child, 0)
print("traced" if os.WIFSTOPPED(status) and not libc.ptrace(7, child, 0, 0) else status)
print("shared" if libc.shmget(0, 4096, 0o1600) >= 0 else os.strerror(ctypes.get_errno()))
"""

# Each prints "out" where it has led out.
ESCAPES = {
    "write beside": "echo x > ../beside/new && echo out",
    "truncate": ": > ../beside/file && echo out",
    "append": "echo x >> ../beside/file && echo out",
    "rename out": "touch moved; mv -f moved ../beside/ 2>&1; [ -e ../beside/moved ] && echo out",
    "hard link in": "ln ../beside/file linked && echo x > linked && echo out",
    "link of a protected file": "ln .git/config linked-config && echo x > linked-config && echo out",
    "protected file": "echo x >> .git/config && echo out",
    "protected directory": "echo x > .git/hooks/pre-commit && echo out",
    "parent of protected": "mv .git gone && mkdir -p .git/hooks && echo out",
    "grandparent of protected": "mv sub gone && mkdir -p sub/inner/.git/hooks && echo out",
    "key of home": "grep KEY ../home/.ssh/id && echo out",
    "key through process 1": 'grep KEY "/proc/1/root$PWD/../home/.ssh/id" && echo out',
    "key through ourselves": 'grep KEY "/proc/self/root$PWD/../home/.ssh/id" && echo out',
    "hidden file": "grep SECRET .env && echo out",
    "link of a hidden file": "ln .env linked-env && grep SECRET linked-env && echo out",
    "hidden file in a renamed directory": "mv sub renamed; grep -r SECRET renamed && echo out",
    "mounts of our own": "unshare -Urm sh -c 'umount -l .env; grep SECRET .env' && echo out",
    "user namespaces": "cat /proc/sys/user/max_user_namespaces",
    "unmapped namespace": "unshare -UmC sh -c 'mount -t cgroup2 none /mnt' && echo out",
    "remount": "mount -o remount,rw,bind / && echo out",
    "line to process 1": "exec 7> /proc/1/fd/0 && echo out",
    "core_pattern": "findmnt -no OPTIONS /proc/sys | grep -w rw && echo out",
    "devices": "touch /dev/new && echo out",
    "run": "touch /run/new && echo out",
    "control groups": "[ -w /sys/fs/cgroup ] && touch /sys/fs/cgroup/new && echo out",
    "mounts that come later": "grep -E 'shared:|master:' /proc/self/mountinfo && echo out",
    "host's loopback": "exec 3<>/dev/tcp/127.0.0.1/$PORT && echo out",
}  # fmt: skip


@functools.cache
def tried(who: str) -> dict[str, str]:
    """What came of each line for one user, in one box."""
    with tempfile.TemporaryDirectory(prefix="sagent-test-") as base:
        place = Path(base).resolve()
        work = lay_out(place)
        before = contents(place)
        profile = {
            "writable": [str(work)],
            "protected": [f"{work}/{name}" for name in (".git/hooks", ".git/config", "sub/inner/.git/hooks")],
            "hidden": [str(place / "home/.ssh"), f"{work}/.env", f"{work}/sub/.env"],
        }
        answers = run_lines(who, place, {"profile": profile, "cwd": str(work), "lines": list(ESCAPES.values())})
        assert contents(place) == before
        return dict(zip(ESCAPES, (text for _, text in answers), strict=True))


def lay_out(place: Path) -> Path:
    work = place / "work"
    for name in ("work/.git/hooks", "work/sub/inner/.git/hooks", "beside", "home/.ssh"):
        (place / name).mkdir(parents=True)
    for name, text in {
        "work/.git/config": "[core]\n",
        "work/.env": "SECRET",
        "work/sub/.env": "SECRET",
        "beside/file": "kept",
        "home/.ssh/id": "KEY",
    }.items():
        (place / name).write_text(text)
    return work


def contents(place: Path) -> dict[str, str]:
    kept = ("beside", "home", "work/.git", "work/sub/inner")
    files = (file for name in kept for file in (place / name).rglob("*") if file.is_file())
    return {str(file): file.read_text() for file in files}


def run_lines(who: str, place: Path, given: object) -> list[tuple[int, str]]:
    prefix: tuple[str, ...] = ()
    if who == "nobody":
        if os.geteuid() or not shutil.which("setpriv") or not Path(SYSTEMS_PYTHON).exists():
            pytest.skip("needs to be root, and a Python that nobody may run")
        prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        if subprocess.run([*prefix, "test", "-r", str(PROGRAM)], check=False).returncode:
            pytest.skip("needs a checkout that nobody may read")
        for path in (place, *place.rglob("*")):
            os.chown(path, 65534, 65534)
    environment = {
        **os.environ,
        "PYTHONPATH": str(SOURCES),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(place / "home"),
    }
    ended = subprocess.run(
        [*prefix, SYSTEMS_PYTHON if who == "nobody" else sys.executable, str(PROGRAM)],
        input=json.dumps(given),
        env={**environment, "PORT": "9"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert not ended.returncode, ended.stderr
    return json.loads(ended.stdout)


@pytest.fixture(autouse=True)
def wall() -> None:
    if Sandbox().means.name != "bubblewrap":
        pytest.skip("bubblewrap does not work here")


@pytest.mark.costly
@pytest.mark.parametrize("who", OUTSIDERS)
@pytest.mark.parametrize("name", ESCAPES)
def test_no_line_leads_out(who: str, name: str) -> None:
    assert "out" not in tried(who)[name].splitlines()


@pytest.mark.costly
@pytest.mark.skipif(platform.machine() not in MACHINES, reason="system calls are refused where their numbers are known")
@pytest.mark.parametrize("who", OUTSIDERS)
def test_kernel_answers_what_commands_need(who: str) -> None:
    with tempfile.TemporaryDirectory(prefix="sagent-test-") as base:
        place = Path(base).resolve()
        (place / "work").mkdir()
        shutil.copy(PROGRAM.with_name("escapes.py"), place / "work")
        python = SYSTEMS_PYTHON if who == "nobody" else PYTHON
        ways = " ".join((*INTO_THE_KERNEL, *SET_ID))
        lines = [
            f"""{python} -I escapes.py '{{"work": "{place}/work"}}' {ways}""",
            f"{python} -I -c {shlex.quote(DEBUGGER)}",
        ]
        given = {"profile": {"writable": [f"{place}/work"]}, "cwd": f"{place}/work", "lines": lines}
        (_, tried), debugged = run_lines(who, place, given)
        assert [way for way, why in json.loads(tried).items() if not why] == []
        assert tuple(debugged) == (0, "traced\nshared\n")


@later
@pytest.mark.costly
@pytest.mark.skipif(platform.machine() not in MACHINES, reason="system calls are refused where their numbers are known")
@pytest.mark.parametrize("who", OUTSIDERS)
def test_no_file_gets_set_id_bit(who: str) -> None:
    tries = {
        "cp /bin/true t && chmod 4755 t": "Operation not permitted",
        "cp /bin/true u && chmod u+s,g+s u": "Operation not permitted",
        "install -m 4755 /bin/true i": "Operation not permitted",
        "mkdir d && chmod g+s d": "Operation not permitted",
        "cp -p given/setid p": "",
        "cp -a given/setid a": "",
        "tar -xpf given/setid.tar --no-same-owner": "Operation not permitted",
        "umask 0; mkdir -m 2777 m": "",
    }
    fine = "cp -p /bin/true x && chmod 755 x && chmod +t . && tar -cf x.tar x && tar -xpf x.tar && install -m 755 x y"
    with tempfile.TemporaryDirectory(prefix="sagent-test-") as base:
        place = Path(base).resolve()
        (place / "work/given").mkdir(parents=True)
        setid = place / "work/given/setid"
        setid.write_text("#!/bin/sh\n")
        setid.chmod(0o6755)
        subprocess.run(["tar", "-C", setid.parent, "-cpf", f"{setid}.tar", "setid"], check=True)
        given = {"profile": {"writable": [f"{place}/work"]}, "cwd": f"{place}/work", "lines": [*tries, fine]}
        *found, last = run_lines(who, place, given)
        left = [str(path) for path in (place / "work").rglob("*") if path.lstat().st_mode & 0o6000 and path != setid]
    assert left == []
    assert [said for said, (_, answer) in zip(tries.values(), found, strict=True) if said not in answer] == []
    assert last[0] == 0, last


@pytest.mark.costly
@pytest.mark.parametrize("who", OUTSIDERS)
def test_everyday_commands_work_in_box(who: str) -> None:
    with tempfile.TemporaryDirectory(prefix="sagent-test-") as base:
        place = Path(base).resolve()
        (place / "home").mkdir()
        work = place / "a b\nc"
        work.mkdir()
        git = "git -c user.name=a -c user.email=a@b.c"
        lines = {
            f"git init -q . && echo x > f && git add f && {git} commit -qm a && git checkout -qb new": (0, ""),
            f"echo y > f && {git} stash -q && cat f": (0, "x\n"),
            "sleep 300 >/dev/null 2>&1 & echo $! > /tmp/pid": (0, ""),
            "mkdir later": (0, ""),  # it is mounted for those that follow
            "mountpoint -q later && echo mounted": (0, "mounted\n"),
            "kill $(cat /tmp/pid) && echo ended": (0, "ended\n"),
            "pwd": (0, f"{work}\n"),
            "touch /dev/shm/new && ls /dev/shm": (0, "new\n"),
            "kill -TERM $$": (-15, ""),
            "exit 7": (7, ""),
            "head -c 3000000 /dev/zero | wc -c": (0, "3000000\n"),
            "ulimit -d unlimited && echo lifted": (0, "lifted\n"),  # as sanitizers need it, with their shadow memory
        }
        given = {"profile": {"writable": [str(work), f"{work}/later"]}, "cwd": str(work), "lines": list(lines)}
        found = {line: tuple(answer) for line, answer in zip(lines, run_lines(who, place, given), strict=True)}
        assert found == lines


@later
def test_existing_ulimits_are_no_hindrance() -> None:
    """`ulimit -u` and `ulimit -d`: a command cannot raise them, so it is not told to."""
    program = (
        "import subprocess; from sagent.sandbox.bubblewrap import Boxes, refusal; from sagent.sandbox.scratch import *;"
        "print(refusal() or 'stands'); scratch = Scratch(); view = Boxes(scratch).open(());"
        "argv = view.entering(['bash', '-c', 'ulimit -u; ulimit -d'], '/', memory=1 << 45);"
        "print(subprocess.run(argv, capture_output=True, text=True).stdout); view.box.close(); scratch.remove()"
    )
    ran = subprocess.run(
        ["prlimit", "--nproc=3000", f"--data={1 << 40}", "--", sys.executable, "-c", program],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.stdout.split() == ["stands", "3000", str(1 << 30)]


@later
def test_closed_home_is_no_hindrance() -> None:
    with tempfile.TemporaryDirectory(prefix="sagent-test-") as base:
        place = Path(base).resolve()
        for name in ("home", "work"):
            (place / name).mkdir()
        (place / "home").chmod(0)
        given = {"profile": {"writable": [f"{place}/work"]}, "cwd": f"{place}/work", "lines": ["echo fine"]}
        assert run_lines("nobody", place, given) == [[0, "fine\n"]]


def test_root_makes_no_user_namespaces() -> None:
    if os.geteuid():
        pytest.skip("others are given one for each command")
    assert tried("self")["user namespaces"] == "0\n"


def test_source_that_became_link_is_not_mounted(tmp_path: Path) -> None:
    """The look at a workspace and the mount are two moments, and a command may run between them."""
    place = tmp_path.resolve()
    (place / "secret").mkdir()
    (place / "work").mkdir()
    swapped = place / "work/sub"
    swapped.symlink_to("../secret")
    scratch = Scratch()
    try:
        opened = Boxes(scratch).open(("--bind", str(swapped), str(swapped)))
    finally:
        scratch.remove()
    assert isinstance(opened, str)
    assert "has become a link" in opened


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_moved_mount_source_is_not_recreated(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """bubblewrap makes what it mounts on, here an empty `.mcp.json` of the project, where nothing lies any more."""
    place = tmp_path.resolve()
    config = place / ".mcp.json"
    config.touch() if kind == "file" else config.mkdir()
    mounts = ("--bind", str(place), str(place), "--ro-bind", str(config), str(config))
    popen, began = subprocess.Popen, list[object]()

    def begin(argv: list[str], **more: object) -> object:
        if not began:
            config.rename(place / "aside")  # as what a command has made of it is
        began.append(argv)
        return popen(argv, **more)  # pyright: ignore[reportCallIssue, reportArgumentType] -- as it is called there

    monkeypatch.setattr("sagent.sandbox.bubblewrap.subprocess.Popen", begin)
    scratch = Scratch()
    try:
        opened = Boxes(scratch).open(mounts)
    finally:
        scratch.remove()
    assert began
    assert not config.exists()
    assert isinstance(opened, str)
    assert str(config) in opened


def test_box_that_cannot_be_prepared_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def harden(box: Box, pid: int) -> str:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Box, "harden", harden)
    scratch = Scratch()
    try:
        opened = Boxes(scratch).open(())
    finally:
        scratch.remove()
    assert all(part in str(opened) for part in ("could not be prepared", "Too many open files"))


def _hurry(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr("sagent.sandbox.bubblewrap.START_TIMEOUT_SECONDS", seconds)
    monkeypatch.setattr("sagent.sandbox.bubblewrap._MOUNT_SECONDS", 0.0)


@later
def test_slow_box_leaves_nothing_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever it is ended: before its child begins, between the two, while the mounts are made."""
    scratch = Scratch()

    def open_and_close() -> None:
        opened = Boxes(scratch).open(())
        if isinstance(opened, View):
            opened.box.close()

    try:
        for step in range(48):
            _hurry(monkeypatch, step % 6 / 2000)
            opening = threading.Thread(target=open_and_close, daemon=True)
            opening.start()
            opening.join(30)
            assert not opening.is_alive()
    finally:
        scratch.remove()


async def test_slow_box_is_not_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _hurry(monkeypatch, 0.0)
    monkeypatch.setattr("sagent.sandbox.bubblewrap._FIRST", "read -r word")  # it never says that it is ready
    begun, begin = list[object](), Boxes.open

    def counted(boxes: Boxes, mounts: Sequence[str], box: Box | None = None) -> View | str:
        begun.append(mounts)
        return begin(boxes, mounts, box)

    monkeypatch.setattr(Boxes, "open", counted)
    scratch = Scratch()
    try:
        with pytest.raises(ToolError, match="did not finish in time"):
            await Boxes(scratch).view(Profile())
    finally:
        scratch.remove()
    assert len(begun) == 1


def test_place_made_a_link_is_not_opened() -> None:
    """A cache below a home that is the workspace, say: the profile names it, and a command has put a link there."""
    with tempfile.TemporaryDirectory(prefix="sagent-test-") as base:
        place = Path(base).resolve()
        for name in ("home", "work", "secret"):
            (place / name).mkdir()
        (place / "work/cache").symlink_to("../secret")
        profile = {"writable": [f"{place}/work", f"{place}/work/cache"]}
        lines = ["touch cache/new 2>/dev/null; touch fine && echo done"]
        assert run_lines("self", place, {"profile": profile, "cwd": f"{place}/work", "lines": lines}) == [[0, "done\n"]]
        assert not (place / "secret/new").exists()


@pytest.mark.parametrize(
    ("release", "own"),
    [
        ("6.13.9", False),
        ("5.15.0-91-generic", False),
        ("6.14.0", True),
        ("6.14-rc1", True),
        ("7.0.1", True),
        ("", False),
    ],
)
def test_pid_limit_set_only_in_namespace(release: str, own: bool) -> None:
    """Before Linux 6.14 root would lower it for the whole machine."""
    assert has_own_pid_limit(release) is own


async def test_exposed_file_survives_full_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.sandbox.mounts._MAX_SHOWN", 0)
    (tmp_path / "blob").write_text("kept")
    sandbox = Sandbox()
    try:
        profile = Profile(exposed=(os.path.realpath(tmp_path),))
        confined = await sandbox.confine(["cat", str(tmp_path / "blob")], profile, Path("/"))
        assert subprocess.run([*confined.wall, *confined.argv], capture_output=True, check=False).stdout == b"kept"
    finally:
        await sandbox.aclose()
