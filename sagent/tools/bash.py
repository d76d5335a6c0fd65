"""The Bash tool: one command in its own shell, in the workspace's directory and environment."""

import asyncio
import contextlib
import errno
import functools
import math
import os
import re
import signal
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit
from typing import TYPE_CHECKING

from sagent.errors import ToolError
from sagent.lib.json import JsonObject
from sagent.lib.process import MARK, SHELVED, Process, ProcessGroup
from sagent.lib.text import failure, one_line
from sagent.messages import Text
from sagent.sandbox import Confined, Sandbox
from sagent.tool import Blobs, Effect, RunContext, ToolOutput, Workspace, arguments_schema
from sagent.tools.exports import Exports, names_given, outside_judge, profile_of

if TYPE_CHECKING:
    from sagent.sandbox.profile import Need, Profile
    from sagent.tools.capture import Capture

DEFAULT_TIMEOUT_SECONDS = 120.0
MAX_TIMEOUT_SECONDS = 3600.0
MAX_OUTPUT_BYTES = 1 << 30

_QUIET: Mapping[str, str] = {
    "SAGENT": "1",
    "CDPATH": "",  # `cd src` goes to the src that the policy has judged
    "GIT_OPTIONAL_LOCKS": "0",  # else `git status` writes the index, and a hook is run
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "TERM": "dumb",
    "NO_COLOR": "1",
}
_SHELLS_OWN = frozenset({MARK, "PWD", "SHLVL", "_"})  # variables that a shell sets by itself
_NEEDED = frozenset({"PATH", "PWD"})  # kept, however many others there are
_WORD = rb"""'[^']*'|\$'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"|\\.|\$(?!')|[^\s'"\\$]"""
_EXPORT = rb"^(?:declare -\w+|export) ([A-Za-z_]\w*)(?:=((?:" + _WORD + rb")*))?$"
_ANSI_C = {
    b"a": b"\a", b"b": b"\b", b"e": b"\x1b", b"E": b"\x1b", b"f": b"\f",
    b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v",
}  # fmt: skip
_TEE_GRACE_SECONDS = 0.05  # that `>(tee log)` and the like get to finish after the shell
_FIRST_PROGRESS, _NEXT_PROGRESS = 1.0, 0.5
_JOB_PROGRESS_CHARS = 8_000
_MAX_ARGUMENT_BYTES = 100_000  # Linux takes 128 KiB in one argument
_MAX_VARIABLE_BYTES = 131_000  # of name and value; Linux takes 128 KiB with its framing
_MAX_ENVIRONMENT_BYTES = 800_000  # Linux takes 2 MiB together with the arguments, macOS 1 MiB
_MIN_ENVIRONMENT_BYTES = 100_000  # reserved after the system has refused one

_COMMAND = {"type": "string"}
_TIMEOUT = {"type": "number", "description": "Seconds, default 120 in the foreground, max 3600"}
_DESCRIPTION = {"type": "string", "description": "In 5-10 words"}
_SANDBOXED = "no network, writes only in workspace and $TMPDIR"
_NEEDS = "Beyond the sandbox, if the person allows it: network:HOST, write:PATH, read:PATH, all"
_PARAMETERS = arguments_schema("command", command=_COMMAND, timeout=_TIMEOUT, description=_DESCRIPTION)
_SANDBOXED_PARAMETERS = arguments_schema(
    "command",
    command=_COMMAND,
    timeout=_TIMEOUT,
    description=_DESCRIPTION,
    needs={"type": "array", "items": {"type": "string"}, "description": _NEEDS},
    reason={"type": "string"},
)


