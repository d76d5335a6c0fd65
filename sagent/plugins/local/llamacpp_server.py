"""A llama-server as a child process: its command line, last output, and end. It does not outlive this process."""

import asyncio
import os
import re
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from threading import Thread

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.names import path_of
from sagent.lib.process import ProcessGroup, system_path
from sagent.model import ModelInfo, ModelLimits

PROGRAM = "llama-server"
EXIT_TIMEOUT_SECONDS = 5.0  # for a server to end itself
_BATCH = 512  # tokens of a prompt that are read before the server says how far it is: as many as it reads at once
# One slot, taken whatever it holds: the server then puts each conversation into memory first, and leaves in it what
# the next one begins with. Chosen by likeness, a slot is cut: a sub-agent begins like its parent.
_ONE_SLOT = ("-np", "1", "-sps", "0")
_SLOTS = {"-np", "--parallel", "-sps", "--slot-prompt-similarity"}
_KEPT = 32_768  # bytes of its output to keep
_SHOWN = 12  # lines of these in an error, at most
REMEDY = (
    f"Install llama.cpp (github.com/ggml-org/llama.cpp: releases, Homebrew, Nix or Debian) and name its {PROGRAM} in"
    " LLAMA_CPP_SERVER, or name a running server in LLAMA_CPP_BASE_URL."
)
_REFUSED = re.compile(r"error loading model: ([^\n]+)")  # llama.cpp, of a file
_STRANGE = re.compile(r"(option|argument|flag)\b.*--host", re.IGNORECASE)
_LACKS = re.compile(r"(?:loading shared libraries|Library not loaded): ([^\s:]+)")
_ILLEGAL = (-signal.SIGILL, 128 + signal.SIGILL)  # exit codes of a server, and of a script that runs one
_OF_MEMORY = re.compile("alloc|memory|buffer", re.IGNORECASE)  # shortages that may be temporary

# What would make the server listen elsewhere than where it is looked for, or to others.
_OURS = ("--host", "--port", "--api-key", "--api-key-file", "--api-prefix", "--ssl-key-file", "--ssl-cert-file")
_NOT_INHERITED = ("LLAMA_ARG_API_PREFIX", "LLAMA_ARG_API_KEY_FILE", "LLAMA_ARG_SSL_KEY_FILE", "LLAMA_ARG_SSL_CERT_FILE")


@dataclass(frozen=True, slots=True)
class Launch:
    """The start of a server. `context` is in tokens (None: the server's choice), `timeout` in seconds: how long
    loading the model may take."""

    program: str
    model: Path
    context: int | None = None
    arguments: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    timeout: float = 900.0

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> "Launch | None":
        """Read LLAMA_CPP_MODEL, _SERVER, _CONTEXT and _ARGS; None without a model.

        Raises UsageError naming the variable that is wrong.
        """
        model = environ.get("LLAMA_CPP_MODEL", "").strip()
        if not model:
            return None
        program, weights = program_in(environ), model_file(model)
        return cls(program, weights, _context(environ), _arguments(environ), {**os.environ, **environ})

    @property
    def name(self) -> str:
        """The model's id: the file's name without its ending."""
        return self.model.stem.replace(",", "_")  # a comma would separate two names

    @property
    def info(self) -> ModelInfo:
        """The known facts of the model before it is loaded."""
        return ModelInfo(self.name, ModelLimits(self.context))

    def command(self, port: int) -> list[str]:
        """Return the server's command line (tools/server/README.md of llama.cpp) without secrets, because others can
        see it."""
        named = [] if {"-a", "--alias"} & set(self.arguments) else ["--alias", self.name]
        context = [] if self.context is None else ["-c", str(self.context)]
        batch = [] if {"-b", "--batch-size"} & set(self.arguments) else ["-b", str(_BATCH)]
        slots = () if _SLOTS & set(self.arguments) or "LLAMA_ARG_N_PARALLEL" in self.environ else _ONE_SLOT
        listening = ["--host", "127.0.0.1", "--port", str(port)]
        sized = [*context, *batch, *slots]
        return [self.program, *listening, "-m", str(self.model), *named, *sized, "--jinja", *self.arguments]


