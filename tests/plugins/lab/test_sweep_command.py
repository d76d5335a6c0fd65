"""`sagent sweep`: a grid of settings, as real runs of the program."""

import csv
import io
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from experiment import hanging, left, offered, place, runs

from sagent.cli.main import run
from sagent.testing.server import Call, Fail, FakeProviderServer, Received, Stall, Step, Turn, Usage
from tests.cli.program import Shell
from tests.depth import later, slow
from tests.waiting import wait_until

SMALL, LARGE, WISE = "claude-haiku-4-5", "claude-sonnet-4-6", "claude-opus-4-6"
PRICES = {SMALL: (1, 5), LARGE: (3, 15), WISE: (5, 25)}  # USD per million tokens
USAGE = Usage(input=1_000, output=100)
TASKS = """
[[task]]
name = "write"
prompt = "Write a.txt."
directory = "project"
check = "grep -q done a.txt && cmp kept.txt \\"$TASKFILE_DIR/project/kept.txt\\""
"""
GRID = f"""
max_total_usd = 5
max_budget_usd = 0.50
[grid]
model = ["anthropic/{SMALL}", "anthropic/{LARGE}"]
effort = ["low", "high"]
advisor = ["none", "anthropic/{WISE}"]
advisor_mode = "client"
"""
CELL = "model=anthropic/{} effort={} advisor={}"


def able(request: Received) -> Step:
    """An executor that writes the file when it is advised to, or where it is large and makes an effort."""
    if request.json["model"] == WISE:
        return Turn(text="VERDICT: adjust\nNEXT: write the file", usage=USAGE)
    done = json.dumps(request.json["messages"]).count('"tool_result"')
    hard = request.json["model"] == LARGE and '"high"' in json.dumps(request.json)
    if offered(request) and done == 0:
        return Turn(text="Hm.", calls=(Call("advisor", {}),), usage=USAGE)
    if done == int(offered(request)) and (offered(request) or hard):
        return Turn(text="So.", calls=(Call("Write", {"file_path": "a.txt", "content": "done"}),), usage=USAGE)
    return Turn(text="Done.", usage=USAGE)


def billed(server: FakeProviderServer) -> float:
    """What the server has counted, in USD."""
    return sum(
        (charge.usage.total_input * PRICES[charge.model][0] + charge.usage.output * PRICES[charge.model][1]) / 1e6
        for charge in server.charges
    )


@pytest.fixture
def sweep(shell: Shell, tmp_path: Path) -> Shell:
    return place(shell, tmp_path, "spec.toml", GRID + TASKS)


def result(shell: Shell, place: str = "out") -> dict[str, object]:
    """The figures that are kept."""
    return json.loads((shell.cwd / place / "result.json").read_text())


def cells(found: dict[str, object]) -> dict[str, dict[str, object]]:
    """Its cells, by their names."""
    rows = found["cells"]
    assert isinstance(rows, list)
    return {row["name"]: row for row in rows}


def test_grid_of_two_by_two_by_two(sweep: Shell) -> None:
    server = sweep.serve(able)
    done = sweep.run("sweep", "spec.toml", "--output", "out", model="")
    assert done.code == 0, done.err
    assert done.err.splitlines()[0] == "8 cells × 1 task × 1 repeat = 8 runs"
    assert "worst case: $4.00 (max_total_usd = 5)" in done.err
    assert "run 8 of 8, write 1 " in done.err
    found = result(sweep)
    assert (found["kind"], found["planned"], found["missing"], found["stopped"]) == ("sweep", 8, 0, None)
    rows = cells(found)
    solved = {name for name, row in rows.items() if row["passed"] == 1}
    assert solved == {
        CELL.format(LARGE, "high", "none"),
        *(CELL.format(model, effort, f"anthropic/{WISE}") for model in (SMALL, LARGE) for effort in ("low", "high")),
    }
    one = rows[CELL.format(LARGE, "high", "none")]
    assert one["usd_total"] == pytest.approx(2 * 0.0045)
    assert (one["turns_mean"], one["tokens_in_mean"], one["tokens_out_mean"]) == (2, 2_000, 200)
    assert (one["model"], one["advisors"], one["pass_rate"]) == (f"anthropic/{LARGE}", [], 1)
    assert {name for name, row in rows.items() if row["front"]} == {CELL.format(LARGE, "high", "none")}
    assert found["spent_usd"] == pytest.approx(billed(server))
    lines = done.out.splitlines()
    assert lines[0] == "runs   8 of 8"
    assert lines[4].split()[:6] == ["*", "1/1", "100%", "(21%", "to", "100%)"]
    assert lines[4].endswith(CELL.format(LARGE, "high", "none"))
    assert sorted(path.name for path in (sweep.cwd / "project").iterdir()) == ["kept.txt"]
    assert left(sweep) == []
    asked = len(server.requests)
    again = sweep.run("sweep", "spec.toml", "--output", "out", model="")
    assert (again.code, again.out) == (0, done.out)
    assert "kept in out; 8 runs are made" in again.err
    assert len(server.requests) == asked


