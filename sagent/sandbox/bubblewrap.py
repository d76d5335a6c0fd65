"""The wall by bubblewrap: namespaces that outlive one command, with everything mounted as a profile says.

Commands with the same permissions share a box, so that one can reach and end a server that another has started. A
command's mounts depend on the files present when it starts: if those have changed since the last command, it gets a new
view of files in the same box.
"""

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import BinaryIO, NoReturn

from sagent.errors import ToolError
from sagent.lib.process import disown, system_path
from sagent.lib.regular import identity
from sagent.lib.text import failure
from sagent.sandbox.mounts import GATE, TEMPORARY, Mounts, gate, pin_mounts, remove_made
from sagent.sandbox.profile import Profile
from sagent.sandbox.scratch import Scratch
from sagent.sandbox.tasks import MAX_THREADS, count_tasks

PROGRAMS = ("bwrap", "nsenter", "unshare", "setpriv", "prlimit", "mount", "bash")
START_TIMEOUT_SECONDS = 10.0  # to set up a box
_MOUNT_SECONDS = 0.05  # more for each mount: bubblewrap reads all earlier mounts again
_LATE = "bubblewrap did not finish in time"
_SPARE = 400  # of them are not counted on: numbers up to 300 are given out but once
_MAX_TRIES, _RETRY_SECONDS = 10, 0.01  # to make a box; and more each time
_NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    "--as-pid-1",
)
# Process 1 of a box: when it ends, all others end. It ends when its pipe to us closes; if it was told to stay, it ends
# once nothing else runs there.
_FIRST = (
    "printf ready; exec >/dev/null 2>&1; read -r word && [ $word = stay ] || exit 0; "
    "while set -- /proc/[0-9]*; [ $# -gt 1 ]; do sleep 1; done"
)
_SHOW = "printf ready; read -r"  # the first process of a further view
_NS_GET_USERNS = 0xB701  # ioctl_ns(2)
KEPT = ",+wake_alarm"  # a capability of what leads to the proxy; of no use in a namespace


class Box:
    """Namespaces (except for files) and the process that keeps them, which no command can inspect."""

    def __init__(self, process: "subprocess.Popen[bytes]", pid: int) -> None:
        """Raises OSError if the process is gone."""
        self.relay: subprocess.Popen[bytes] | None = None  # what leads to the proxy, once it is needed
        self._process = process
        self._pid = pid
        self._stays = False
        self.processes = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY)
        self._user = fcntl.ioctl(self.processes, _NS_GET_USERNS)

    def __del__(self) -> None:
        if hasattr(self, "_user") and self._process.returncode is None:  # the event loop that made it ended meanwhile
            self.close()

    @property
    def stands(self) -> bool:
        """True if the box can be entered: once its first process begins to end, that has no root directory."""
        return self._process.poll() is None and os.path.lexists(f"/proc/{self._pid}/root/proc")

    @property
    def at_work(self) -> bool:
        """True if a command, or a process that one left behind, runs in it."""
        return self._tasks() > (2 if self.has_relay else 1)

    @property
    def has_relay(self) -> bool:
        """True if what leads to the proxy runs; commands can end it."""
        return self.relay is not None and self.relay.poll() is None

    @property
    def is_full(self) -> bool:
        """True if so many threads run in it that soon none can be started."""
        return self._tasks() > MAX_THREADS - _SPARE

    def _tasks(self) -> int:
        with contextlib.suppress(OSError):
            return count_tasks(f"/proc/{self._pid}/root/proc")
        return 0

    def joining(self) -> list[str]:
        """Return beginning of a command line of nsenter that runs another in these namespaces, but for processes."""
        user = f"--user=/proc/{os.getpid()}/fd/{self._user}"
        return [_program("nsenter"), f"--target={self._pid}", user, "--net", "--ipc", "--uts", "--preserve-credentials"]

    def harden(self, pid: int) -> str:
        """Close gaps that bubblewrap leaves in the box of process `pid`: later mounts outside would appear inside,
        writable; root could create user namespaces and mount our own control groups in them; and resource limits do not
        bound root's processes. Return why that failed, or ""."""
        mount, lines = f"{_program('nsenter')} --target={pid} --mount -- {_program('mount')}", list[str]()
        if os.geteuid() == 0:  # otherwise each command needs its own
            lines.append("echo 0 > /proc/sys/user/max_user_namespaces")
        if has_own_pid_limit(os.uname().release):
            lines.append(f"echo {MAX_THREADS} > /proc/sys/kernel/pid_max")
        script = "; ".join((f"{mount} --make-rprivate / || exit", *lines, "true"))
        argv = [*self.joining(), "--pid", "--", _program("sh"), "-c", script]
        ran = subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, capture_output=True)
        return (ran.stderr.decode("utf-8", "replace").strip() or f"{argv[0]} failed") if ran.returncode else ""

    def detach(self) -> None:
        """Let the box outlive this process until nothing runs in it any more."""
        self._stays = True
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(b"stay\n")
                self._process.stdin.flush()

    def end_relay(self) -> None:
        """End what leads to the proxy."""
        if self.relay is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.relay.communicate(timeout=START_TIMEOUT_SECONDS)  # it ends with its standard input
            self.relay = None

    def close(self) -> None:
        """End the box and all its processes, unless `detach` was called."""
        os.close(self._user)
        os.close(self.processes)
        self.end_relay()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0 if self._stays else START_TIMEOUT_SECONDS)
        disown(self._process)