class LlamaServer:
    """A run of a server, started on creation. Call `stop` or `kill` in every case."""

    def __init__(self, launch: Launch, key: str) -> None:
        """Raises OSError."""
        self.port = _free_port()
        self.healthy = False  # it has answered
        self.waiting = 0  # callers that wait for its first answer
        self.fate: tuple[bool, str] | None = None  # set when it has to be replaced: whether a retry helps, and why
        self.since = time.monotonic()
        self._struck = False
        self._launch = launch
        self.listens = False  # it has answered at its port
        inherited = {name: value for name, value in launch.environ.items() if name not in _NOT_INHERITED}
        source, sink = os.pipe()
        self._group = ProcessGroup()
        try:
            environ = {**inherited, "LLAMA_API_KEY": key}
            null = asyncio.subprocess.DEVNULL
            self._process = self._group.start(launch.command(self.port), env=environ, input=null, output=sink)
        except BaseException:
            os.close(source)
            raise
        finally:
            os.close(sink)
        try:
            self._output = _Output(source)
        except RuntimeError as error:  # no more threads
            os.close(source)
            self.kill()
            raise OSError(str(error)) from error

    @property
    def url(self) -> str:
        """http://127.0.0.1:PORT."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def alive(self) -> bool:
        """True if it still runs. Otherwise the rest of its group is killed."""
        if self._process.alive:
            return True
        self.kill()
        return False

    async def ended(self, seconds: float) -> bool:
        """Return True if it ends within a time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._process.ended()
        return not self.alive

    async def obituary(self) -> str:
        """Describe how the server ended, with its last output."""
        await self._output.whole(0.5)
        code = self._process.code
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        when = "while it was in use" if self.healthy else "before it was ready"
        whose = PROGRAM if self.listens else f"LLAMA_CPP_SERVER: {self._launch.program}"
        return f"{whose} {how} {when}. {self.said()}"

    def refused(self) -> tuple[bool, str] | None:
        """Return the reason of an end that another start would not change: the file, or the program."""
        program, model = self._launch.program, self._launch.model
        said = "\n".join(self._output.lines())
        found = _REFUSED.findall(said)
        if found and not _OF_MEMORY.search(found[-1]):
            why = found[-1].strip().removesuffix(f" from {model}")
            remedy = "Download the file again, or name another there; a new kind of model needs a newer llama-server."
            return False, f"LLAMA_CPP_MODEL: {PROGRAM} cannot load {model} ({why}). {remedy}"
        if lacks := _LACKS.search(said):
            remedy = "Install it, or name the directory that has it in LD_LIBRARY_PATH."
            return False, f"LLAMA_CPP_SERVER: {program} needs the library {lacks[1]}, which is not found. {remedy}"
        if self._process.code in _ILLEGAL:
            what = f"{program} needs instructions that this processor lacks ({signal.SIGILL.name})"
            return False, f"LLAMA_CPP_SERVER: {what}: it was built for another. {REMEDY}"
        if not self.listens and (self._process.code == 0 or _STRANGE.search(said)):
            what = "does not know --host" if self._process.code else "ended at once"
            return False, f"LLAMA_CPP_SERVER: {program} {what}, so it is no {PROGRAM}. {REMEDY}"
        return None

    def said(self) -> str:
        """Return the last lines of its output, in a sentence."""
        lines = self._output.lines()
        return f"Its last output: {' / '.join(lines)}" if lines else "It printed nothing."

    async def stop(self) -> None:
        """End it: SIGTERM, SIGKILL after EXIT_TIMEOUT_SECONDS. When cancelled it is killed at once."""
        try:
            self._process.terminate()
            await self.ended(EXIT_TIMEOUT_SECONDS)
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the rest of it, at once. Idempotent."""
        if not self._struck:
            self._struck = True
            self._process.close(1.0)
            self._group.close_soon()


class _Output:
    """Reads a process's output in a thread, so that it never blocks, and keeps the end of it."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._end = bytearray()
        self._thread = Thread(target=self._read, name=f"output of {PROGRAM}", daemon=True)
        self._thread.start()

    def lines(self) -> Sequence[str]:
        """Return the last lines, without colours."""
        text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", bytes(self._end).decode("utf-8", "replace"))
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return [line if len(line) <= 300 else f"{line[:300]}…" for line in lines[-_SHOWN:]]

    async def whole(self, seconds: float) -> None:
        """Wait until everything is read, but not longer than this: a stranger may hold the pipe open."""
        until = time.monotonic() + seconds
        while self._thread.is_alive() and time.monotonic() < until:  # noqa: ASYNC110 -- a thread sets no loop's event
            await asyncio.sleep(0.005)

    def _read(self) -> None:
        with os.fdopen(self._source, "rb", buffering=0) as pipe, suppress(OSError):
            while data := pipe.read(65_536):
                self._end += data
                del self._end[:-_KEPT]


