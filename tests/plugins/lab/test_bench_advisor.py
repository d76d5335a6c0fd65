"""`sagent bench-advisor`: tasks with and without an advisor, as real runs of the program."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from experiment import hanging, left, offered, place, runs

from sagent.cli.main import run
from sagent.testing.server import Call, Fail, FakeProviderServer, Received, Stall, Step, Turn, Usage
from tests.cli.program import Shell
from tests.depth import later, slow
from tests.waiting import wait_until

EXECUTOR, ADVISOR = "claude-sonnet-4-6", "claude-opus-4-6"
BENCH = (
    "bench-advisor", "tasks.toml", "--executor", f"anthropic/{EXECUTOR}", "--advisor", f"anthropic/{ADVISOR}",
    "--advisor-mode", "client",
)  # fmt: skip
TASKS = """
[[tasks]]
name = "write"
prompt = "Write a.txt."
directory = "project"
check = "grep -q done a.txt && test -f kept.txt && cmp kept.txt \\"$TASKFILE_DIR/project/kept.txt\\""
"""
USAGE = Usage(input=1_000, output=100)


def helpful(request: Received) -> Step:
    """An executor that writes the file only when it is advised to."""
    if request.json["model"] == ADVISOR:
        return Turn(text="VERDICT: adjust\nNEXT: write the file", usage=USAGE)
    done = json.dumps(request.json["messages"]).count('"tool_result"')
    if offered(request) and done == 0:
        return Turn(text="Hm.", calls=(Call("advisor", {}),), usage=USAGE)
    if offered(request) and done == 1:
        return Turn(text="So.", calls=(Call("Write", {"file_path": "a.txt", "content": "done"}),), usage=USAGE)
    return Turn(text="Done.", usage=USAGE)


@pytest.fixture
def bench(shell: Shell, tmp_path: Path) -> Shell:
    return place(shell, tmp_path, "tasks.toml", TASKS)


def test_tasks_run_with_and_without_advisor(bench: Shell) -> None:
    server = bench.serve(helpful)
    done = bench.run(*BENCH, "--repeats", "2", "--out", "out", "--log-level", "info", model="")
    assert done.code == 0, done.err
    for words in (
        "write  without  0/2",
        "write  with     2/2",
        "+100 points (",
        "2 pairs, p = 0.5: no clear difference",
        "consultations  2 in 2 of 2 runs, 0.33 per turn: 2 answered, 0 declined, 0 failed; 0 withheld; $0.015000",
        "How: ",
    ):
        assert words in done.out
    assert [line.split(":")[0] for line in done.err.splitlines()] == [
        "run 1 of 4, write 1 without",
        "run 2 of 4, write 1 with",
        "run 3 of 4, write 2 with",
        "run 4 of 4, write 2 without",
    ]
    assert sorted(path.name for path in (bench.cwd / "project").iterdir()) == ["kept.txt"]
    assert left(bench) == []
    per = {True: 0.0045 * 3 + 0.0075, False: 0.0045}
    for line in runs(bench):
        assert float(str(line["usd"])) == pytest.approx(per[line["arm"] == "with"])
    asked = len(server.requests)
    again = bench.run(*BENCH, "--repeats", "2", "--out", "out", model="")
    assert (again.code, again.out, again.err) == (0, done.out, "")
    assert len(server.requests) == asked
    told = bench.run("advice", str(runs(bench)[1]["session"]), model="")
    assert "1 answered" in told.out


@later
def test_json_output_and_parallel_runs(bench: Shell) -> None:
    bench.serve(helpful)
    (bench.cwd / "tasks.jsonl").write_text(
        "".join(json.dumps({"name": name, "prompt": "?", "check": "test -f a.txt"}) + "\n" for name in ("a", "b", "c"))
    )
    done = bench.run("bench-advisor", "tasks.jsonl", *BENCH[2:], "--repeats", "2", "--jobs", "4", "--json", model="")
    assert (done.code, done.err) == (0, "")
    found = done.json
    assert (found["planned"], found["missing"], found["stopped"]) == (12, 0, None)
    assert len(found["runs"]) == 12  # pyright: ignore[reportArgumentType]
    arms, differences = found["arms"], found["differences"]
    assert isinstance(arms, dict)
    assert isinstance(differences, dict)
    assert (arms["with"]["solved"], arms["without"]["solved"]) == (6, 0)
    assert arms["with"]["consult_rate"] == pytest.approx(1 / 3)
    assert (differences["solved"]["told"], differences["solved"]["p"]) == (True, 2 / 2**6)
    assert differences["turns"] == {"pairs": 6, "mean": 2.0, "interval": [2.0, 2.0], "told": True, "p": 2 / 2**6}
    assert left(bench) == []


@later
def test_broken_run_counted_apart_and_retried(bench: Shell) -> None:
    down = True

    def script(request: Received) -> Step:
        if down and request.json["model"] == ADVISOR:
            return Fail(401, message="no such key")
        if down and not offered(request):
            return Fail(400, message="broken")
        return helpful(request)

    bench.serve(script)
    done = bench.run(*BENCH, "--out", "out", model="")
    assert done.code == 1
    for words in (
        "without: 1 failed (not the task's doing); counted neither as solved nor as unsolved",
        "with: 1 failed",
        "no consultation was answered: its provider does not accept the key",
        "2 still to be made",
        "no clear difference: no pairs",
    ):
        assert words in done.out
    assert "unsolved" not in [line["outcome"] for line in runs(bench)]
    down = False
    done = bench.run(*BENCH, "--out", "out", model="")
    assert done.code == 0, done.err
    assert "failed (not" not in done.out
    assert [line["outcome"] for line in runs(bench)] == ["failed", "failed", "unsolved", "solved"]


def test_repeated_failure_stops(bench: Shell) -> None:
    server = bench.serve(lambda request: Fail(401, message="no such key"))
    done = bench.run(*BENCH, "--repeats", "5", model="")
    assert done.code == 1
    assert "3 runs in a row failed" in done.err
    assert len(server.requests) == 3


@later
def test_total_never_passed(bench: Shell) -> None:
    server = bench.serve(helpful, bill="worst")
    caps = ("--max-budget-usd", "0.60", "--max-response-tokens", "4000", "--out", "out", "--repeats", "20")
    done = bench.run(*BENCH, *caps, "--jobs", "3", "--max-total-usd", "2.00", model="")
    assert done.code == 3, done.err
    assert "stopped before the end" in done.err
    assert "and the next run may cost $0.60" in done.err
    found = runs(bench)
    spent = sum(float(str(line["usd"])) for line in found)
    prices = {EXECUTOR: (3, 15), ADVISOR: (5, 25)}
    billed = sum(
        (charge.usage.total_input * prices[charge.model][0] + charge.usage.output * prices[charge.model][1]) / 1e6
        for charge in server.charges
    )
    assert 1.4 < spent <= 2.0
    assert billed <= spent + 1e-9
    asked = len(server.requests)
    assert bench.run(*BENCH, *caps, "--max-total-usd", "2.00", model="").code == 3
    assert len(server.requests) == asked


def test_budget_end_is_not_failure(bench: Shell) -> None:
    bench.serve(helpful, bill="worst")
    done = bench.run(*BENCH, "--max-budget-usd", "0.000001", "--out", "out", model="")
    assert done.code == 0, done.err
    assert "without: 1 ended by the budget" in done.out and "neither as solved nor as unsolved" in done.out
    assert {line["outcome"] for line in runs(bench)} == {"budget"}


@later
def test_timeout_still_checked(bench: Shell, processes: Callable[[str], list[int]]) -> None:
    marker = f"4242.{os.getpid()}"
    bench.serve(lambda request: Stall(Turn(text="Hm."), seconds=float("inf")))
    (bench.cwd / "tasks.toml").write_text(
        "[[tasks]]\nname='a'\nprompt='?'\ncheck='true'\ntimeout=0.3\n"
        f"[[tasks]]\nname='b'\nprompt='?'\ncheck='sleep {marker} & sleep {marker}'\ntimeout=0.3\n"
    )
    done = bench.run(*BENCH, "--out", "out", model="")
    assert done.code == 0, done.err
    found = {(line["task"], line["arm"]): (line["outcome"], line["stop"], line["check"]) for line in runs(bench)}
    for arm in ("with", "without"):
        assert found["a", arm] == ("solved", "timeout", 0)
        assert found["b", arm] == ("unsolved", "timeout", None)
    assert processes(f"sleep\0{marker}") == []


@later
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=slow)])
def test_interrupt_ends_bench_with_table(bench: Shell, number: int, code: int) -> None:
    script, stalled = hanging(helpful)
    bench.serve(script)
    child = bench.start(*BENCH, "--out", "out", "--repeats", "2", model="")
    wait_until(lambda: stalled)
    child.send_signal(number)
    out, err = (text.decode() for text in child.communicate(timeout=60))
    assert child.returncode == code, err
    assert "write  without  0/1" in out
    assert "with: 1 interrupted" in out
    assert "interrupted;" in err and "run the same command again" in err
    assert "Traceback" not in err
    assert left(bench) == []
    assert [line["outcome"] for line in runs(bench)] == ["unsolved", "interrupted"]
    bench.serve(helpful)
    done = bench.run(*BENCH, "--out", "out", "--repeats", "2", model="")
    assert (done.code, "write  with     2/2" in done.out) == (0, True), done.err


@later
def test_killed_run_counts_full_budget(bench: Shell) -> None:
    script, stalled = hanging(helpful)
    bench.serve(script)
    caps = ("--out", "out", "--max-budget-usd", "0.50")
    child = bench.start(*BENCH, *caps, model="")
    wait_until(lambda: stalled)
    child.kill()
    child.communicate()
    assert len(left(bench)) == 1
    with (bench.cwd / "out" / "runs.jsonl").open("a") as file:
        file.write('{"task": "wri')
    server = bench.serve(helpful)
    done = bench.run(*BENCH, *caps, "--max-total-usd", "0.70", model="")
    assert done.code == 3, done.err
    assert "and the next run may cost $0.50" in done.err
    assert (server.requests, left(bench)) == ([], [])
    done = bench.run(*BENCH, *caps, "--max-total-usd", "1.50", model="")
    assert done.code == 0, done.err
    assert [line["outcome"] for line in runs(bench)] == ["unsolved", "solved"]


def test_invalid_bench_spends_nothing(
    bench: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = bench.serve(helpful)
    monkeypatch.chdir(bench.cwd)
    for name, value in bench.environment.items():
        monkeypatch.setenv(name, value)
    (bench.cwd / "nothing.toml").write_text("")
    for argv, says in (
        (("bench-advisor", "gone.toml"), "the tasks cannot be read"),
        (("bench-advisor", "nothing.toml"), "has no tasks"),
        (BENCH[:4], "No advisor to measure: give --advisor"),
        ((*BENCH[:2], *BENCH[4:]), "No model to do the work"),
        ((*BENCH, "--model", "a/b"), "--executor and --model are the same"),
        ((*BENCH, "--repeats", "0"), "--repeats 0: give a whole number"),
        ((*BENCH, "--max-total-usd", "1"), "give --max-budget-usd too"),
        ((*BENCH, "--max-total-usd", "x"), "give USD as a number above 0"),
        ((*BENCH, "--max-total-usd", "1", "--max-budget-usd", "2"), "no run could start"),
        ((*BENCH[:4], "--advisor", "openai/gpt-5.5"), "--advisor advisor=openai/gpt-5.5"),
        ((*BENCH[:4], "--advisor", "anthropic/unheard-of", "--max-budget-usd", "1"), "has no known price"),
        ((*BENCH, "--out", "project/out"), "lies inside the directory of task 'write'"),
        ((*BENCH, "--out", "."), "it has other files in it"),
        ((*BENCH, "--cwd", "x"), "unrecognized arguments: --cwd"),
        (("bench-advisor",), "TASKFILE"),
    ):
        code, (out, err) = run(list(argv)), capsys.readouterr()
        assert (code, out) == (2, ""), (argv, err)
        assert says in err, err
    assert server.requests == []
    assert left(bench) == []


@later
def test_config_file_names_two_families(bench: Shell) -> None:
    advised: list[str] = []

    def advise(request: Received) -> Step:
        advised.append(request.path)
        return (
            helpful(request)
            if request.json["model"] == ADVISOR
            else Turn(text="VERDICT: proceed\nNEXT: write", usage=USAGE)
        )

    with FakeProviderServer(advise).in_thread() as other:
        bench.serve(helpful)
        (bench.cwd / "mine.yaml").write_text(
            f"executor: anthropic/{EXECUTOR}\n"
            f"advisor: {{model: openai-compatible/wise, api_base: '{other.url}/v1', api_key: k}}\n"
        )
        done = bench.run("bench-advisor", "tasks.toml", "--config", "mine.yaml", "--out", "out", model="")
    assert done.code == 0, done.err
    assert "write  with     1/1" in done.out
    assert "unknown" in next(line for line in done.out.splitlines() if line.startswith("cost, $"))
    assert advised == ["/v1/chat/completions"]