class Bash:
    """Runs shell commands. One instance may serve many agents; `aclose` kills all their remaining processes.

    Commands get this process's environment without likely keys and passwords, because their output goes to a log and to
    a provider. `keep_keys` names variables to pass anyway, and `withheld` further ones to leave out; variables that a
    workspace's environment sets are passed too. With a `sandbox`, commands are limited to the workspace's profile.
    """

    name = "Bash"
    description = (
        "Run a bash command. Working directory and exports carry over. No terminal, no stdin: use non-interactive"
        " flags. Returns stdout and stderr merged; of long output head, tail and the file with the whole. Servers"
        " started with `&` go on; later output goes to a file. All but detached jobs end with the session. Prefer Read,"
        " Grep, Glob and Edit to cat, grep, find and sed."
    )
    parameters = _PARAMETERS

    def __init__(
        self, *, keep_keys: Collection[str] = (), withheld: Collection[str] = (), sandbox: Sandbox | None = None
    ) -> None:
        keep, leave_out = names_given("keep_keys", keep_keys), names_given("withheld", withheld)

        @functools.cache  # the same variables are checked for every command
        def is_kept_back(name: str, value: str) -> bool:
            from sagent.lib.secrets import is_key

            return name not in keep and (name in leave_out or is_key(name, value))

        self._is_kept_back = is_kept_back
        self._sandbox = sandbox
        self._described = sandbox is not None and sandbox.wanted != "off"
        self._held: dict[str, bool] = {}  # whether commands were sandboxed, as each agent knows
        if self._described:
            self.description = f"{self.description} Sandboxed: {_SANDBOXED}."
            self.parameters = _SANDBOXED_PARAMETERS
        self.variables: Callable[[str, str], Mapping[str, str]] = lambda _agent, _call: {}  # further ones for a call
        self._exports = Exports()
        self._group = ProcessGroup()
        self._shell = ""

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        command, sandbox = _command(arguments), self._sandbox
        if sandbox is None or not sandbox.stands:
            return Effect("execute", command=command)
        needs = sandbox.asked(_needs(arguments, workspace))
        leaves, reason = any(need.kind == "all" for need in needs), str(arguments.get("reason", ""))
        holds = not leaves and sandbox.holds(profile_of(workspace))
        obeyed = outside_judge(command, workspace).obeys(shared=sandbox.is_busy) if leaves else ()
        return Effect("execute", command=command, confined=holds, needs=needs, reason=reason, obeyed=obeyed)

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Run the command until its shell ends, at most `timeout` seconds; its background processes continue.

        Without a `timeout` the default applies, but not to a background call. Cancelling a call kills its processes.
        Raises ToolError if the shell cannot be started.
        """
        command, timeout = _command(arguments), _timeout(arguments)
        notices: list[str] = []
        _return_to_ground(run.workspace, notices)
        begun = run.workspace.cwd
        with contextlib.ExitStack() as held:
            argv = self._shell_line(command, run, held)
            confined = await self._confined(argv, arguments, run)
            held.callback(confined.finish)
            start = self._environment(run, notices, sandboxed=bool(confined.wall))
            notices += self._news(arguments, run.agent)
            start |= {**confined.environment, **self.variables(run.agent, run.call_id)}
            capture, process = self._launch(confined, run, start, notices, held)
            shell = asyncio.create_task(process.ended())
            run.offer_detach(lambda: self._detach(shell, capture, process, confined))
            try:
                in_time = await _attend(shell, capture, timeout, run)
                if process.released:
                    return ToolOutput.of("detached", summary="detached")
                if in_time:
                    shell.result()  # should anybody but us have cancelled it
                if (capture.flooded or not in_time) and (left := await process.kill_tree()):
                    notices.append(_unended(left))
                await capture.settle(_TEE_GRACE_SECONDS)
            except asyncio.CancelledError:
                left = await process.kill_tree()
                if (capture.size or left) and not process.released:
                    run.progress(capture.recent() + (f"[{_unended(left)}]" if left else ""))
                raise
            if capture.flooded:
                stopped = f"killed: it printed more than {MAX_OUTPUT_BYTES >> 20:,} MiB"
            elif not in_time:
                limit = DEFAULT_TIMEOUT_SECONDS if timeout is None else timeout
                stopped = f"timed out after {limit:g} s: killed, with everything it had started"
            else:
                stopped = ""
                kept = _remembered(run.workspace, process.notes(), start, confined.environment, notices)
                if kept is not None:
                    self._exports.after(run.workspace, run.agent, start, kept, sandboxed=bool(confined.wall))
                if not capture.finished.is_set():
                    notices.append(self._follow(capture, run))
            if stopped or process.code:
                notices.append(stopped or _outcome("exit code", process.code))
            notices += confined.finish()
            from sagent.sandbox.signs import advice_on
            from sagent.tools.capture import end_line
            from sagent.tools.printed import saw_printed

            shown = end_line(await capture.excerpt())
            saw_printed(command, shown, dict.fromkeys((begun, run.workspace.cwd)), run.workspace)
            own = confined.environment.get("TMPDIR", "/tmp")  # noqa: S108 -- as it is called
            places, starts = run.workspace.roots, (run.workspace.cwd, begun)
            notices += advice_on(shown, confined.profile, places, own, starts, failed=process.code != 0)
            said = command + shown
            if process.code and (names := ", ".join(name for name in os.environ if name in said and name not in start)):
                notices.append(f"hidden from commands: {names}. The person can pass a variable on with env.pass")
            content = shown + "".join(f"[{notice}]\n" for notice in notices)
            return ToolOutput(
                (Text(content.removesuffix("\n") or "(no output)"),),
                is_error=bool(stopped or process.code),
                summary=f"{stopped or _outcome('exit', process.code)}, {capture.measure()}",
            )

    async def aclose(self) -> None:
        """Kill all remaining processes. The tool can be used again afterwards."""
        await self._group.aclose()

    def close(self) -> None:
        self._group.close()

    def _shell_line(self, command: str, run: RunContext, stack: contextlib.ExitStack) -> Sequence[str]:
        """Return the shell command line for a command; one too long for an argument is read from a file."""
        self._shell = self._shell or _find_shell(run.workspace.roots)
        name = Path(self._shell).name
        is_bash = name == "bash"
        notes = SHELVED if is_bash and getrlimit(RLIMIT_NOFILE)[0] > SHELVED else 9  # others only accept one digit
        script = _script().format_map({"mark": MARK, "notes": notes, "plain": "builtin" if is_bash else "command"})
        if len(encoded := os.fsencode(command)) > _MAX_ARGUMENT_BYTES:
            import shlex

            scratch = run.blobs.scratch()
            stack.callback(run.blobs.drop, scratch)
            try:
                scratch.write_bytes(encoded)
                run.blobs.show(scratch)
            except OSError as error:
                raise ToolError(f"The command was not run: {failure(error)}") from error
            command = f". {shlex.quote(str(scratch))}"
        return [self._shell, "-c", script, name, command]

    async def _confined(self, argv: Sequence[str], arguments: JsonObject, run: RunContext) -> Confined:
        """Return the command line to run, confined to the policy's profile of this workspace and this call's grants."""
        workspace, sandbox = run.workspace, self._sandbox
        if sandbox is None or not sandbox.stands:
            return Confined(argv)
        profile = _own_profile(workspace, run.blobs)
        effect = run.effect or self.effect(arguments, workspace)

        def is_as_judged() -> bool:
            return outside_judge(effect.command, workspace).obeys(shared=sandbox.is_busy) == effect.obeyed

        def lasts() -> str:
            return f"the job `{one_line(effect.command, 80)}` (see BackgroundTask)" if run.in_background() else ""

        leaves = any(need.kind == "all" for need in effect.needs)
        asked = is_as_judged if leaves and outside_judge(effect.command, workspace).may_obey else None
        try:
            confined = await sandbox.confine(
                argv, profile, workspace.cwd, effect.needs, is_as_judged=asked, lasts=lasts
            )
        except OSError as error:  # a full disk
            raise ToolError(f"The command was not run: its sandbox could not be made: {failure(error)}") from error
        workspace.temporary = sandbox.temporary
        from sagent.sandbox.signs import stopped_halfway

        if refused := stopped_halfway(outside_judge(effect.command, workspace).remover, confined.profile):
            confined.finish()
            raise ToolError(f"The command was not run: {refused}")
        return confined

    def _news(self, arguments: JsonObject, agent: str) -> Iterator[str]:
        """Describe the sandbox if that differs from the description or the last news. The sent description stays,
        because all later text is cached after it."""
        holds = self._sandbox is not None and self._sandbox.stands
        changed = holds != self._held.get(agent, self._described)
        self._held[agent] = holds
        if not holds and (changed or arguments.get("needs")):
            yield "commands run without a sandbox now, this one too, and `needs` has no effect"
        elif changed:
            ask = f"give the list `needs` ({_NEEDS}) and a `reason`"
            yield f"commands run in a sandbox now: {_SANDBOXED}. For more {ask}"

    async def prepare(self, workspace: Workspace, blobs: Blobs) -> None:
        """Prepare the next command of a workspace's agent, including its sandbox if there is one."""
        await asyncio.to_thread(self._load)
        if self._sandbox is not None:
            self._sandbox.sweep()
        if self._sandbox is not None and self._sandbox.stands:
            with contextlib.suppress(ToolError, OSError):  # the command that needs it gets the error
                await self._sandbox.prepare(_own_profile(workspace, blobs))

    def _load(self) -> None:
        """Import the slowest part of the first command: the patterns of keys, to search the environment."""
        from sagent.sandbox import signs
        from sagent.tools import capture

        del signs, capture  # loaded by now
        for item in os.environ.items():
            self._is_kept_back(*item)

    def _launch(
        self, confined: Confined, run: RunContext, env: dict[str, str], notices: list[str], stack: contextlib.ExitStack
    ) -> "tuple[Capture, Process]":
        try:
            from sagent.tools.capture import Capture

            capture = stack.enter_context(
                contextlib.closing(Capture(run.blobs, limit=MAX_OUTPUT_BYTES, show=_shower(run)))
            )
            try:
                argv, environment = confined.launched(env)
                process = self._group.start(argv, env=environment, cwd=run.workspace.resolve("."), output=capture.sink)
            except OSError as error:
                if error.errno != errno.E2BIG:
                    raise
                whole = dict(env)
                _shrink(env, _MIN_ENVIRONMENT_BYTES, notices)
                self._exports.after(run.workspace, run.agent, whole, dict(env), sandboxed=bool(confined.wall))
                argv, environment = confined.launched(env)
                process = self._group.start(argv, env=environment, cwd=run.workspace.resolve("."), output=capture.sink)
        except (OSError, ValueError) as error:  # missing directory, no more processes, or a NUL in a variable
            raise ToolError(f"The command was not run: {failure(error)}") from error
        stack.callback(process.close)
        capture.begin(process.kill)
        return capture, process

    def _environment(self, run: RunContext, notices: list[str], *, sandboxed: bool) -> dict[str, str]:
        """Build the environment of a command, and list the variables that it lacks because it is not `sandboxed`."""
        workspace = run.workspace
        if (carried := self._exports.before(workspace, run.agent, sandboxed=sandboxed)) is None:
            kept = (item for item in os.environ.items() if not self._is_kept_back(*item))
            start = {**dict(kept), **_QUIET, "PWD": str(workspace.cwd)}
        else:
            start = {**_QUIET, **carried, "PWD": str(workspace.cwd)}
        if left_out := [*self._exports.left_out(workspace, start, sandboxed=sandboxed)]:
            named = ", ".join(left_out[:5]) + (" and others" if len(left_out) > 5 else "")
            notices.append(f"outside the sandbox commands do not get variables that were set in it: {named}")
        return start

    def _follow(self, capture: "Capture", run: RunContext) -> str:
        """Make a background process that holds the pipe write to a file from now on."""
        try:
            path = run.blobs.scratch()
            path.touch(0o600)
            _shower(run)(path)
            whereto = f"goes to {path}"
        except OSError as error:
            path = Path(os.devnull)
            whereto = f"is lost: {failure(error)}"
        try:
            os.set_blocking(capture.source, True)
            self._group.drain(capture.source, path, limit=MAX_OUTPUT_BYTES)
        except OSError as error:
            whereto = f"ends it: {failure(error)}"
        return f"still running in the background; what it prints from now on {whereto}"

    def _detach(self, shell: asyncio.Task[None], capture: "Capture", process: Process, confined: Confined) -> str:
        """Let a command outlive this process; return its output's path. Raises ToolError if it cannot."""
        if shell.done() or shell.cancelling() or capture.flooded:
            raise ToolError("its command is just ending; the result comes by itself")
        import tempfile

        from sagent.sandbox.scratch import PREFIX

        def take(source: int, before: int) -> None:
            self._group.drain(source, path, limit=MAX_OUTPUT_BYTES, before=before)
            process.release()
            confined.detach()

        try:  # not in the blobs: those of an unsaved session are deleted with it, scratch files when it is resumed
            file, name = tempfile.mkstemp(prefix=PREFIX, suffix=".out")
            os.close(file)
            path = Path(name)
            try:
                capture.hand_over(take)
            except BaseException:
                path.unlink()
                raise
        except OSError as error:
            raise ToolError(str(error)) from error
        shell.cancel()  # ends the call
        most = f"the first {MAX_OUTPUT_BYTES >> 20:,} MiB of it"
        return f"all it has printed and will print goes to {path} ({most}). To end it: kill -- -{process.pid}"