class View:
    """A box with its files, mounted as they were when a command was about to start."""

    def __init__(self, box: Box, pid: int, held: frozenset[tuple[str, tuple[int, int] | None]]) -> None:
        """Open the files as process `pid` sees them. No command can replace files in `held`. Raises OSError if the
        process has ended."""
        self.box, self.mounted = box, held
        self._files = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)

    def __del__(self) -> None:
        if hasattr(self, "_files"):
            os.close(self._files)

    @property
    def held(self) -> frozenset[str]:
        """The places that no command can replace."""
        return frozenset(place for place, _ in self.mounted)

    def entering(self, argv: Sequence[str], cwd: str, *, memory: int, capabilities: str = "") -> list[str]:
        """Return the command line that runs another in the box, with `memory` bytes of data at most for each process.
        No command can inspect a program with the KEPT capability.

        The directory is entered there by its name: one that was opened outside would lead out. The programs that do it
        run outside of the wall, or within it with more rights than the command: no PATH of a command finds them.
        """
        uid, gid = os.geteuid(), os.getegid()
        own = () if uid == 0 else ("--user", f"--map-user={uid}", f"--map-group={gid}")
        unshare, setpriv, prlimit = map(_program, ("unshare", "setpriv", "prlimit"))
        return [
            *(*self.box.joining(), "--pid", f"--mount=/proc/{os.getpid()}/fd/{self._files}", "--"),
            *(unshare, *own, f"--wd={cwd}", "--"),
            *((GATE,) if gate() else ()),  # running commands can trace none of these
            *(setpriv, "--no-new-privs", f"--bounding-set=-all{capabilities}", "--inh-caps=-all", "--"),
            *(prlimit, f"--data={_within(resource.RLIMIT_DATA, memory)}:"),
            *(f"--nproc={_within(resource.RLIMIT_NPROC, MAX_THREADS)}", "--core=0", "--", *argv),
        ]


def refusal() -> str:
    """Return the reason why no box can be made here; "" if a program has just run in one."""
    if missing := [name for name in PROGRAMS if _program(name) == name]:
        return f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"
    scratch = Scratch()
    try:
        boxes = Boxes(scratch)
        view = boxes.open(())
        for tried in range(_MAX_TRIES):
            if isinstance(view, str) and any(place in view for place in TEMPORARY):  # files there come and go
                time.sleep(tried * _RETRY_SECONDS)
                view = boxes.open(())
        if isinstance(view, str):
            return _explained(view)
        try:
            ran = subprocess.run(view.entering(["true"], "/", memory=1 << 40), check=False, capture_output=True)
        finally:
            view.box.close()
        return _explained(ran.stderr.decode("utf-8", "replace").strip()) if ran.returncode else ""
    finally:
        scratch.remove()


