"""The scripted advisor of `make eval`: its advice is right for every task, and a run says who was asked and why."""

import subprocess
from pathlib import Path

import pytest

from sagent.lib.json import JsonObject, json_freeze_object
from sagent.messages import ToolCall
from sagent.model import ToolSpec
from sagent.plugins.textcalls.blocks import read
from sagent.testing.server import Call, FakeProviderServer, Turn
from tests.depth import later
from tests.eval import harnesses
from tests.eval.advice import HINTS
from tests.eval.advising import advice_on, block_of
from tests.eval.checks import Work, contents
from tests.eval.recorder import Limits
from tests.eval.runs import Bench, measure
from tests.eval.suites import Say, Task
from tests.eval.tasks import TASKS

NAMED = {task.name: task for task in TASKS}
TOOLS = {
    name: ToolSpec(name, "", json_freeze_object({"type": "object", "properties": {key: {} for key in keys}}))
    for name, keys in (("Bash", ("command",)), ("Write", ("file_path", "content")))
}


def test_every_task_has_its_own_advice() -> None:
    assert [*HINTS] == [*NAMED]
    assert len({advice_on(task, "words") for task in TASKS}) == len(TASKS)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_advised_block_does_the_task(task: Task, tmp_path: Path) -> None:
    task.lay(tmp_path)
    before = contents(tmp_path)
    calls = [part for part in read(block_of(task), TOOLS, "end", "c") if isinstance(part, ToolCall)]
    assert calls
    said = [step.text for step in task.right if isinstance(step, Say)]
    for call in calls:
        arguments: JsonObject = call.arguments
        if call.name == "Write":
            (tmp_path / str(arguments["file_path"])).write_text(str(arguments["content"]), "utf-8")
        else:
            argv = ["bash", "-c", str(arguments["command"])]
            done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
            printed = done.stdout + done.stderr
            words = (word.strip(".`") for word in " ".join(said).split())
            assert not said or any(word in printed for word in words if len(word) > 3 or word.isdigit())
    assert task.judge(Work(tmp_path, before, "\n".join(said), said[-1] if said else "")) is None


@later
def test_run_with_advisor_tells_why_and_cost(tmp_path: Path) -> None:
    task = NAMED["edit-csv"]
    wrong, right = "item,price,count\nA-101,12.00,4\nB-204,9\n", task.files["stock.csv"].replace("B-204,15", "B-204,17")
    write = [Turn(calls=(Call("Write", {"file_path": "stock.csv", "content": text}),)) for text in (wrong, right)]
    steps = [Turn(calls=(Call("Read", {"file_path": "stock.csv"}),)), write[0], Turn(text="Done."), write[1]]
    script = [*steps, Turn(text="Now it is right.")]
    variables = {"SAGENT_ADVISOR_TRIGGERS": "done"}
    with FakeProviderServer(script, require_key=False, strict=False, repeat_last=True).in_thread() as server:
        bench = Bench(server.url, "fake-model", "own", Limits(seconds=120), tmp_path, "words", variables)
        row = measure(bench, harnesses.sagent(), task)
    assert [each.split()[:3] for each in row.consultations] == [["done", "answered", "adjust"]], row
    assert row.advisor_tokens > 100
    sent = (tmp_path / "fake-model" / "own" / "sagent" / "edit-csv" / "exchanges.jsonl").read_text()
    assert "C-330 has the same price" in sent
