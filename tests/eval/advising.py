"""A scripted advisor that knows each task: a fake provider that answers as a strong model would."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, TypeAlias, assert_never

from sagent.lib.text import fenced
from sagent.testing.server import FakeProviderServer, Received, Turn
from tests.eval.advice import HINTS
from tests.eval.checks import Work
from tests.eval.suites import AnyTask, Edit, Say, Task, Write

MODEL = "claude-opus-4-6"
PROCEED = "VERDICT: proceed"
FORMS = ("words", "block")
Form: TypeAlias = Literal["words", "block"]


@contextmanager
def advising(task: AnyTask, work: Callable[[], Work], form: Form) -> Iterator[Mapping[str, str]]:
    """Yield variables that lead sagent to an advisor: it says "proceed" if the task is done, and else how to do it."""

    def choose(_: Received) -> Turn:
        assert isinstance(task, Task), "tasks of a folder have no advice"
        return Turn(text=PROCEED if task.judge(work()) is None else advice_on(task, form))

    with FakeProviderServer(choose, models=(MODEL,), strict=False).in_thread() as server:
        named = {"SAGENT_ADVISORS": f"anthropic/{MODEL}"}
        yield {**named, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "none"}


def advice_on(task: Task, form: Form) -> str:
    """Return what is said of a task that is not done, with the next step in words or as the block to write."""
    hint = HINTS[task.name]
    step = hint.next if form == "words" else f"write exactly this:\n\n{block_of(task)}"
    return f"VERDICT: adjust\nGAP: {hint.gap}\nNEXT: {step}"


def block_of(task: Task) -> str:
    """Return the next step of a task as blocks of the text protocol: its command, or the files of its right way."""
    if command := HINTS[task.name].command:
        return fenced(command, "bash")
    files: dict[str, str] = {}
    for step in task.right:
        match step:
            case Edit(path, old, new):
                files[path] = files.get(path, task.files.get(path, "")).replace(old, new)
            case Write(path, text):
                assert text is not None, f"{task.name} needs a command: a block cannot delete {path}"
                files[path] = text
            case Say():
                pass
            case _:
                assert_never(step)
    return "\n\n".join(f"{path}\n{fenced(text.rstrip())}" for path, text in files.items())