@later
def test_excluded_cells_skipped(sweep: Shell) -> None:
    server = sweep.serve(able)
    rows = f'[[exclude]]\nadvisor = "anthropic/{WISE}"\n[[exclude]]\neffort = "low"\nmodel = "anthropic/{LARGE}"\n'
    (sweep.cwd / "spec.toml").write_text(GRID + rows + TASKS)
    done = sweep.run("sweep", "spec.toml", "--output", "out", "--output-format", "csv", model="")
    assert done.code == 0, done.err
    found = {row["cell"]: row for row in csv.DictReader(io.StringIO(done.out))}
    assert set(found) == {
        CELL.format(SMALL, "low", "none"), CELL.format(SMALL, "high", "none"), CELL.format(LARGE, "high", "none"),
    }  # fmt: skip
    assert not any(offered(request) for request in server.requests)
    told = sweep.run("sweep", "spec.toml", "--output", "out", "--output-format", "markdown", model="").out.splitlines()
    assert told[0].startswith("|  | passed | rate (interval) | cost, $ |")
    assert told[2].startswith("| \\* | 1/1 |")
    (sweep.cwd / "spec.toml").write_text(f"repeats = 2\n{GRID}{rows}{TASKS}")  # more runs of the same cells are welcome
    more = sweep.run("sweep", "spec.toml", "--output", "out", "--output-format", "json", model="")
    assert (more.code, more.json["planned"], more.json["missing"]) == (0, 6, 0)
    assert len(runs(sweep)) == 6
    assert more.json == result(sweep)


def test_dry_run_shows_grid_and_spends_nothing(sweep: Shell) -> None:
    server = sweep.serve(able)
    (sweep.cwd / "spec.toml").write_text(GRID.replace("max_total_usd = 5", "max_total_usd = 1\njobs = 3") + TASKS)
    done = sweep.run("sweep", "spec.toml", "--dry-run", model="")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0] == "8 cells × 1 task × 1 repeat = 8 runs, 3 at a time"
    assert done.out.splitlines()[-1] == "worst case: $1 (max_total_usd = 1)"
    found = sweep.run("sweep", "spec.toml", "--dry-run", "--output-format", "json", model="").json
    assert (found["planned"], found["worst_usd"]) == (8, 1)
    assert server.requests == []
    assert sorted(path.name for path in sweep.cwd.iterdir()) == ["project", "spec.toml"]


@later
def test_budget_exact_with_three_workers(sweep: Shell) -> None:
    def endless(request: Received) -> Step:
        """What goes on until its budget ends it."""
        said = str(len(json.dumps(request.json["messages"])))  # the same for ever would be stopped
        return Turn(text="On.", calls=(Call("Write", {"file_path": "b.txt", "content": said}),), usage=USAGE)

    server = sweep.serve(endless, bill="worst")
    (sweep.cwd / "spec.toml").write_text(
        "repeats = 9\njobs = 3\n"
        + GRID.replace("max_total_usd = 5", "max_total_usd = 1.00").replace("0.50", "0.20")
        + "max_response_tokens = 2000\n"
        + TASKS
    )
    done = sweep.run("sweep", "spec.toml", "--output", "out", model="")
    assert done.code == 3, done.err
    assert "stopped before the end: " in done.err
    assert "and the next run may cost $0.2" in done.err
    assert "sagent sweep spec.toml --output out" in done.err
    found = result(sweep)
    assert 0.80 < billed(server) <= 1.0
    assert found["spent_usd"] == pytest.approx(billed(server), abs=0.005)
    assert isinstance(found["spent_at_most_usd"], float)
    assert billed(server) - 1e-9 <= found["spent_at_most_usd"] <= 1.0
    asked = len(server.requests)
    assert sweep.run("sweep", "spec.toml", "--output", "out", model="").code == 3
    assert len(server.requests) == asked


