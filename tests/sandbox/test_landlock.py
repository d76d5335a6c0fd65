"""Landlock with seccomp as it holds real commands, of root and of a user without rights."""

import functools
import json
import os
import platform
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from sagent.sandbox import landlock
from sagent.sandbox.profile import Profile

pytestmark = pytest.mark.needs("landlock")

ESCAPES = Path(__file__).with_name("escapes.py")
WAYS = re.findall(r"@way\ndef (\w+)", ESCAPES.read_text())
# What a system may refuse by itself to whom has no rights, and what it may refuse to everybody.
FOR_ROOT = {"enter_its_namespaces", "change_root", "type_into_a_terminal", "type_with_other_bits", "unshare_files"}
FOR_SOME = {
    "ring",
    "call_as_32_bits",
    "unshare_user",
    "clone_user",
    "clone3_user",
    "send_udp_6",
    "make_keyring",
    "mount",
}
FOR_SOME |= {"make_a_request_key", "reach_the_machine_below", "use_the_kernels_ciphers", "load_a_program"}
FOR_SOME |= {"count_events", "handle_page_faults", "read_the_kernels_log", "write_a_setting", "use_a_core_dump"}
FOR_SOME |= {"go_by_the_root_of_init", "set_id_by_fchmodat2"}
FOR_ROOT |= {"give_a_file_capabilities"}
if platform.machine() != "x86_64":
    FOR_SOME |= {way for way in WAYS if way.startswith("set_id_by_the_oldest") or way == "set_id_by_creat"}


class User:
    """Somebody who runs commands: whoever runs the tests, or nobody."""

    def __init__(self, number: int | None) -> None:
        self.number = number
        # setpriv itself loses its capabilities only by running something.
        drop = ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups", "env"]
        self.prefix = [] if number is None else drop
        self.python = next(filter(self._can_run, (os.path.realpath(sys.executable), "/usr/bin/python3")), "")

    def _can_run(self, python: str) -> bool:
        code = "import sys; sys.exit(sys.version_info < (3, 11))"
        with tempfile.TemporaryFile() as scrap:
            argv = [*self.prefix, python, "-I", "-S", "-c", code]
            return not subprocess.run(argv, stdout=scrap, stderr=scrap, cwd="/", check=False).returncode


class Ground:
    """A place to try things: a directory that may be written, one that may not, a home with keys."""

    def __init__(self, base: Path, user: User) -> None:
        self.base, self.user = base, user
        self.work, self.out, self.home = (base / name for name in ("work", "out", "home"))
        for directory in (self.work, self.out, self.home / ".ssh/old", self.home / "project", base / "program"):
            directory.mkdir(parents=True)
        shutil.copy(ESCAPES, base / "program")
        for name in WAYS:
            (self.out / name).write_text("theirs")
        for name in (".ssh/key", ".ssh/public", ".netrc", "notes", "project/code"):
            (self.home / name).write_text(name)
        for place in (base, *base.rglob("*")):
            place.chmod(0o755 if place.is_dir() else 0o644)
            if user.number is not None:
                os.chown(place, user.number, user.number)
        self.profile = Profile(
            writable=(str(self.work),), hidden=(f"{self.home}/.ssh", f"{self.home}/.netrc", f"{self.home}/.absent")
        )

    def run(self, *argv, profile: Profile | None = None, network: bool = False, free: bool = False, **options):
        """Run a command, held unless it is `free`."""
        if not free:
            limits = {name: options.pop(name) for name in ("memory", "processes") if name in options}
            argv = [self.wall(profile or self.profile, network=network, **limits), "/usr/bin/env", *argv]
        options = {"cwd": self.work, "capture_output": True, "timeout": 60, **options}
        return subprocess.run([*self.user.prefix, *argv], check=False, **options)

    def wall(self, profile: Profile, *, network: bool, **limits) -> str:
        """A program that raises the wall for whoever it is."""
        with pytest.MonkeyPatch.context() as patch:
            if self.user.number is not None:
                patch.setattr(os, "getresuid", lambda: (self.user.number,) * 3)
            program = landlock.make_wall(profile, network=network, **limits)
        file = self.base / "program" / f"wall{len(list((self.base / 'program').iterdir()))}"
        file.write_bytes(program)
        file.chmod(0o755)
        return str(file)

    def shell(self, script: str, *arguments, **options):
        """What a script says, and its exit code."""
        ended = self.run("bash", "-c", script, "bash", *map(str, arguments), **options)
        return ended.stdout.decode() + ended.stderr.decode(), ended.returncode

    def python(self, code: str, *arguments, **options):
        """What a program in Python says, and its exit code."""
        ended = self.run(self.user.python, "-I", "-c", code, *map(str, arguments), **options)
        return ended.stdout.decode() + ended.stderr.decode(), ended.returncode