@functools.cache
def _script() -> str:
    lines = Path(__file__).with_name("bash.sh").read_text("utf-8").splitlines()
    return " ".join(line for line in lines if not line.startswith("#"))


async def _attend(shell: asyncio.Task[None], capture: "Capture", timeout: float | None, run: RunContext) -> bool:
    """Wait for the shell and show its last lines now and then; return False when the time is up, with `shell` ended."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + (DEFAULT_TIMEOUT_SECONDS if timeout is None else timeout)
    pause, shown = _FIRST_PROGRESS, 0
    try:
        while not shell.done():
            if (left := deadline - clock()) <= 0:
                if timeout is not None or not run.in_background():
                    return False
                deadline, left = math.inf, math.inf
            await asyncio.wait([shell], timeout=min(pause, left))
            if not shell.done() and capture.size != shown:
                shown = capture.size
                run.progress(_recent(capture, run))
            pause = _NEXT_PROGRESS
        return True
    finally:
        shell.cancel()
        await asyncio.wait([shell])


def _recent(capture: "Capture", run: RunContext) -> str:
    """Return the last lines so far; for a question about a job more of them, and the path of the whole output."""
    if not run.in_background():
        return capture.recent()
    where = capture.whereabouts()
    head = f"[{capture.size:,} bytes so far, all of them in {where}; the last lines:]\n" if where else ""
    return head + capture.recent(_JOB_PROGRESS_CHARS)


def _command(arguments: JsonObject) -> str:
    command = arguments.get("command")
    if not isinstance(command, str) or not command.strip():
        raise ToolError("`command` must be the text of a shell command.")
    try:
        os.fsencode(command)
    except UnicodeEncodeError as error:
        raise ToolError(
            f"`command` holds {command[error.start]!r} at character {error.start + 1}, half of a surrogate pair, which"
            " no shell can be given. Send the whole character, or let `printf` make the bytes."
        ) from error
    if "\0" in command:
        raise ToolError("`command` holds a NUL character, which no shell accepts. Let `printf '\\0'` make it.")
    return command


def _unended(pids: Sequence[int]) -> str:
    return f"could not be ended, and may still run: {', '.join(map(str, pids))}"


def _shower(run: RunContext) -> Callable[[Path], object]:
    """Return a function that lets later commands read this one's long output; None if this one was granted files that
    they may not see."""
    needs = run.effect.needs if run.effect is not None else ()
    return str if any(need.kind != "network" for need in needs) else run.blobs.show


def _own_profile(workspace: Workspace, blobs: Blobs) -> "Profile":
    """Return the sandbox profile of commands, extended by long outputs of earlier ones, which they may read."""
    profile = profile_of(workspace)
    with contextlib.suppress(OSError):
        place, source = map(os.path.realpath, blobs.shown())
        return replace(profile, exposed=(*profile.exposed, place), shown=((place, source),))
    return profile


def _needs(arguments: JsonObject, workspace: Workspace) -> "tuple[Need, ...]":
    """Parse a call's requests beyond the sandbox, with resolved paths. Raises ToolError."""
    from sagent.sandbox.obeyed import is_protected_name
    from sagent.sandbox.profile import Need

    given = arguments.get("needs", ())
    texts = [given] if isinstance(given, str) else given if isinstance(given, Sequence) else ()
    found: list[Need] = []
    for text in texts:
        try:
            need = Need.parse(str(text))
        except ValueError as error:
            raise ToolError(f"{error}.") from error
        if need.kind in ("read", "write"):
            need = Need(need.kind, os.path.realpath(workspace.resolve(need.target)))
            above = os.path.dirname(need.target)  # noqa: PTH120 -- a text path
            lost = above if is_protected_name(above) else "" if is_protected_name(need.target) else need.target
            if lost and not os.path.lexists(lost):  # a new protected directory stays as a whole, or not at all
                raise ToolError(f"The command was not run: {lost} does not exist. Ask for {need.kind}:{above}.")
        found.append(need)
    return tuple(dict.fromkeys(found))