@later
def test_killed_sweep_resumes_within_total(sweep: Shell) -> None:
    asked: list[Received] = []

    def script(request: Received) -> Step:
        asked.append(request)
        return Stall(Turn(text="Hm."), after_events=3) if len(asked) > 9 else able(request)

    server = sweep.serve(script, bill="worst")
    text = "jobs = 2\n" + GRID.replace("0.50", "0.30").replace("= 5", "= 2.20") + TASKS
    (sweep.cwd / "spec.toml").write_text(text.replace("[grid]", "[grid]\nmax_response_tokens = 2000"))
    child = sweep.start("sweep", "spec.toml", "--output", "out", model="")
    wait_until(lambda: len(asked) >= 11)
    before = runs(sweep)
    assert len(before) >= 2
    assert len(cells(result(sweep))) == 8  # whole, whenever it is looked at
    child.kill()
    child.communicate()
    first = billed(server)
    assert len(left(sweep)) == 1
    with (sweep.cwd / "out" / "runs.jsonl").open("a") as file:
        file.write('{"task": "wri')
    server = sweep.serve(able, bill="worst")
    done = sweep.run("sweep", "spec.toml", "--output", "out", model="")
    assert done.code in (0, 3), done.err
    after = runs(sweep)
    assert after[: len(before)] == before
    keys = [(line["task"], line["arm"], line["number"]) for line in after if line["outcome"] != "failed"]
    assert len(keys) == len(set(keys))
    found = result(sweep)
    assert isinstance(found["spent_at_most_usd"], float)
    assert first + billed(server) <= found["spent_at_most_usd"] + 1e-9 <= 2.20 + 1e-9
    assert left(sweep) == []


@later
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=slow)])
def test_interrupt_says_how_to_resume(sweep: Shell, number: int, code: int) -> None:
    script, stalled = hanging(able)
    sweep.serve(script)
    child = sweep.start("sweep", "spec.toml", "--output", "out", model="")
    wait_until(lambda: stalled)
    child.send_signal(number)
    out, err = (text.decode() for text in child.communicate(timeout=60))
    assert child.returncode == code, err
    assert "interrupted" in err and "sagent sweep spec.toml --output out" in err
    assert "1 interrupted" in out
    assert "Traceback" not in err
    assert left(sweep) == []
    assert result(sweep)["stopped"] == "interrupted"
    made = sum(line["outcome"] != "interrupted" for line in runs(sweep))
    sweep.serve(able)
    done = sweep.run("sweep", "spec.toml", "--output", "out", model="")
    assert (done.code, f"kept in out; {made} runs are made" in done.err) == (0, True), done.err
    assert len(runs(sweep)) == 8 + 1


@later
def test_killed_sweep_ends_checks(sweep: Shell, processes: Callable[[str], list[int]]) -> None:
    marker = f"4343.{os.getpid()}"
    sweep.serve(able)
    (sweep.cwd / "spec.toml").write_text(
        GRID + f'[[task]]\nname = "slow"\nprompt = "?"\ncheck = "sleep {marker} & sleep {marker}"\n'
    )
    child = sweep.start("sweep", "spec.toml", "--output", "out", model="")
    wait_until(lambda: len(processes(f"sleep\0{marker}")) == 2)
    child.kill()
    child.communicate()
    wait_until(lambda: processes(f"sleep\0{marker}") == [])


@later
def test_unreachable_provider_stops(sweep: Shell) -> None:
    server = sweep.serve(lambda request: Fail(401, message="no such key"))
    done = sweep.run("sweep", "spec.toml", "--output", "out", model="")
    assert done.code == 1
    assert "3 runs in a row failed" in done.err
    assert len(server.requests) == 3
    assert result(sweep)["missing"] == 8