def program_in(environ: Mapping[str, str]) -> str:
    """Return the path of LLAMA_CPP_SERVER, else of the llama-server on PATH. Raises UsageError."""
    import shutil

    named = environ.get("LLAMA_CPP_SERVER", "").strip()
    program = os.path.expanduser(named or PROGRAM)  # noqa: PTH111 -- a Path drops "./", and PATH would be searched
    found = shutil.which(program, path=system_path({**os.environ, **environ}))
    if found:
        return str(Path(found).absolute())
    what = f"LLAMA_CPP_MODEL needs {PROGRAM}, which is not on PATH."
    if named:
        path = path_of(named)
        fault = "there is no such program"
        if path.is_dir():
            fault = "it is a directory"
        elif "/" in named and path.exists():
            fault = "it is not executable"
        what = f"LLAMA_CPP_SERVER: {named} cannot be started, for {fault}."
    raise UsageError(f"{what} {REMEDY}")


def model_file(named: str) -> Path:
    """Return the path of a .gguf file. Raises UsageError for anything else."""
    path = path_of(named).absolute()
    fault = ""
    try:
        if path.is_file() or not path.exists():  # opening a pipe would wait
            with path.open("rb") as file:
                start = file.read(4)
            if start != b"GGUF":
                fault = "is not a model in the GGUF format" if start else "is empty"
        else:
            fault = "is a directory" if path.is_dir() else "is no file"
    except OSError as error:
        fault = f"cannot be read ({error.strerror})"
    if fault:
        raise UsageError(f"LLAMA_CPP_MODEL: {named} {fault}. Name a model's .gguf file there.")
    return path


def _context(environ: Mapping[str, str]) -> int | None:
    text = environ.get("LLAMA_CPP_CONTEXT", "").strip()
    if not text:
        return None
    if not text.isdecimal() or not int(text):
        raise UsageError(f"LLAMA_CPP_CONTEXT: a number of tokens is needed, as in 16384, not {text!r}.")
    return int(text)


def _arguments(environ: Mapping[str, str]) -> tuple[str, ...]:
    import shlex

    text = environ.get("LLAMA_CPP_ARGS", "")
    try:
        arguments = tuple(str(path_of(each)) if each.startswith("~/") else each for each in shlex.split(text))
    except ValueError as error:
        raise UsageError(f"LLAMA_CPP_ARGS: {error} in {text!r}.") from error
    if taken := next((argument for argument in arguments if argument.partition("=")[0] in _OURS), None):
        raise UsageError(
            f"LLAMA_CPP_ARGS: {taken} is chosen by sagent. Start such a server yourself and name it in"
            " LLAMA_CPP_BASE_URL and LLAMA_CPP_API_KEY."
        )
    return arguments


def _free_port() -> int:
    """Return a free port of 127.0.0.1. If another process takes it first, the server ends with an error."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        address: tuple[str, int] = probe.getsockname()
        return address[1]