@contextmanager
def ground_for(user: User) -> Iterator[Ground]:
    if not user.python:
        pytest.skip("needs a Python that nobody may run")
    with tempfile.TemporaryDirectory(prefix="sagent-test-") as base:
        yield Ground(Path(base).resolve(), user)


@functools.cache
def users() -> dict[str, User]:
    return {"self": User(None), **({} if os.geteuid() or not shutil.which("setpriv") else {"nobody": User(65534)})}


@pytest.fixture(params=["self", "nobody"])
def user(request: pytest.FixtureRequest) -> User:
    if request.param not in users():
        pytest.skip("needs to be root, to become nobody")
    return users()[request.param]


@pytest.fixture
def ground(user: User) -> Iterator[Ground]:
    with ground_for(user) as ground:
        yield ground


@functools.cache
def tried(name: str, *, free: bool) -> dict[str, str]:
    """Which ways out were refused to a user, and why; "" for those that led outside."""
    user = users()[name]
    with ground_for(user) as ground, ExitStack() as stack:
        out = str(ground.out)
        tcp, stream, abstract = (stack.enter_context(socket.socket(family)) for family in (2, 1, 1))
        udp = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        for server, address in ((tcp, ("127.0.0.1", 0)), (stream, f"{out}/stream"), (abstract, f"\0{out}")):
            server.bind(address)
            server.listen()
        udp.bind(f"{out}/datagram")
        for path in ("stream", "datagram"):
            (ground.out / path).chmod(0o777)
        master, slave = pty.openpty()
        stack.callback(os.close, master)
        stack.callback(os.close, slave)
        if user.number is not None:
            os.chown(slave, user.number, -1)
        null, secret = subprocess.DEVNULL, {**os.environ, "KEY": "secret"}
        victim = subprocess.Popen([*user.prefix, "sleep", "600"], env=secret, cwd="/", stdin=null)
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        places = {"work": str(ground.work), "out": out, "home": str(ground.home), "victim": victim.pid}
        places |= {"port": tcp.getsockname()[1], "terminal": os.ttyname(slave), "typed": slave}
        argv = (user.python, "-I", str(ground.base / "program/escapes.py"), json.dumps(places))
        before = contents(ground)
        ended = ground.run(*argv, free=free, pass_fds=(slave,))
        assert not ended.returncode, ended.stderr
        if not free:
            assert contents(ground) == before
            assert victim.poll() is None
        return json.loads(ended.stdout)


def contents(ground: Ground) -> dict[Path, bytes]:
    places = (place for root in (ground.out, ground.home) for place in root.rglob("*"))
    return {place: place.read_bytes() if place.is_file() else b"" for place in places}


@pytest.mark.costly
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["self", "nobody"])
def test_no_way_leads_outside(name: str, way: str) -> None:
    if name not in users():
        pytest.skip("needs to be root, to become nobody")
    assert tried(name, free=False)[way]


@pytest.mark.costly
@pytest.mark.needs("root-of-machine")
@pytest.mark.needs("unconfined")
@pytest.mark.parametrize("name", ["self", "nobody"])
def test_same_ways_lead_out_without_wall(name: str) -> None:
    if name not in users():
        pytest.skip("needs to be root, to become nobody")
    refused = {way: why for way, why in tried(name, free=True).items() if why}
    expected = FOR_SOME if name == "self" and not os.geteuid() else FOR_SOME | FOR_ROOT
    assert not {way: why for way, why in refused.items() if way not in expected}