@later
def test_changed_spec_refused_with_reason(sweep: Shell) -> None:
    server = sweep.serve(able)
    few = GRID.replace(f', "anthropic/{LARGE}"', "").replace(f', "anthropic/{WISE}"', "")
    (sweep.cwd / "spec.toml").write_text(few + TASKS)
    assert sweep.run("sweep", "spec.toml", model="").code == 0
    asked = len(server.requests)
    cases = (
        (
            few.replace("0.50", "0.40"),
            TASKS,
            'were made with max_budget_usd = "0.50", not with max_budget_usd = "0.40"',
        ),
        (few.replace("[grid]", "[grid]\nmax_turns = 3"), TASKS, "were made without max_turns, not with max_turns = 3"),
        (few.replace('"low", ', ""), TASKS, "were made with "),
        (few, TASKS.replace("Write", "Make"), "task 'write' has changed since its runs were made"),
    )
    for grid, tasks, says in cases:
        (sweep.cwd / "spec.toml").write_text(grid + tasks)
        done = sweep.run("sweep", "spec.toml", model="")
        assert (done.code, done.out) == (2, "")
        assert says in done.err
        assert f"--output {sweep.cwd / 'spec.sweep'}" in done.err
    (sweep.cwd / "spec.toml").write_text(few.replace("= 5", "= 3") + TASKS)  # what it may cost in all is no part of it
    assert sweep.run("sweep", "spec.toml", model="").code == 0
    assert len(server.requests) == asked


@later
def test_unknown_price_runs_without_budget(sweep: Shell) -> None:
    sweep.serve(able)
    grid = f'[grid]\nmodel = ["anthropic/{SMALL}", "anthropic/unheard-of"]\n'
    (sweep.cwd / "spec.toml").write_text(f"max_total_usd = 5\nmax_budget_usd = 0.50\n{grid}{TASKS}")
    done = sweep.run("sweep", "spec.toml", model="")
    assert done.code == 2
    assert "spec.toml: cell model=anthropic/unheard-of:" in done.err and "no known price" in done.err
    (sweep.cwd / "spec.toml").write_text(grid + TASKS)
    assert "max_total_usd is missing" in sweep.run("sweep", "spec.toml", model="").err
    done = sweep.run("sweep", "spec.toml", "--no-budget", "--output", "out", model="")
    assert done.code == 0, done.err
    assert "worst case: no bound" in done.err
    row = cells(result(sweep))["model=anthropic/unheard-of"]
    assert (row["unpriced"], row["front"]) == (1, False)
    assert "≥ 0.000000" in next(line for line in done.out.splitlines() if line.endswith("unheard-of"))


@later
def test_teams_are_cells_like_any_other(sweep: Shell) -> None:
    def script(request: Received) -> Step:
        said = json.dumps(request.json["messages"])
        if "You are B" in said and "tool_result" not in said and "the word is done" in said:
            return Turn(text="So.", calls=(Call("Write", {"file_path": "a.txt", "content": "done"}),), usage=USAGE)
        return Turn(text="the word is done", usage=USAGE)

    server = sweep.serve(script)
    (sweep.cwd / "pair.toml").write_text(
        '[[roles]]\nname = "A"\nprompt = "Find the word."\n[[roles]]\nname = "B"\nprompt = "Write it."\n'
    )
    (sweep.cwd / "spec.toml").write_text(
        f'max_total_usd = 5\nmax_budget_usd = 0.50\n[grid]\nmodel = "anthropic/{SMALL}"\n'
        f'team = ["none", "pair.toml"]\nvisible_handoffs = [0, 1]\n{TASKS}'
    )
    done = sweep.run("sweep", "spec.toml", "--output", "out", model="")
    assert done.code == 0, done.err
    rows = cells(result(sweep))
    assert {name: row["passed"] for name, row in rows.items()} == {
        "team=none": 0, "team=pair.toml visible_handoffs=0": 0, "team=pair.toml visible_handoffs=1": 1,
    }  # fmt: skip
    assert rows["team=pair.toml visible_handoffs=1"]["turns_mean"] == 3
    assert result(sweep)["spent_usd"] == pytest.approx(billed(server))
    (sweep.cwd / "pair.toml").write_text((sweep.cwd / "pair.toml").read_text().replace("Write it.", "Write."))
    assert "team_digest" in sweep.run("sweep", "spec.toml", "--output", "out", model="").err


