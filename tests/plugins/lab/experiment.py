"""What the commands that make many runs are tested with: a place, what stays of runs, and an executor that hangs."""

import json
from collections.abc import Callable
from pathlib import Path

from sagent.testing.server import Received, Stall, Step, Turn
from tests.cli.program import Shell


def place(shell: Shell, tmp_path: Path, file: str, text: str) -> Shell:
    """With a project and a file of tasks; temporary files of runs have a place of their own."""
    project = shell.cwd / "project"
    project.mkdir()
    (project / "kept.txt").write_text("as it was")
    (shell.cwd / file).write_text(text)
    (tmp_path / "tmp").mkdir()
    shell.environment["TMPDIR"] = str(tmp_path / "tmp")
    return shell


def offered(request: Received) -> bool:
    """Whether the run may consult."""
    tools = request.json.get("tools")
    return isinstance(tools, list) and any(tool.get("name") == "advisor" for tool in tools if isinstance(tool, dict))


def hanging(play: Callable[[Received], Step]) -> tuple[Callable[[Received], Step], list[Received]]:
    """A script that hangs where the run may consult, and the requests at which it did."""
    stalled: list[Received] = []

    def script(request: Received) -> Step:
        if offered(request):
            stalled.append(request)
            return Stall(Turn(text="Hm."), after_events=3, seconds=float("inf"))
        return play(request)

    return script, stalled


def left(shell: Shell) -> list[str]:
    """What runs have left behind."""
    return [path.name for path in Path(shell.environment["TMPDIR"]).iterdir() if path.name.startswith("sagent-bench-")]


def runs(shell: Shell) -> list[dict[str, object]]:
    """The lines of the runs that are kept."""
    return [json.loads(line) for line in (shell.cwd / "out" / "runs.jsonl").read_text().splitlines()]
