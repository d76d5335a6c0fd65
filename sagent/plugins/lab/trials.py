"""Tasks carried out in several ways (arms), and the record of each run."""

import json
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_int, as_number, as_object, as_str, canonical_bytes, sha256_hex, wire_bytes
from sagent.lib.money import as_usd
from sagent.lib.names import path_of
from sagent.lib.regular import read_given
from sagent.lib.text import why_unread

Arm: TypeAlias = str
"""The name of a way to carry out a task."""
ARMS: tuple[Arm, Arm] = ("without", "with")
"""The arms of `bench-advisor`: without an advisor, and with one."""
Outcome: TypeAlias = Literal["solved", "unsolved", "failed", "budget", "interrupted"]
JUDGED: tuple[Outcome, ...] = ("solved", "unsolved")
"""Outcomes decided by the check. Others say nothing about the task."""
FINISHED: tuple[Outcome, ...] = (*JUDGED, "budget")
"""Outcomes that another run would repeat: such a trial is not made again."""
DEFAULT_TIMEOUT_SECONDS = 1800.0  # seconds, the default for tasks
_MEMBERS = ("name", "prompt", "check", "directory", "timeout")


@dataclass(frozen=True, slots=True)
class Task:
    """A task to do in a copy of `directory`, or in an empty one if it is None. `check` is a shell command that exits
    with 0 there if it is done; `timeout` is in seconds, for the work and again for the check.

    The prompts of a recorded `session` are asked again in a clone of its directory at `commit`, if known; `then` are
    the prompts after the first.
    """

    name: str
    prompt: str
    check: str
    directory: Path | None = None
    timeout: float = DEFAULT_TIMEOUT_SECONDS
    session: str = ""
    commit: str = ""
    then: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Changes whenever the task does; files in its directory are not looked at."""
        members = {**asdict(self), "directory": str(self.directory or "")}
        if not self.session:  # as it was before sessions could be tasks
            members = {name: members[name] for name in _MEMBERS}
        return sha256_hex(canonical_bytes(members))[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A run of a task in one arm; `number` counts its repeats from 1, `at` is when it ended (UTC, ISO 8601).

    "failed" means that a provider, or anything else outside the task, broke; "budget" that its budget ended it. `stop`
    is why the work ended, `reason` the error, `check` the exit code of the check. `usd` is its cost, None if a price is
    unknown; `least` is the known part of it, `most` its maximum if a bill never came; `turns` are model calls; `read`
    and `written` are tokens, None in old notes.
    """

    task: str
    digest: str
    arm: Arm
    number: int
    outcome: Outcome
    stop: str = ""
    reason: str = ""
    check: int | None = None
    usd: Decimal | None = None
    least: Decimal = Decimal(0)
    most: Decimal | None = None
    advisor_usd: Decimal | None = None
    turns: int = 0
    read: int | None = None
    written: int | None = None
    seconds: float = 0.0
    answered: int = 0
    declined: int = 0
    undone: int = 0  # consultations that failed
    withheld: int = 0
    session: str = ""
    at: str = ""

    @property
    def key(self) -> tuple[str, Arm, int]:
        return self.task, self.arm, self.number

    @property
    def is_judged(self) -> bool:
        return self.outcome in JUDGED

    @property
    def consultations(self) -> int:
        return self.answered + self.declined + self.undone


def encode_trial(trial: Trial) -> bytes:
    """Return a line."""
    members = {name: str(value) if isinstance(value, Decimal) else value for name, value in asdict(trial).items()}
    return wire_bytes(members) + b"\n"


_READERS: Mapping[object, Callable[[object], object]] = {
    str: as_str,
    int: as_int,
    float: as_number,
    Decimal: lambda value: as_usd(value) or Decimal(0),
    Decimal | None: as_usd,
    int | None: lambda value: value if isinstance(value, int) else None,
}


def decode_trial(line: bytes | str, arms: Collection[Arm] = ARMS) -> Trial:
    """Decode the trial of a line. Raises ValueError unless it is a trial of one of the arms."""
    body = as_object(json.loads(line))
    outcome: Outcome | None = next((each for each in get_args(Outcome) if each == body.get("outcome")), None)
    number = as_int(body.get("number"))
    if as_str(body.get("arm")) not in arms or outcome is None or number < 1 or not body.get("task"):
        raise ValueError("not the line of a run")
    empty = Trial(task="", digest="", arm="", number=number, outcome=outcome)
    read = {field.name: _READERS[field.type](body.get(field.name)) for field in fields(Trial) if field.type in _READERS}
    return replace(empty, **read)