def _timeout(arguments: JsonObject) -> float | None:
    if (timeout := arguments.get("timeout")) is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise ToolError(f"`timeout` must be a number of seconds above 0, not {str(timeout)[:40]!r}.")
    return float(min(timeout, MAX_TIMEOUT_SECONDS))  # in this order: an integer may be larger than any float


def _outcome(word: str, code: int) -> str:
    number = -code if code < 0 else code - 128
    name = signal.Signals(number).name if number in set(signal.Signals) else ""
    if code < 0:
        return f"killed by {name or f'signal {number}'}"
    return f"{word} {code} ({name})" if name else f"{word} {code}"


def _find_shell(roots: Iterable[Path]) -> str:
    """Find bash, else sh; one in the workspace, where commands may have put it, only as a last resort."""
    from sagent.sandbox.profile import is_below

    real = [os.path.realpath(root) for root in roots]
    given = (directory for directory in os.get_exec_path() if directory.startswith("/"))
    trusted = sorted(given, key=lambda directory: is_below(os.path.realpath(directory), real))
    paths = (f"{directory}/{name}" for name in ("bash", "sh") for directory in trusted)
    return next((path for path in paths if os.access(path, os.X_OK)), "/bin/sh")


def _return_to_ground(workspace: Workspace, notices: list[str]) -> None:
    """Move from a directory that no longer exists, or may not be entered, to the nearest one above."""
    gone = workspace.cwd
    while not _is_there(workspace) and workspace.cwd != workspace.cwd.parent:
        workspace.cwd = workspace.cwd.parent
    if workspace.cwd == gone:
        return
    why = "may not be entered" if os.path.lexists(gone) else "no longer exists"
    notices.append(f"{gone} {why}; the working directory is {workspace.cwd}")


