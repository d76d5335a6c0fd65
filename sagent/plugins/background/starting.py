"""`sagent --bg`: start the process of a session, detached from this one, and wait until it has the session."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from sagent.cli.headless import image_in, read_prompt
from sagent.cli.render import report
from sagent.cli.settings import load_or_report
from sagent.codec import encode_message
from sagent.errors import SagentError, SessionBusy, UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_object, as_str, json_dump
from sagent.messages import user
from sagent.plugin import resolve
from sagent.plugins.background.records import Record, find, folder, prune

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.messages import Message

MAX_TAKEOVER_SECONDS = 60.0  # until the process that has the session has closed it
_HERE = ("output_format", "log_level", "image")
"""Flags of the command that starts it."""
_REFUSED = {
    "ephemeral": "its session is found again by what is saved",
    "input_format": "no more messages come from a terminal or a pipe that it has left; `sagent attach` sends more",
}
_START = (
    "import sys; root, sys.path[:] = sys.argv[1], sys.argv[2:]; root in sys.path or sys.path.append(root); "
    "sys.argv[:] = ['sagent']; from sagent.plugins.background.host import main; sys.exit(main())"
)


@dataclass(frozen=True, slots=True)
class Started:
    """A session that runs in its own process."""

    id: str
    pid: int


class StartError(SagentError):
    """A background session that could not be opened; `code` is the exit code."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


def run_background(given: Mapping[str, object], flags: Mapping[str, object], words: list[str] | None) -> int:
    """Start a prompt's session; print its id and return 0. Raises UsageError, and StartError for a session that cannot
    be opened."""
    place = given.get("worktree")
    if words is None:
        raise UsageError('--bg needs a prompt: sagent --bg "TASK".')
    for name, why in _REFUSED.items():
        if flags.get(name):
            raise UsageError(f"--{name.replace('_', '-')} does not go with --bg: {why}.")
    images = [*map(str, as_array(flags.get("image")))]
    settings = load_or_report({name: value for name, value in flags.items() if name != "image"})
    if isinstance(place, str) and place and not places_of(settings).is_name(place):
        place, words = "", [place, *words]  # a prompt after a flag without a name
    prompt = read_prompt(words, sys.stdin, sys.stderr, "sagent --bg")
    own = {name: value for name, value in flags.items() if name not in _HERE}
    if place is not None:
        own["cwd"] = str(settings.cwd)
    message = user(prompt.text, *prompt.parts, *map(image_in, images))
    started = start(settings.state_dir, own, message, as_str(place) if place is not None else None)
    if settings.output_format == "text":
        sys.stdout.write(f"{started.id}\n")
        if sys.stderr.isatty():
            report(f"it runs in the background: sagent ps, sagent attach {started.id}")
    else:
        sys.stdout.write(json_dump({"session_id": started.id, "pid": started.pid}) + "\n")
    sys.stdout.flush()
    return 0


class Place(Protocol):
    """A place of its own for a run, as a worktree, which the run's process holds until `finish`. That returns what
    becomes of it."""

    name: str
    settings: "Settings"

    def finish(self) -> str: ...


class Places(Protocol):
    """Makes a place with a name, or with the name of its own for "", or continues in one. Raises UsageError."""

    def __call__(self, name: str, settings: "Settings", /) -> Place: ...
    def is_name(self, text: str, /) -> bool: ...


def places_of(settings: "Settings") -> Places:
    """Return what makes places for runs. Raises UsageError if its plugin is gone."""
    for _, extra in settings.plugins.extras("place of a run"):
        return cast("Places", resolve(extra.add))
    raise UsageError("The plugin worktrees is not there, so that the session cannot have a worktree.")


def start(state_dir: Path, flags: Mapping[str, object], prompt: "Message | None", place: str | None = None) -> Started:
    """Start the process of a session that these flags describe, in a `place` of its own if that is not None; return
    once that has opened it. Raises StartError."""
    process, ready, output = _launch(state_dir, flags, prompt, 0, place)
    try:
        with os.fdopen(ready, "rb") as answered:
            answer = as_object(json.loads(answered.readline() or b"{}"))
    except BaseException:
        process.terminate()
        raise
    if name := as_str(answer.get("session_id")):
        process.returncode = 0  # it is on its own from here, so its end is not waited for
        return Started(name, process.pid)
    process.wait()
    text, kind = as_str(answer.get("error")), as_str(answer.get("kind")) or "error"
    if not text:
        text = f"The process of the session ended at its start: {_end_of(output)}"
    output.unlink(missing_ok=True)
    if kind == SessionBusy.kind:
        text += " If it runs in the background: sagent attach follows it."
    raise UsageError(text) if kind == "usage" else StartError(text, kind)


def start_later(state_dir: Path, flags: Mapping[str, object], prompt: "Message") -> None:
    """Start a process that takes over a session once this process has closed it. Raises StartError."""
    process, ready, _ = _launch(state_dir, flags, prompt, MAX_TAKEOVER_SECONDS)
    os.close(ready)
    process.returncode = 0  # as above


def _launch(
    state_dir: Path, flags: Mapping[str, object], prompt: "Message | None", patience: float, place: str | None = None
) -> tuple["subprocess.Popen[bytes]", int, Path]:
    """Start a detached process with an order; return it, a descriptor to read its answer from, and its output."""
    try:
        prune(state_dir)
        output = folder(state_dir) / f"starting-{os.getpid()}-{os.urandom(3).hex()}.log"
        log = os.open(output, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartError(f"{error.filename or folder(state_dir)}: {error.strerror or error}", "error") from error
    ours, theirs = os.pipe()
    said = prompt and encode_message(prompt, None)
    order = {"flags": dict(flags), "prompt": said, "output": str(output), "ready": theirs, "patience": patience}
    order["place"] = place
    try:
        argv = [sys.executable, "-I", "-X", "utf8", "-c", _START, str(Path(__file__).parents[3])]
        process = subprocess.Popen(
            [*argv, *filter(os.path.isabs, sys.path)], stdin=subprocess.PIPE, stdout=log, stderr=log,
            start_new_session=True, pass_fds=(theirs,),
        )  # fmt: skip
    finally:
        os.close(theirs)
        os.close(log)
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(json.dumps(order).encode())
    return process, ours, output


def reopen(state_dir: Path, record: Record) -> Record:
    """Start another process for a session whose process has ended; return its record. Raises StartError."""
    if not record.is_here:
        raise StartError(f"Session {record.id} runs on {record.host}: attach to it there.", "usage")
    cwd = record.flags.get("cwd") if record.place else record.cwd
    start(state_dir, {**record.flags, "cwd": cwd, "resume": record.path}, None, record.place or None)
    return find(state_dir, record.id)


def _end_of(path: Path) -> str:
    """Return the last line of a file."""
    with suppress(OSError):
        return next((line for line in reversed(path.read_text("utf-8", "replace").splitlines()) if line.strip()), "")
    return ""