def test_allowed_work_is_done(ground: Ground) -> None:
    script = """
        set -e
        mkdir -p a/b c; echo one > a/b/file; mv a/b/file c/; ln c/file a/link; ln -s ../c/file a/soft; mkfifo fifo
        chmod 755 c/file; echo two >> a/soft; cat a/link; : > a/link; [ ! -s c/file ]; rm -r a c fifo
        echo x > /dev/null; head -c 3 /dev/zero | wc -c; head -c 1 /dev/urandom | wc -c
        cat <(echo substituted); [ ! -w /dev/stdout ] || echo noted | tee /dev/stderr > /dev/stdout
        ( echo from a child; sh -c 'echo from its child' ) & wait
        cat ../home/notes ../out/remove; echo
    """
    said, code = ground.shell(script)
    assert code == 0, said
    noted = [] if ground.user.number else ["noted", "noted"]  # for nobody our pipe is not theirs to open again
    words = "one two 3 1 substituted from a child from its child notestheirs"
    assert sorted(said.split()) == sorted([*words.split(), *noted])


@pytest.mark.costly
def test_swapped_links_lead_no_command_out(ground: Ground) -> None:
    code = """
import os, sys
os.mkdir("real")
if not (child := os.fork()):
    while os.path.exists("real"):
        for target in (sys.argv[1], "real"):
            os.symlink(target, "new")
            os.rename("new", "door")
    os._exit(0)
refused = written = 0
while refused < 100 or written < 100:
    for name, mode in (("escaped", "w"), ("key", "r")):
        try:
            with open(f"door/{name}", mode):
                written += mode == "w"
        except FileNotFoundError:
            pass
        except PermissionError:
            refused += 1
os.rename("real", "gone")
os.waitpid(child, 0)
print(os.listdir("gone"))
"""
    for number, place in enumerate((ground.out, ground.home / ".ssh")):
        here = ground.work / str(number)
        here.mkdir()
        here.chmod(0o777)
        assert ground.python(code, place, cwd=here) == ("['escaped']\n", 0)
        assert not (place / "escaped").exists()


def test_writable_path_made_link_not_followed(ground: Ground) -> None:
    target = ground.base / "target"
    target.symlink_to(ground.out)
    for path in (target, target / "sub"):
        (ground.out / "sub").mkdir(exist_ok=True)
        if ground.user.number is not None:
            os.chown(ground.out / "sub", ground.user.number, -1)
        said, code = ground.shell('echo x > "$1/escaped"', path, profile=Profile(writable=(str(path),)))
        assert code, said
    assert not list(ground.out.rglob("escaped"))


def test_children_are_held_too(ground: Ground) -> None:
    script = (
        """(setsid bash -c 'echo x > "$1/escaped"; cat "$2"; echo tried > tried' bash "$1" "$2") & wait; cat tried"""
    )
    said, code = ground.shell(script, ground.out, ground.home / ".netrc")
    assert said.splitlines()[-1] == "tried" or "tried" in said.splitlines()
    assert code == 0
    assert ".netrc\n" not in said.replace("home/.netrc", "")
    assert not (ground.out / "escaped").exists()


