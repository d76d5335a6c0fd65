"""A run in a worktree: `sagent --worktree [NAME]`."""

import signal
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TextIO

from sagent.cli.render import JsonRenderer, Renderer, StreamRenderer, binary_safe, renderer_for, report
from sagent.config import Settings
from sagent.errors import UsageError
from sagent.events import Result
from sagent.lib.json import as_array, json_dump
from sagent.lib.text import count, escaped
from sagent.plugins.worktrees.preparation import Preparation
from sagent.plugins.worktrees.record import NAME, Record, Repository, find_record, holding, repository_at
from sagent.plugins.worktrees.snapshot import changes, snapshot
from sagent.plugins.worktrees.worktree import described, diff, made, merge, outcome, remove, repair, ways
from sagent.transcript.event_json import encode_result

_CHOICES = {"d": "diff", "m": "merge", "k": "keep", "x": "drop"}


def run_in_worktree(options: Mapping[str, object], flags: Mapping[str, object], words: list[str] | None) -> int:
    """Run in a worktree and return the exit code. Raises UsageError."""
    from sagent.cli.settings import load_or_report, load_settings

    name = str(options.get("worktree") or "")
    images = [*map(str, as_array(flags.get("image")))]
    flags = {key: value for key, value in flags.items() if key != "image"}
    if name and not NAME.fullmatch(name):  # a prompt after a flag without a name
        name, words = "", [name, *(words or ())]
    settings = load_settings(flags) if words is None else load_or_report(flags)
    repository = repository_at(settings.cwd, settings.state_dir)
    for text in repair(repository):
        report(text)
    with _opened(repository, name, settings) as record:
        moved = _moved(settings, record)
        try:
            if words is None:
                return _talk(moved, flags, record)
            from sagent.cli.headless import run_headless

            renderer = _renderer_for(moved, record)
            return run_headless(moved, words, images, renderer)
        except UsageError as error:
            if name and not words and str(error).startswith("Nothing to do"):
                taken = f"`{name}` was read as the name of a worktree; without a name, the flag stands last"
                raise UsageError(f'{error} ({taken}: sagent "{name}" --worktree)') from error
            raise
        finally:
            if words is not None:
                settle(record)


@contextmanager
def _opened(repository: Repository, name: str, settings: Settings) -> Generator[Record]:
    """Hold an existing worktree, or a new one. Raises UsageError."""
    if name and repository.record_file(name).exists():
        record = find_record(repository, name)
        with holding(record):
            report(f"Continues in the worktree {name} ({record.path}): {outcome(record)}.")
            yield record.write("working")
        return
    preparation = Preparation.of(settings)
    with ExitStack() as stack:
        with _ended_in_order():
            record = stack.enter_context(made(repository, name, "run", preparation))
        _tell(record, takes_changes=preparation.takes_changes)
        yield record


@contextmanager
def _ended_in_order() -> Generator[None]:
    """Have SIGTERM and SIGHUP end this process in order while the block lasts, where they would end it at once."""

    def end(number: int, frame: object) -> None:
        del frame
        raise SystemExit(128 + number)

    numbers = (signal.SIGTERM, signal.SIGHUP) if threading.current_thread() is threading.main_thread() else ()
    taken = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _tell(record: Record, *, takes_changes: bool) -> None:
    """Say where work begins, and what is not there."""
    root = record.root
    report(f"Works in the worktree {record.name}, on the branch {record.branch}: {record.path}")
    if not takes_changes and (here := snapshot(root, record.head)) != record.head:
        left = count(len(changes(root, record.head, here)), "file")
        report(f"Your uncommitted changes ({left}) are not in it; --worktree-changes take takes them along.")


def _moved(settings: Settings, record: Record) -> Settings:
    """Return the settings of a run in a worktree, in the same folder of it, whatever a project's file wishes."""
    inside = record.path / settings.cwd.resolve().relative_to(record.root.resolve())
    inside.mkdir(parents=True, exist_ok=True)  # it may have no committed file
    wish = settings.wish and replace(settings.wish, granted=replace(settings.wish.granted, cwd=inside))
    return replace(settings, cwd=inside, wish=wish)


def settle(record: Record) -> None:
    """Drop a worktree without changes, and keep another; say which."""
    report(settled(record))