def latest_trials(trials: Sequence[Trial]) -> Mapping[tuple[str, Arm, int], Trial]:
    """Return the last trial of each kind, which replaces earlier unsuccessful ones."""
    return {trial.key: trial for trial in trials}


# -- the file of tasks -------------------------------------------------------------------------------------------------


def read_tasks(file: Path) -> tuple[Task, ...]:
    """Read tasks from a TOML file (`[[tasks]]`), or from one with a JSON object a line. Raises UsageError naming the
    place.

    Directories are relative to the file.
    """
    try:
        text = read_given(file).decode()
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: the tasks cannot be read: {why_unread(error)}.") from error
    tasks = place_tasks(file, _lines(file, text) if file.suffix in (".jsonl", ".ndjson") else _tables(file, text))
    if not tasks:
        raise UsageError(f"{file} has no tasks: write [[tasks]] with name, prompt and check.")
    return tasks


def place_tasks(file: Path, rows: Iterable[tuple[str, object]]) -> tuple[Task, ...]:
    """Return the tasks of rows, each given with its location for errors. Raises UsageError with these."""
    tasks: dict[str, Task] = {}
    for where, row in rows:
        task = _task(file, where, row)
        if task.name in tasks:
            raise UsageError(f"{where}: two tasks are called {task.name!r}: give each its own name.")
        tasks[task.name] = task
    return tuple(tasks.values())


def _tables(file: Path, text: str) -> Iterator[tuple[str, object]]:
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file}: not TOML: {error}.") from error
    if stranger := next((name for name in found if name != "tasks"), None):
        raise UsageError(f"{file}: {stranger!r} is not a key here: write [[tasks]] for each task.")
    rows: object = found.get("tasks", [])
    if not isinstance(rows, list):
        raise UsageError(f"{file}: tasks must be a list: write [[tasks]] for each task.")
    for number, row in enumerate(rows, 1):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        yield f"{file}, task {number}", row


def _lines(file: Path, text: str) -> Iterator[tuple[str, object]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield f"{file}, line {number}", json.loads(line)
            except ValueError as error:
                raise UsageError(f"{file}, line {number}: not JSON: {error}.") from error


def _task(file: Path, location: str, row: object) -> Task:
    if not isinstance(row, Mapping):
        raise UsageError(f"{location}: a task must be a table with {', '.join(_MEMBERS)}.")
    body = as_object(row)  # pyright: ignore[reportUnknownArgumentType]
    if stranger := next((name for name in body if name not in _MEMBERS), None):
        raise UsageError(f"{location}: {stranger!r} is not a key of a task; its keys are {', '.join(_MEMBERS)}.")
    for name in ("name", "prompt", "check"):
        if not as_str(body.get(name)).strip():
            raise UsageError(f"{location}: {name} is missing: give it as a string.")
    name, timeout = as_str(body.get("name")), body.get("timeout", DEFAULT_TIMEOUT_SECONDS)
    if len(name) > 100 or not name.isprintable():
        raise UsageError(f"{location}: give a name of at most 100 printable characters.")
    seconds = float(timeout) if isinstance(timeout, int | float | Decimal) and not isinstance(timeout, bool) else 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"{location}: timeout must be a number of seconds above 0.")
    directory = _directory(file, location, body["directory"]) if "directory" in body else None
    return Task(name, as_str(body.get("prompt")), as_str(body.get("check")), directory, seconds)


def _directory(file: Path, location: str, value: object) -> Path:
    path = (file.absolute().parent / path_of(as_str(value))).resolve()
    if not as_str(value) or not path.is_dir():
        raise UsageError(f"{location}: there is no directory {path}.")
    if path.joinpath(".git").is_file():
        raise UsageError(
            f"{location}: {path} is a linked worktree or a submodule: a copy of it would share the original's "
            "repository. Give a clone."
        )
    return path