def test_one_wall_stands_in_another(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    (ground.work / "two").mkdir()
    (ground.work / "two").chmod(0o777)
    monkeypatch.setattr(os, "getresuid", lambda: (1, 1, 1))  # in the outer one root has lost all that can be lost
    inner = ground.wall(Profile(writable=(f"{ground.work}/two",)), network=True)
    script = 'mkdir one; echo read > one/x; "$@"; touch one/y "$0/escaped"; ls one two'
    argv = [inner, "/bin/sh", "-c", "touch two/x; touch x; cat one/x"]
    ended = ground.run("bash", "-c", script, str(ground.out), *argv)
    assert ended.stdout.decode().split() == ["read", "one:", "x", "y", "two:", "x"]
    assert ended.stderr.count(b"Permission denied") == 2


def test_exposed_path_is_read_only(ground: Ground) -> None:
    profile = Profile(hidden=(str(ground.home / ".ssh"),), exposed=(str(ground.home / ".ssh/public"),))
    assert ground.shell('cat "$1/public"', ground.home / ".ssh", profile=profile) == (".ssh/public", 0)
    for script in ('cat "$1/key"', 'ls "$1"', 'echo x > "$1/public"', 'echo x >> "$1/public"'):
        said, code = ground.shell(script, ground.home / ".ssh", profile=profile)
        assert code
        assert "Permission denied" in said
    exposed = Profile(hidden=(str(ground.home),), exposed=(str(ground.home / "project"),))
    said, code = ground.shell('cat "$1/project/code"; ls "$1/project"; cat "$1/notes"', ground.home, profile=exposed)
    assert code
    assert said.startswith("project/codecode\n")
    assert "Permission denied" in said


def test_hidden_in_exposed_stays_hidden(ground: Ground) -> None:
    """As in plan mode, where the workspace is exposed and not writable."""
    (ground.home / "project/dev").mkdir()
    (ground.home / "project/dev/code").write_text("more")
    for path in (ground.home / "project/dev", ground.home / "project/dev/code"):
        path.chmod(0o755)
    inner = f"{ground.home}/project/.env"
    Path(inner).write_text("KEY")
    Path(inner).chmod(0o644)
    for hidden in ((inner,), (str(ground.home), inner), (str(ground.home), inner, f"{ground.home}/project/absent")):
        profile = Profile(hidden=hidden, exposed=(f"{ground.home}/project", f"{ground.home}/absent"))
        said, _ = ground.shell('cd "$1"; cat code dev/code; ls; cat .env', ground.home / "project", profile=profile)
        assert said.startswith("project/codemorecode\ndev\n")
        assert "KEY" not in said


def test_listing_with_hidden_file_or_directory(ground: Ground) -> None:
    hides = Profile(hidden=(f"{ground.home}/.netrc", f"{ground.home}/project/absent/deep", f"{ground.home}/absent"))
    said, code = ground.shell('cd "$1" && ls -A . project', ground.home, profile=hides)
    assert code == 0
    assert said.split() == [".:", ".netrc", ".ssh", "notes", "project", "project:", "code"]
    said, code = ground.shell('cat "$1/project/code" "$1/notes"; ls "$1"', ground.home)
    assert code
    assert said.startswith("project/codenotesls: ")


def test_hidden_paths_of_every_shape() -> None:
    from sagent.sandbox.landlock import tree

    assert tree(["/a/b", "/a/b/c", "/a-b", "/a/b-c", "/d/e/f"]) == {
        "a": {"b": None, "b-c": None},
        "a-b": None,
        "d": {"e": {"f": None}},
    }


@pytest.mark.parametrize(
    "name", ["with space", "line\nbreak", "t\tab", "star*", "ünï", "write=x", "--", os.fsdecode(b"\xff\xfe")]
)
def test_names_of_every_kind_are_held(ground: Ground, name: str) -> None:
    work, hidden = ground.work / name, ground.home / name
    for directory in (work, hidden):
        directory.mkdir()
        directory.chmod(0o777)
    (hidden / "key").write_text("key")
    profile = Profile(writable=(str(work),), hidden=(str(hidden),))
    ended = ground.run(
        "bash", "-c", 'printf "%s" "$1" > said; cat "$2/key"', "bash", name, hidden, profile=profile, cwd=work
    )
    assert ended.returncode
    assert b"Permission denied" in ended.stderr
    assert (work / "said").read_bytes() == os.fsencode(name)


def test_program_ends_normally(ground: Ground) -> None:
    assert ground.run("bash", "-c", "exit 41").returncode == 41
    assert ground.run("bash", "-c", "kill -TERM $$").returncode == -signal.SIGTERM
    assert ground.run("bash", "-c", "kill -PIPE $$; exit 1").returncode == -signal.SIGPIPE
    assert ground.run("bash", "-c", "trap '' USR1; kill -USR1 $$; exit 3").returncode == 3


def test_missing_program_is_said(ground: Ground) -> None:
    (ground.work / "script").write_text("x")
    wall = ground.wall(ground.profile, network=False)
    said = "The command cannot be run: it is not a program, or may not be run in the sandbox.\n"
    for program in ("no-such-program", "./missing", "", "./script", str(ground.home / ".ssh/key"), "/"):
        ended = ground.run(wall, program, free=True)
        assert (ended.returncode, ended.stderr.decode()) == (126, said)
    assert ground.run("no-such-program", env={"PATH": "/usr/bin"}).returncode == 127


def test_environment_descriptors_cwd_stay(ground: Ground) -> None:
    environment = {"PATH": os.environ["PATH"], "A": "=b\n", "LC_ALL": "C", "NON": os.fsdecode(b"\xff")}
    for more in ({}, {"LC_CTYPE": "C"}):
        free, held = (ground.run("env", "-0", env=environment | more, free=free).stdout for free in (True, False))
        assert sorted(held.split(b"\0")) == sorted(free.split(b"\0"))
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source:
        with os.fdopen(writing, "wb") as sink:
            ground.shell('pwd >&"$1"', sink.fileno(), pass_fds=(sink.fileno(),), cwd=ground.home / "project")
        assert source.read().decode() == f"{ground.home}/project\n"


def test_ignored_signals_stay_ignored(ground: Ground) -> None:
    script = 'trap "" INT HUP; "$@"'
    argv = ("/usr/bin/env", "grep", "SigIgn", "/proc/self/status")
    said, _ = ground.shell(script, ground.wall(Profile(), network=False), *argv, free=True)
    without, _ = ground.shell(script, *argv, free=True)
    ignored, expected = (int(text.split()[1], 16) & 0x7FFFFFFF for text in (said, without))
    assert ignored == expected
    assert expected & (1 << signal.SIGINT - 1 | 1 << signal.SIGHUP - 1)


@pytest.mark.costly
def test_nothing_runs_without_the_wall(ground: Ground) -> None:
    wall = ground.wall(ground.profile, network=False, processes=5000)
    refuse = """
import ctypes, os, struct, sys
code = b"".join(struct.pack("HBBI", *each) for each in (
    (0x20, 0, 0, 0), (0x15, 0, 1, int(sys.argv[1])), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)))
block = ctypes.create_string_buffer(code)
program = ctypes.create_string_buffer(struct.pack("HP", 4, ctypes.addressof(block)))
libc = ctypes.CDLL(None)
assert not libc.prctl(38, 1, 0, 0, 0)
assert not libc.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(program)), 0, 0)
os.execv(sys.argv[2], sys.argv[2:])
"""
    names = {444: "a Landlock ruleset", 446: "the Landlock rules", 157: "PR_SET_NO_NEW_PRIVS", 302: "a limit"}
    for number in (*(names if os.uname().machine == "x86_64" else (444, 446)), 445, 437):
        argv = (ground.user.python, "-c", refuse, number, wall, "/usr/bin/touch", "ran")
        ended = ground.run(*map(str, argv), free=True)
        assert ended.returncode == 126
        raised = f"The sandbox cannot be raised: the kernel refused {names.get(number)}.\n"
        said = "The command cannot be run: it is not a program, or may not be run in the sandbox.\n"
        assert ended.stderr.decode() == (raised if number in names else said)
    assert not (ground.work / "ran").exists()


def test_limits_hold(ground: Ground) -> None:
    assert ground.shell("ulimit -c; ulimit -d; ulimit -u", memory=1 << 30, processes=5000) == (
        f"0\n{1 << 20}\n5000\n",
        0,
    )
    said, code = ground.python("x = bytearray(1 << 29)", memory=1 << 28)
    assert code
    assert "MemoryError" in said


@pytest.mark.parametrize("network", [True, False])
def test_network_only_where_allowed(ground: Ground, network: bool) -> None:
    code = """
import socket, sys
for family, address in ((socket.AF_INET, ("127.0.0.1", int(sys.argv[1]))), (socket.AF_UNIX, sys.argv[2])):
    try:
        with socket.socket(family) as client:
            client.connect(address)
        print("reached")
    except OSError as error:
        print(error.strerror)
"""
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(f"{ground.out}/socket")
        unix.listen()
        (ground.out / "socket").chmod(0o777)
        said, _ = ground.python(code, tcp.getsockname()[1], ground.out / "socket", network=network)
    refused = "Operation not permitted"
    assert said.splitlines() == ["reached" if network else refused, refused]


@pytest.mark.costly
def test_tools_work(ground: Ground) -> None:
    (ground.work / "Makefile").write_text("all: a b\na b:\n\ttouch $@\n")
    code = """
import asyncio, multiprocessing, socket, subprocess, tempfile, threading
async def main():
    process = await asyncio.create_subprocess_exec("echo", "asyncio", stdout=subprocess.PIPE)
    print((await process.communicate())[0].decode().strip())
asyncio.run(main())
with multiprocessing.Lock(), tempfile.NamedTemporaryFile(dir="."):
    assert socket.gethostname()
one, two = socket.socketpair()
one.sendall(b"pair"); print(two.recv(9).decode())
thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
"""
    said, status = ground.python(code)
    assert (said.split(), status) == (["asyncio", "pair", "thread"], 0)
    tools = {
        "git": "git init -q . && git add . && git -c user.name=x -c user.email=x commit -qm x && git status --short"
    }
    tools |= {"make": "make -sj2 && ls a b", "node": 'node -e \'require("child_process").execSync("echo"); fetch\''}
    for tool, script in tools.items():
        if shutil.which(tool):
            said, status = ground.shell(script, env={"HOME": str(ground.work), "PATH": "/usr/local/bin:/usr/bin:/bin"})
            assert status == 0, said


@pytest.mark.needs("root-of-machine")
@pytest.mark.skipif(os.geteuid() != 0, reason="is about root")
def test_root_has_no_capabilities() -> None:
    with ground_for(User(None)) as ground:
        said, _ = ground.shell("grep ^Cap /proc/self/status")
        theirs = ground.work / "theirs"
        theirs.write_text("theirs")
        os.chown(theirs, 1000, 1000)
        theirs.chmod(0o600)
        tries = [
            ground.shell(line)[0] for line in ("cat theirs", "echo x >> theirs", "chmod 666 theirs", "chown 0 theirs")
        ]
        mine = ground.shell("echo mine > mine && chmod 600 mine && cat mine && rm -f theirs && ls")
    sets = {name.removesuffix(":"): int(mask, 16) for name, mask in (line.split() for line in said.splitlines())}
    assert sets == {"CapInh": 0, "CapPrm": 0, "CapEff": 0, "CapBnd": 0, "CapAmb": 0}
    assert [said for said in tries if "Permission denied" not in said and "not permitted" not in said] == []
    assert mine == ("mine\nmine\n", 0)


def test_landlock_is_tried_before_use(monkeypatch: pytest.MonkeyPatch) -> None:
    assert landlock.available() == ""
    monkeypatch.setattr(landlock, "make_wall", lambda *_, **__: b"no program")
    assert "Exec format error" in landlock.available()
    monkeypatch.setattr(sys, "platform", "sunos")
    assert landlock.available() == "there is no Landlock for sunos"


def test_unheld_profile_parts_are_said(tmp_path: Path) -> None:
    work = str(tmp_path)
    (tmp_path / ".env").write_text("KEY=1")
    hidden, protected = (
        (f"{work}/.env", f"{work}/absent", "/elsewhere/.env"),
        (f"{work}/.git/hooks", "/elsewhere/hooks"),
    )
    assert landlock.gaps(Profile(hidden=hidden, protected=protected)) == ()
    profile = Profile(writable=(work,), hidden=hidden, protected=protected, domains=("example.org",))
    assert landlock.gaps(profile) == (
        f"{work}/.env can be read",
        f"{work}/.git/hooks can be written",
        "every host can be reached, not only example.org",
    )
    place = os.path.realpath(Path(landlock.__file__).parent)
    assert landlock.gaps(Profile(writable=(place,))) == (f"{place}, which is run outside the sandbox, can be written",)


def test_older_kernels_hold_less(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {}
    for abi in (2, 5, 6):
        monkeypatch.setattr(landlock, "abi", lambda abi=abi: abi)
        told[abi] = [gap.split(":")[0] for gap in landlock.gaps(Profile())]
    signals = "your other processes can be sent signals"
    assert told == {2: ["files outside the sandbox can be emptied", signals], 5: [signals], 6: []}