def _is_there(workspace: Workspace) -> bool:
    """Return True if its directory exists and may be entered; commands may have a private one."""
    return os.access(f"{workspace.resolve('.')}/.", os.X_OK)


def _remembered(
    workspace: Workspace, notes: bytes, start: Mapping[str, str], added: Collection[str], notices: list[str]
) -> dict[str, str] | None:
    """Take over the shell's final directory, and its variables if the command changed any other than those `added`."""
    directory, ended, exports = notes.partition(b"\0")
    if not ended:  # `exec`, killed from within, its own EXIT trap and `exit`
        notices.append("the shell ended without a report: working directory and variables are as before this command")
        return None
    cwd = os.fsdecode(directory.removesuffix(b"\n"))
    if cwd.startswith("/") and cwd != start["PWD"]:
        workspace.cwd = Path(cwd)
        if _is_there(workspace):
            notices.append(f"working directory: {cwd}")
        _return_to_ground(workspace, notices)
    found = parse_exports(exports)
    kept = {name: value for name, value in start.items() if name in _SHELLS_OWN or not name.isidentifier()}
    kept.update((name, value) for name, value in found.items() if name not in _SHELLS_OWN)
    if found and kept != start:
        kept = {name: value for name, value in kept.items() if name not in added}
        _shrink(kept, _MAX_ENVIRONMENT_BYTES, notices)
        return kept
    return None