def _within(limit: int, wanted: int) -> int:
    """Return the largest part of `wanted` that our own limit allows for a command (`ulimit -u`)."""
    most = resource.getrlimit(limit)[1]
    return wanted if most == resource.RLIM_INFINITY else min(wanted, most)


def has_own_pid_limit(release: str) -> bool:
    """Return True if a namespace has its own limit of process numbers. Before Linux 6.14 the one limit is the
    machine's."""
    numbers = [int(digits) for digits in re.findall(r"\d+", release)[:2]]
    return numbers >= [6, 14]


def _explained(reason: str) -> str:
    """Return bubblewrap's why message as part of a sentence, with a remedy if one is known."""
    reason = reason.rstrip(".")
    if any(text in reason for text in ("RTM_NEWADDR", "uid map", "uid_map")):
        remedy = "this system restricts user namespaces: its AppArmor profile bwrap-userns-restrict allows them"
        return f"{reason} ({remedy})"
    return reason or "bubblewrap failed without a message"


def _advise(message: str) -> str:
    """Return a remedy for a sandbox that could not be made. A lack of resources is no reason to turn it off."""
    if any(os.strerror(number) in message for number in (errno.EMFILE, errno.ENFILE)):
        return "Too many files are open at once: the person may raise the limit (ulimit -n) and start again."
    if any(os.strerror(number) in message for number in (errno.ENOSPC, errno.EDQUOT)):
        return "The disk of its temporary files is full: the person may make room there, or set TMPDIR."
    return "The person may set sandbox = 'off'."


