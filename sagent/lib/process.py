"""Child processes that never outlive this process unless released, and single programs."""

import asyncio
import contextlib
import os
import signal
import stat
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from sagent.lib.dataclass import dataclass
from sagent.lib.locklimit import first_limit, limit_locks

MARK = "SAGENT_CUSTODY"
"""The environment variable with the mark of the call that started a process: a word that ends with its limit of locks
and a dot."""

SHELVED = 219
"""Descriptor to which a command should move its standard input (its notes) for its children: a second mark.

`env -i` and daemons that set their title remove the environment; programs that close foreign files remove this. Hardly
any program does both. process.sh knows this number too.
"""

_REAPER = Path(__file__).with_name("process.sh")
_MAX_NOTES_BYTES = 1 << 21  # a command may write as much as it likes
_POLL_INTERVAL_SECONDS = 0.01  # seconds, if the system has no handle for a process's end
_REAPER_TIMEOUT_SECONDS = 15.0  # for a reaper, which gives up after about ten itself


class ProcessGroup:
    """Starts processes and ensures that they and all their children end with this process, or at `close`.

    A watchdog, a small shell in its own session, waits on a pipe that only this process holds open: when this process
    ends, even by SIGKILL, the kernel closes the pipe and the watchdog kills every process with the group's mark:
    background jobs, `setsid` and `nohup` children, double forks. Without /proc it uses process groups and the
    environments that `ps` shows. Not found are a daemon that drops both marks and leaves its group, a process that
    changed its user or hides from /proc (as ssh-agent does), and anything while a fork of this process lives on without
    an exec, because it holds the pipe too. The watchdog starts with the first process. Not for use from several threads
    at once.
    """

    def __init__(self) -> None:
        self._token, self._pid = "", 0
        self._limit = 0  # the last one's mark
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._lifeline = -1
        self._groups: set[int] = set()
        self._spared: list[str] = []  # the numbers of marks that were released
        self._attendants: list[subprocess.Popen[bytes]] = []

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        output: int,
        errors: int | None = None,
        input: int | None = None,  # noqa: A002 -- what subprocess calls it
        cwd: Path | None = None,
    ) -> "Process":
        """Start a process in its own session, without a terminal.

        Standard error goes to the output, unless `errors` names another descriptor. Without an `input` its standard
        input is a private empty file that it may write to: `Process.notes` reads it. Raises OSError; ValueError for
        arguments with a NUL.
        """
        self._reap()
        self._guard()
        self._limit -= 1
        mark = f"{self._token}.{self._limit}."
        notes = _private_file(mark) if input is None else -1
        try:
            process = subprocess.Popen(
                argv,
                stdin=notes if input is None else input,
                stdout=output,
                stderr=output if errors is None else errors,
                cwd=cwd,
                env={**env, MARK: mark},
                start_new_session=True,
            )
        except BaseException:
            if notes >= 0:
                os.close(notes)
            raise
        limit_locks(process.pid, self._limit)
        self._groups.add(process.pid)
        self._update()
        found = os.fstat(output)
        return Process(self, process, mark, notes, found.st_ino if stat.S_ISFIFO(found.st_mode) else 0, self._limit)

    def drain(self, source: int, path: Path, *, limit: int, before: int | None = None) -> None:
        """Copy a pipe in a separate process to the end of a file until its writers are gone, at most `limit` bytes.

        With `before`, for a released process: that descriptor's data come first, and the copying outlives this process.
        Data that the file cannot take are then dropped, so that writers do not fail. Raises OSError.
        """
        for_good = (
            'trap "" XFSZ; '
            '{ cat <&2; copied=$?; exec 2>/dev/null; [ $copied = 0 ] && cat; } >>"$2" || exec cat >/dev/null'
        )
        copy = 'exec cat >>"$2"' if before is None else for_good
        script = f'ulimit -f "$1"; {copy}'
        argv = ["/bin/sh", "-c", script, "sh", str(limit // 512), str(path)]
        if before is None:
            self._attendants.append(spawn_aside(argv, source))
        else:
            disown(spawn_aside(argv, source, before))

    def spare(self, mark: str, process: "subprocess.Popen[bytes]") -> None:
        """Exempt a process and all with its mark from being killed. Raises OSError: then nothing has changed."""
        self._guard()
        number, groups = mark.removeprefix(f"{self._token}."), set(self._groups)
        self._spared.append(number)
        self._groups.discard(process.pid)
        try:
            self._report()
        except OSError:
            self._spared.remove(number)
            self._groups = groups
            raise
        disown(process)

    async def aclose(self) -> None:
        """Kill everything that was started here and still runs, SIGTERM first, and end the watchdog. Idempotent."""
        self.close_soon()
        for attendant in reversed(self._attendants):
            await _settle(attendant)
        self._reap()

    def close_soon(self) -> None:
        """Begin what `aclose` does, without waiting."""
        if watchdog := self._drop_watchdog():
            self._attendants.append(watchdog)

    def close(self) -> None:
        """Kill everything as `aclose` does, but without an event loop: blocks until it is done."""
        self.close_soon()
        for process in reversed(self._attendants):
            try:
                process.wait(_REAPER_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._attendants.clear()

    def __del__(self) -> None:
        self.close()

    async def sweep(self, mark: str, group: int) -> None:
        """Kill a process group and all marked processes: SIGTERM, then SIGKILL after 0.4 s, until none is left."""
        try:
            reaper, lifeline = _start_reaper(mark)
        except OSError:  # out of processes, say: the blunt way then
            _signal_group(group, signal.SIGKILL)
            return
        self._attendants.append(reaper)  # reaped later, should we be cancelled here
        try:
            os.write(lifeline, b"%d\n" % group)
        finally:
            os.close(lifeline)
        await _settle(reaper)

    def release(self, group: int) -> None:
        """Forget a group whose leader was reaped, because its number may be reused. If marks cannot be seen, it is kept
        while it has members."""
        sees_marks = Path("/proc/self/environ").exists()
        if group in self._groups and (sees_marks or not _is_populated(group)):
            self._groups.discard(group)
            self._update()

    def _guard(self) -> None:
        if self._watchdog and self._watchdog.poll() is None:
            return
        self._drop_watchdog()
        if self._pid != os.getpid():  # a fork of the original process must not be responsible for its children
            self._pid, self._token = os.getpid(), f"sagent-{os.urandom(12).hex()}"
            self._limit = first_limit()
        self._watchdog, self._lifeline = _start_reaper(f"{self._token}.")
        os.set_blocking(self._lifeline, False)
        self._update()

    def _update(self) -> None:
        """Report the groups and the exempted marks to the watchdog. If it is gone or asleep, the marks must do."""
        if self._watchdog and self._watchdog.poll() is None:
            with contextlib.suppress(OSError):
                self._report()

    def _report(self) -> None:
        self._groups = {group for group in self._groups if _is_populated(group)}
        os.write(self._lifeline, " ".join([*map(str, self._groups), *self._spared]).encode() + b"\n")

    def _drop_watchdog(self) -> subprocess.Popen[bytes] | None:
        watchdog, self._watchdog = self._watchdog, None
        if watchdog:
            os.close(self._lifeline)
            self._lifeline = -1
        return watchdog

    def _reap(self) -> None:
        self._attendants = [process for process in self._attendants if process.poll() is None]


class Process:
    """One process of a group. Close it in every case: that kills its group if it still runs, unless it was released."""

    def __init__(
        self,
        group: ProcessGroup,
        process: subprocess.Popen[bytes],
        mark: str,
        notes: int,
        output: int = 0,
        limit: int = 0,
    ) -> None:
        """`output` is the number of the pipe that is its standard output, if it has one for itself; or 0. `limit` is
        the limit of locks that marks it; 0 or less: none."""
        self._output, self._limit = output, limit
        self._group = group
        self._process = process
        self._mark = mark
        self._notes = notes
        self.released = False

    @property
    def pid(self) -> int:
        """The process, and its group."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True while the process itself runs."""
        return self._process.poll() is None

    async def ended(self) -> None:
        """Return when the process itself has ended, whatever its children do. May be cancelled and awaited again."""
        await _ended(self._process)

    def release(self) -> None:
        """Let the process and its children outlive this one; nothing here ends them any more. Raises OSError: then
        nothing has changed."""
        self._group.spare(self._mark, self._process)
        self.released = True

    @property
    def code(self) -> int:
        """The exit code of the ended process, or minus the signal that killed it."""
        code = self._process.wait()
        self._group.release(self.pid)
        return code

    def notes(self) -> bytes:
        """Return the text that the process wrote to the file on its standard input; empty if it is too large."""
        size = os.fstat(self._notes).st_size
        return os.pread(self._notes, size, 0) if size <= _MAX_NOTES_BYTES else b""

    def terminate(self) -> None:
        """Send SIGTERM to its process group, unless it has ended."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to its process group, at once, unless it has ended."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if not self.released and self.alive:
            _signal_group(self.pid, number)

    async def kill_tree(self) -> tuple[int, ...]:
        """End it and all that it started, SIGTERM first; return the numbers of those that could not be ended."""
        if self.released:
            return ()
        from sagent.lib.descent import Descent, Marks

        # Processes that dropped some of their marks are included.
        below = Descent(self.pid, self._output, Marks(self._mark, SHELVED, self._limit))
        below.look()
        below.signal(signal.SIGTERM)
        await self._group.sweep(self._mark, self.pid)
        self.kill()
        await self.ended()
        return await below.end()

    def close(self, timeout: float | None = None) -> None:
        """Close descriptors; kill a process that still runs with its group, and wait `timeout` s for it."""
        if not self.released:
            self.kill()
            try:
                self._process.wait(timeout)
                self._group.release(self.pid)
            except subprocess.TimeoutExpired:
                disown(self._process)
        if self._notes >= 0:
            os.close(self._notes)
            self._notes = -1


@dataclass(frozen=True, slots=True)
class Finished:
    """An ended program: its exit code, and its standard output."""

    code: int
    output: bytes


async def run(
    argv: Sequence[str],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    input: bytes = b"",  # noqa: A002 -- what subprocess calls it
    max_bytes: int = 1 << 30,
) -> Finished | None:
    """Run a program to its end; None if it cannot be started. Its group is killed on cancellation, and when it writes
    more than `max_bytes`: the output is then one byte more."""
    source, sink = os.pipe()
    stdin = null = subprocess.DEVNULL
    try:  # cancelled while it starts a process, asyncio would kill the process alone, and not its group
        if input:
            stdin = _private_file("input")
            os.pwrite(stdin, input, 0)
        process = subprocess.Popen(  # noqa: ASYNC220 -- as asyncio starts one
            argv, cwd=cwd, env=env, stdin=stdin, stdout=sink, stderr=null, start_new_session=True
        )
    except OSError:
        os.close(source)
        return None
    finally:
        os.close(sink)
        if stdin != null:
            os.close(stdin)
    try:
        reader, transport = await open_reader(source)
        try:
            try:
                output = await reader.readexactly(max_bytes + 1)
            except asyncio.IncompleteReadError as error:
                output = error.partial
                await _ended(process)
        finally:
            transport.close()
    finally:
        if process.poll() is None:
            _signal_group(process.pid, signal.SIGKILL)
        code = process.wait()
    return Finished(code, output)


async def open_reader(descriptor: int, *, limit: int = 1 << 16) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    """Read from one end of a pipe, until the transport is closed. `limit` is the longest line, in bytes."""
    reader = asyncio.StreamReader(limit)
    protocol = asyncio.StreamReaderProtocol(reader)
    pipe = os.fdopen(descriptor, "rb")
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    return reader, transport


def stop_job() -> None:
    """Stop this process, and others in its shell job (a pipe, a script that runs it), until it is continued.

    Processes being started are excluded if the system shows them: one stopped before it has left the job would block
    the thread that starts it, and so this whole process, for which the shell then waits.
    """
    own, job, listed = os.getpid(), os.getpgrp(), Path("/proc")
    if not (listed / "self" / "stat").exists():
        os.kill(0, signal.SIGTSTP)
        return
    for entry in listed.iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                parent, group = (entry / "stat").read_bytes().rpartition(b")")[2].split()[1:3]
                if int(group) == job and own not in (int(parent), int(entry.name)):
                    os.kill(int(entry.name), signal.SIGTSTP)
    os.kill(own, signal.SIGTSTP)


async def _ended(process: "subprocess.Popen[bytes]") -> None:
    while process.returncode is None and not await _await_exit(process.pid):
        if process.poll() is not None:
            return
        # No thread: one that waits for a released process would delay our own end.
        await asyncio.sleep(_POLL_INTERVAL_SECONDS)


async def _await_exit(pid: int) -> bool:
    """Wait for the end of a child without reaping it; return False at once if the system has no handle for that."""
    try:
        handle = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return False
    loop = asyncio.get_running_loop()
    try:
        ended = loop.create_future()
        loop.add_reader(handle, lambda: ended.done() or ended.set_result(None))
        try:
            await ended
        finally:
            loop.remove_reader(handle)
    finally:
        os.close(handle)
    return True


async def _settle(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a helper process and reap it; kill one that does not end."""
    try:
        async with asyncio.timeout(_REAPER_TIMEOUT_SECONDS):
            await _ended(process)
    except TimeoutError:
        process.kill()
    process.wait()


def _start_reaper(mark: str) -> tuple[subprocess.Popen[bytes], int]:
    """Return the process that kills what carries the mark once the returned descriptor is closed everywhere."""
    reading, writing = os.pipe()
    try:
        os.write(writing, f"{mark}\n".encode())
        return spawn_aside(["/bin/sh", str(_REAPER)], reading), writing
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)


def system_path(environ: Mapping[str, str] | None = None) -> str:
    """Return PATH for our own programs: the system's directories first, and none in the working directory, such as a
    project's .venv/bin, because commands may have put programs there."""
    system = ("/usr/", "/bin", "/sbin", "/nix/", "/run/current-system/")
    given = [directory for directory in os.get_exec_path(environ) if directory.startswith("/")]
    with contextlib.suppress(FileNotFoundError):  # it was deleted
        here = os.getcwd().rstrip("/") or "//"  # noqa: PTH109 -- of / nothing would be left
        given = [each for each in given if not f"{os.path.realpath(each)}/".startswith(f"{here}/")]
    return os.pathsep.join([*sorted(given, key=lambda directory: not directory.startswith(system)), os.defpath])


def spawn_aside(argv: list[str], stdin: int, stderr: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Start a helper that shares nothing with us: no group, directory, stream, environment or mark."""
    return subprocess.Popen(
        argv,
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        cwd="/",
        env={"PATH": system_path()},
        start_new_session=True,
    )


def disown(process: "subprocess.Popen[bytes]") -> None:
    """Let a process outlive us. Should it end before, it is reaped, in whatever program we are by then."""
    if process.poll() is not None:
        return
    process.returncode = 0  # otherwise Popen warns that nobody waits for it

    def reap() -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, 0)

    with contextlib.suppress(RuntimeError):  # no more threads; a daemon, so that it does not delay our own end
        threading.Thread(target=reap, name=f"reap-{process.pid}", daemon=True).start()


def _private_file(name: str) -> int:
    """Return an empty file without a path; if /proc can show it, it has a name there."""
    try:
        descriptor = os.memfd_create(name)
    except (AttributeError, OSError):
        import tempfile

        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    if descriptor != SHELVED:
        return descriptor
    elsewhere = os.dup(descriptor)  # under that number it would mark ourselves
    os.close(descriptor)
    return elsewhere


def _is_populated(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _signal_group(group: int, signal_number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal_number)
