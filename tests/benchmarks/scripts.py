"""What the tool Script saves: `python -m tests.benchmarks.scripts` writes the table in docs/scripts.md.

Models that make no detour do twenty tasks, through the program and a provider on loopback: with one call a turn, with
as many calls a turn as can be made together, and with a script. Tokens are a quarter of the bytes of what was sent.
`--suite FOLDER` lays the tasks down for `python -m tests.eval --suite FOLDER --variable SAGENT_TOOLS=default,Script`.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal, TypeAlias, get_args

from sagent.lib.json import as_array, as_object, as_str
from sagent.testing.script import Call, Received
from sagent.testing.server import FakeProviderServer, Turn
from tests.benchmarks.clients import PYTHON, ROOT, provider_environment
from tests.benchmarks.script_tasks import Doing, Task, tasks

Way: TypeAlias = Literal["one call a turn", "calls together", "a script"]
PAGE = ROOT / "docs" / "scripts.md"
SHOWN = (
    "timeouts by file",
    "sum of a column",
    "rename in all",
    "a chain of files",
    "first red build",
    "one line",
    "one edit",
)
"""Tasks with a row of their own: one of each kind."""


@dataclass(frozen=True)
class Measured:
    """A run: whether the task was done, its requests, and tokens that were sent and written."""

    done: bool
    requests: int
    sent: int
    written: int


def doing(task: Task, way: Way) -> Doing:
    """What a model does, in one of the ways."""
    if way == "a script":
        (text,) = yield [Call("Script", {"code": task.script})]
        return text.strip()
    if way == "calls together":
        return (yield from task.singly())
    return (yield from _one_by_one(task.singly()))


def _one_by_one(inner: Doing) -> Doing:
    calls = next(inner)
    while True:
        texts: list[str] = []
        for call in calls:
            texts += yield [call]
        try:
            calls = inner.send(texts)
        except StopIteration as end:
            return str(end.value)


def model_of(steps: Generator[list[Call], list[str], str], written: list[int]) -> Callable[[Received], Turn]:
    """A model that carries it out, for a provider on loopback."""

    def answer(request: Received) -> Turn:
        last = as_object(as_array(request.json["messages"])[-1])
        blocks = [as_object(each) for each in as_array(last.get("content"))]
        texts = [_text(each.get("content")) for each in blocks if each.get("type") == "tool_result"]
        try:
            calls = steps.send(texts) if texts else next(steps)
        except StopIteration as end:
            written.append(len(str(end.value)))
            return Turn(text=str(end.value))
        written.append(sum(len(json.dumps(call.arguments)) + len(call.name) for call in calls))
        return Turn(calls=tuple(calls))

    return answer


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    return "".join(as_str(as_object(each).get("text")) for each in as_array(content))


def measure(task: Task, way: Way) -> Measured:
    """Have a model do a task in an empty folder."""
    written: list[int] = []
    with tempfile.TemporaryDirectory() as base:
        home, tree = Path(base, "home"), Path(base, "tree")
        home.mkdir()
        for path, text in task.files.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text)
        script = model_of(doing(task, way), written)
        with FakeProviderServer(script).in_thread() as server:
            argv = [PYTHON, "-m", "sagent", "--model", "anthropic/claude-sonnet-4-6", "--permission-mode", "edit"]
            argv += [
                "--output-format",
                "json",
                "--tools",
                "default,Script" if way == "a script" else "default",
                task.prompt,
            ]
            environment = provider_environment(server.url) | {"PYTHONPATH": str(ROOT), "HOME": str(home)}
            nothing = subprocess.DEVNULL
            done = subprocess.run(argv, cwd=tree, env=environment, capture_output=True, stdin=nothing, check=False)
            bodies = [len(json.dumps(request.json)) for request in server.requests]
        said = as_str(json.loads(done.stdout or b"{}").get("result")).strip()
        right = said == task.answer and all((tree / path).read_text() == text for path, text in task.after.items())
        if not right:
            print(f"{task.name}, {way}: {said!r}, expected {task.answer!r}; {done.stderr.decode()[-300:]}")
    return Measured(right, len(bodies), sum(bodies) // 4, sum(written) // 4)


def table(measured: dict[str, dict[Way, Measured]]) -> Iterator[str]:
    """The lines of the page's table."""
    ways = get_args(Way)
    yield f"| task | {' | '.join(f'{way}: requests, tokens sent' for way in ways)} |"
    yield "|---|" + "---:|" * len(ways)
    for name in SHOWN:
        each = measured[name]
        yield f"| {name} | {' | '.join(f'{each[way].requests}, {each[way].sent:,}' for way in ways)} |"
    every = list(measured.values())
    figures: Mapping[str, Callable[[Measured], int]] = {
        "requests": lambda one: one.requests,
        "tokens sent": lambda one: one.sent,
        "tokens written": lambda one: one.written,
    }
    for word, of in figures.items():
        medians = (f"{median(of(each[way]) for each in every):,.0f}" for way in ways)
        sums = (f"{sum(of(each[way]) for each in every):,}" for way in ways)
        yield f"| all: {word}, median and sum | {' | '.join(map(', '.join, zip(medians, sums, strict=True)))} |"
    yield f"| all: done | {' | '.join(f'{sum(each[way].done for each in every)} of {len(every)}' for way in ways)} |"


CHECK = """import sys
from pathlib import Path

lacks = [word for word in {answer!r}.split() if word not in Path(sys.argv[1]).read_text()]
lacks += [path for path, text in {after!r}.items() if Path(path).read_text() != text]
sys.exit(f"it lacks {{lacks}}" if lacks else 0)
"""


def lay(suite: Path) -> None:
    """Write the tasks as a suite of `make eval`."""
    for task in tasks():
        folder = suite / task.name.replace(" ", "-")
        for path, text in task.files.items():
            (folder / "files" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "files" / path).write_text(text)
        (folder / "prompt.txt").write_text(f"{task.prompt} The files are in {next(iter(task.files)).split('/')[0]}/.")
        answer = "" if task.after else task.answer
        (folder / "check.py").write_text(CHECK.format(answer=answer, after=dict(task.after)))


def main() -> None:
    """Measure and write."""
    if sys.argv[1:2] == ["--suite"]:
        lay(Path(sys.argv[2]))
        return
    measured = {task.name: {way: measure(task, way) for way in get_args(Way)} for task in tasks()}
    before, _, rest = PAGE.read_text("utf-8").partition("<!-- table -->")
    lines = "\n".join(table(measured))
    PAGE.write_text(f"{before}<!-- table -->\n{lines}\n<!-- end -->{rest.partition('<!-- end -->')[2]}", "utf-8")
    print(lines)


if __name__ == "__main__":
    main()