class Boxes:
    """The boxes of a session's commands: one for each set of permissions and each group of commands that may see each
    other. `scratch` holds the boxes' /tmp directories. Boxes inherit its lock."""

    def __init__(self, scratch: Scratch) -> None:
        self.mounts, self._lock = Mounts(scratch.path), scratch.lock
        self._views: dict[tuple[object, ...], tuple[object, View]] = {}  # by box: key and view
        self._opening = asyncio.Lock()
        self._under_way: asyncio.Task[View | str] | None = None

    async def view(self, profile: Profile, whose: tuple[str, ...] = (), *, apart: bool = False) -> View:
        """Return a box for a profile. It is shared only among commands with the same `whose` and the same `apart`.
        Raises ToolError if none can be made."""
        key = apart, whose, profile.permissions
        opened: View | str = ""
        async with self._opening:
            await self._settled()
            for tried in range(_MAX_TRIES):  # a path may vanish between a look and a mount
                await asyncio.sleep(tried * _RETRY_SECONDS)
                mounts, shown = self.mounts.look(profile)
                box = self._standing(key)
                if box is not None and self._views[key][0] == shown:
                    return self._views[key][1]
                self._under_way = asyncio.create_task(self._open(key, shown, mounts, box))
                opened = await asyncio.shield(self._under_way)
                if isinstance(opened, View):
                    return opened
                if opened == _LATE:
                    break
            if key in self._views:
                self._end(key, f"its view of the files could not be set up next to what runs there: {opened}")
        raise ToolError(f"The command was not run: its sandbox could not be made: {opened}. {_advise(opened)}")

    def _standing(self, key: tuple[object, ...]) -> Box | None:
        """Return the box that was made for this. Raises ToolError if one was full and had to be ended."""
        if key not in self._views:
            return None
        box = self._views[key][1].box
        if not box.stands:
            self._views.pop(key)[1].box.close()
            return None
        if box.is_full:
            self._end(key, "the sandbox had no room for it next to thousands of processes")
        return box

    def _end(self, key: tuple[object, ...], reason: str) -> NoReturn:
        """End a full box. Always raises ToolError."""
        self._views.pop(key)[1].box.close()
        raise ToolError(
            f"The command was not run: {reason}. What earlier commands had left running was ended: run it again."
        )

    async def _open(self, key: tuple[object, ...], shown: object, mounts: Sequence[str], box: Box | None) -> View | str:
        """Return a new view and record it even if nobody waits for it any more, so that its box will be closed."""
        held = self._views[key][1].mounted if box is not None and box.at_work else None
        opened = await asyncio.to_thread(self.open, mounts, box)
        if isinstance(opened, View):
            if held is not None:  # or earlier processes could still write these files
                opened.mounted &= held
            self._views[key] = shown, opened
        return opened

    async def _settled(self) -> None:
        if self._under_way is not None:
            await asyncio.wait([self._under_way])

    @property
    def at_work(self) -> bool:
        """True if a command's box has a running process."""
        return any(view.box.at_work for (apart, *_), (_, view) in self._views.items() if not apart)

    def detach(self) -> None:
        """Let the boxes outlive this process until nothing runs in them any more; their /tmp stays."""
        for _, view in self._views.values():
            view.box.detach()

    async def aclose(self) -> None:
        """End all boxes. This may take a while but blocks nobody: the kernel waits for whoever reaps the processes."""
        await self._settled()
        views, self._views = self._views, {}
        ends = (asyncio.to_thread(view.box.close) for _, view in views.values())
        await asyncio.shield(asyncio.gather(*ends))

    def open(self, mounts: Sequence[str], box: Box | None = None) -> View | str:
        """Return a new box, or another view of files in this one; on failure return bubblewrap's message."""
        began = {place: identity(place) for place in mounts if place.startswith("/")}
        try:
            process, info = self._begin(mounts, box)
        except OSError as error:
            return str(error)
        assert process.stdout is not None
        assert process.stderr is not None
        with process.stderr, info:
            waiting = select.poll()  # there is a descriptor per mount, which may exceed the limit of `select`
            waiting.register(process.stdout, select.POLLIN)
            ready = waiting.poll((START_TIMEOUT_SECONDS + _MOUNT_SECONDS * len(began)) * 1000)
            said = _LATE
            if ready and process.stdout.read(5) == b"ready":
                try:
                    info.seek(0)
                    pid = json.load(info)["child-pid"]
                    view = View(box or Box(process, pid), pid, frozenset(began.items()))
                    made = remove_made(began)
                    why = f"{', '.join(made)} disappeared meanwhile" if made else view.box.harden(pid)
                    if box:
                        process.communicate()
                    elif why:
                        view.box.close()
                except (OSError, ValueError, KeyError) as error:
                    said = f"the sandbox could not be prepared: {failure(error)}"
                else:
                    return why or view
            with contextlib.suppress(ProcessLookupError):  # its child would wait for ever and hold the pipes
                os.killpg(process.pid, signal.SIGKILL)
            _, errors = process.communicate()  # closes standard input, which ends the processes inside
            remove_made(began)
        return errors.decode("utf-8", "replace").strip() or said

    def _begin(self, mounts: Sequence[str], box: Box | None) -> "tuple[subprocess.Popen[bytes], BinaryIO]":
        """Start a process that ends with its stdin; also return the file bwrap writes its id to. Raises OSError."""
        info = os.memfd_create("info")  # not a pipe: SIGPIPE at our end would kill bubblewrap and leave a waiting child
        descriptors, pipe = {info}, subprocess.PIPE
        shared = [*([self._lock] if self._lock is not None else []), *([box.processes] if box else [])]
        try:
            argv = [*box.joining(), "--"] if box else []
            argv += [_program("bwrap"), *(("--pidns", str(box.processes)) if box else _NAMESPACES)]
            argv += [*self.mounts.base(descriptors), *pin_mounts(mounts, descriptors), "--info-fd", str(info)]
            process = subprocess.Popen(
                [*argv, "--", _program("bash"), "-c", _SHOW if box else _FIRST],
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env={"PATH": os.environ.get("PATH", os.defpath)},
                cwd="/",
                pass_fds=(*descriptors, *shared),
                start_new_session=True,
            )
        except OSError:
            os.close(info)
            raise
        finally:
            for descriptor in descriptors - {info}:
                os.close(descriptor)
        return process, os.fdopen(info, "rb")


def _program(name: str) -> str:
    """Find a program of the wall in the system's directories: other directories of PATH (a project's .venv) may be
    writable for commands."""
    return shutil.which(name, path=system_path()) or name