def settled(record: Record) -> str:
    """Drop a worktree without changes, and keep another; return which."""
    try:
        done = outcome(record)
        if done.is_empty:
            remove(record)
            return f"The worktree {record.name} has no changes and is dropped."
        record.write("kept")
        return f"The worktree {record.name} is kept: {done}. {ways(record)}"
    except UsageError as error:
        return f"The worktree {record.name} stays: {error}"


class RunPlace:
    """A worktree for a run of another plugin, held until `finish`: one that exists, or a new one, with the name of its
    own if `name` is "". `settings` are those of the run in it. Raises UsageError."""

    def __init__(self, name: str, settings: Settings) -> None:
        repository = repository_at(settings.cwd, settings.state_dir)
        for text in repair(repository):
            report(text)
        with ExitStack() as stack:
            self._record = stack.enter_context(_opened(repository, name, settings))
            self.name, self.settings = self._record.name, _moved(settings, self._record)
            self._stack = stack.pop_all()

    @staticmethod
    def is_name(text: str) -> bool:
        """Return False for a word after the flag that is the beginning of a prompt."""
        return NAME.fullmatch(text) is not None

    def finish(self) -> str:
        """Drop it if it has no changes, else keep it; return which."""
        with self._stack:
            return settled(self._record)


def _renderer_for(settings: Settings, record: Record) -> Renderer:
    out, err = binary_safe(sys.stdout), binary_safe(sys.stderr)
    match settings.output_format:
        case "json":
            return _NamingJson(record, out, err)
        case "stream-json":
            return _NamingStream(record, out)
        case _:
            return renderer_for(settings, out, err)


def _with_worktree(result: Result, record: Record) -> dict[str, object]:
    done = outcome(record)
    found = {"kept": not done.is_empty, **described(replace(record, state="kept"), done)}
    return {**encode_result(result), "worktree": found}


class _NamingJson(JsonRenderer):
    """Names the worktree in the result."""

    def __init__(self, record: Record, out: TextIO, err: TextIO) -> None:
        super().__init__(out, err)
        self._record, self._stream = record, out

    def on_result(self, result: Result) -> None:
        self._stream.write(escaped(json_dump(_with_worktree(result, self._record))) + "\n")
        self._stream.flush()


class _NamingStream(StreamRenderer):
    """Names the worktree in each result."""

    def __init__(self, record: Record, out: TextIO) -> None:
        super().__init__(out)
        self._record = record

    def on_result(self, result: Result) -> None:
        line = {"type": "result", "agent": "root", **_with_worktree(result, self._record)}
        self._lines.append(escaped(json_dump(line)))
        self.flush()


def _talk(settings: Settings, flags: Mapping[str, object], record: Record) -> int:
    """Talk to a person in a worktree, and ask them at the end what becomes of it."""
    import asyncio

    from sagent.cli.interactive import open_in_terminal, plain_lines

    run = plain_lines(flags, lambda: settings)
    if run is None:
        from sagent.repl.front import run_repl as run
    code = asyncio.run(run(lambda: settings, open_in_terminal, choosing=flags.get("resume") == ""))
    ask_what_becomes(record)
    return code


def ask_what_becomes(record: Record) -> None:
    """Ask what becomes of a worktree, until there is an answer; without one it is kept."""
    try:
        record = find_record(Repository(record.root, record.path.parent), record.name)  # /worktree merge changes it
        done = outcome(record)
        while not done.is_empty and sys.stdin.isatty():
            sys.stderr.write(f"\nThe worktree {record.name} has {done}.\n[d]iff, [m]erge, [k]eep, [x] drop? ")
            sys.stderr.flush()
            if not (line := sys.stdin.readline()):
                break
            match _CHOICES.get(line.strip().lower()[:1], line.strip().lower()):
                case "diff":
                    sys.stdout.buffer.write(diff(record))
                    sys.stdout.flush()
                case "merge":
                    merge_and_remove(record)
                    return
                case "drop":
                    remove(record)
                    report(f"The worktree {record.name} is dropped.")
                    return
                case "keep":
                    break
                case _:
                    pass
    except UsageError as error:
        report(str(error))
    except (OSError, KeyboardInterrupt):  # nobody answers
        pass
    settle(record)


def merge_and_remove(record: Record) -> None:
    """Merge a worktree and remove it, and say so. Raises UsageError."""
    done = merge(record)
    remove(record)
    report(f"The worktree {record.name} is merged into {record.root}: {done}.")