def parse_exports(listing: bytes) -> dict[str, str]:
    """Return the variables of an `export -p`, as bash and POSIX shells write it; those without a value left out."""
    pairs = (match.groups() for match in re.finditer(_EXPORT, listing, re.DOTALL | re.MULTILINE))
    words = ((name, re.finditer(_WORD, value, re.DOTALL)) for name, value in pairs if value is not None)
    return {name.decode(): os.fsdecode(b"".join(map(_plain, pieces))) for name, pieces in words}


def _plain(match: re.Match[bytes]) -> bytes:
    """Return a piece of a word without quotes."""
    word = match[0]
    if word.startswith(b"'"):
        return word[1:-1]
    if word.startswith(b"$'"):
        return re.sub(rb"\\([0-7]{1,3}|.)", _escaped, word[2:-1], flags=re.DOTALL)
    if word.startswith(b'"'):
        return re.sub(rb'\\([$`"\\])', rb"\1", word[1:-1])
    return word.removeprefix(b"\\") or b"\\"


def _escaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8) & 255]) if code.isdigit() and code < b"8" else _ANSI_C.get(code, code)


def _shrink(environment: dict[str, str], limit: int, notices: list[str]) -> None:
    """Remove variables that would keep the system from starting a process: overlong or too many."""
    sizes = {name: len(os.fsencode(name)) + len(os.fsencode(value)) for name, value in environment.items()}
    total = sum(sizes.values())
    dropped: list[str] = []
    for name in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if sizes[name] < _MAX_VARIABLE_BYTES:
            if total <= limit:
                break
            if name in _NEEDED:
                continue
        total -= sizes[name]
        del environment[name]
        dropped.append(name)
    if dropped:
        named = ", ".join(name[:80] for name in dropped[:5]) + (" and others" if len(dropped) > 5 else "")
        notices.append(f"too large to be kept in the environment: {named}. Use a file")