@later
@pytest.mark.needs("git")
def test_session_prompts_rerun_in_place(sweep: Shell) -> None:
    project, seen = sweep.cwd / "project", list[str]()

    def script(request: Received) -> Step:
        messages = request.json["messages"]
        seen.append(json.dumps(messages))
        done = seen[-1].count('"tool_result"')
        if request.json["model"] == LARGE and done == 0:
            return Turn(text="So.", calls=(Call("Write", {"file_path": "a.txt", "content": "done"}),), usage=USAGE)
        return Turn(text="Done.", usage=USAGE)

    server = sweep.serve(script)
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-c", "init.defaultBranch=main", "-C", str(project)]
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "first")):
        subprocess.run([*git, *words], check=True, env={**sweep.environment, "GIT_CONFIG_NOSYSTEM": "1"})
    asked = sweep.run(
        "--cwd", str(project), "--output-format", "json", f"Look at {project}.", model=f"anthropic/{SMALL}"
    )
    session = str(asked.json["session_path"])
    again = sweep.run("--cwd", str(project), "--session", session, "And now?", model=f"anthropic/{SMALL}")
    assert (asked.code, again.code) == (0, 0)
    (project / "kept.txt").write_text("later")
    seen.clear()
    grid = GRID.replace('effort = ["low", "high"]\n', "").replace(f'"none", "anthropic/{WISE}"', '"none"')
    check = "grep -q done a.txt && grep -q 'as it was' kept.txt"
    (sweep.cwd / "spec.toml").write_text(f'sessions = ["{session}"]\nsession_check = "{check}"\n{grid}')
    done = sweep.run("sweep", "spec.toml", "--output", "out", model="")
    assert done.code == 0, done.err
    rows = cells(result(sweep))
    assert {name: row["passed"] for name, row in rows.items()} == {
        f"model=anthropic/{SMALL}": 0, f"model=anthropic/{LARGE}": 1,
    }  # fmt: skip
    assert rows[f"model=anthropic/{LARGE}"]["turns_mean"] == 3  # both prompts
    assert rows[f"model=anthropic/{LARGE}"]["usd_total"] == pytest.approx(3 * 0.0045)
    assert "And now?" in seen[-1]
    assert not any(f"Look at {project}." in text for text in seen)  # but at the copy
    assert not (project / "a.txt").exists()
    assert result(sweep)["tasks"] == [Path(session).name]
    asked_then = len(server.requests)
    assert sweep.run("sweep", "spec.toml", "--output", "out", model="").code == 0
    assert len(server.requests) == asked_then


def test_invalid_sweep_spends_nothing(
    sweep: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = sweep.serve(able)
    monkeypatch.chdir(sweep.cwd)
    for name, value in sweep.environment.items():
        monkeypatch.setenv(name, value)
    files = {
        "free": TASKS,
        "unbounded": GRID.replace("max_budget_usd = 0.50", "") + TASKS,
        "small": GRID.replace("max_total_usd = 5", "max_total_usd = 0.1") + TASKS,
        "stranger": GRID.replace(f'advisor = ["none", "anthropic/{WISE}"]', 'advisor = "openai/gpt-5.5"') + TASKS,
        "nobody": "max_total_usd = 5\nmax_budget_usd = 1\n" + TASKS,
        "typo": GRID.replace("effort", "efort") + TASKS,
    }
    for name, text in files.items():
        Path(f"{name}.toml").write_text(text)
    for argv, says in (
        (("gone.toml",), "gone.toml: no such file"),
        (("free.toml",), "max_total_usd is missing"),
        (("unbounded.toml",), "set max_budget_usd too"),
        (("small.toml",), "no run could start"),
        (("stranger.toml",), "cell model=anthropic/claude-haiku-4-5 effort=low: --advisor advisor=openai/gpt-5.5"),
        (("nobody.toml",), "cell settings: no model is named"),
        (("typo.toml",), "grid.efort: there is no setting 'efort'. Did you mean effort?"),
        (("spec.toml", "--output", "project/out"), "--output project/out lies inside the directory of task 'write'"),
        (("spec.toml", "--output", "."), "it has other files in it"),
        (("spec.toml", "--output-format", "xml"), "invalid choice: 'xml'"),
        ((), "SPEC"),
    ):
        code, (out, err) = run(["sweep", *argv]), capsys.readouterr()
        assert (code, out) == (2, ""), (argv, err)
        assert says in err, err
    assert server.requests == []
    assert left(sweep) == []
