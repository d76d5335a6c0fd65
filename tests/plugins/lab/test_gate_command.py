"""`sagent gate`: every condition both ways, on every kind of result, and what there is nothing to judge in."""

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.cli.main import run
from sagent.plugins.lab.table import Row, encode_row, tabulate
from sagent.plugins.lab.trials import Outcome, Trial, encode_trial
from sagent.testing.server import Call, Fail, Received, Step, Turn, Usage
from tests.cli.program import Shell
from tests.depth import later

Gate = Callable[..., tuple[int, str, str]]


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Gate:
    """The command in an empty directory: its exit code, what it says, what it complains of."""
    monkeypatch.chdir(tmp_path)

    def call(*argv: str) -> tuple[int, str, str]:
        code = run(["gate", *argv])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def trial(cell: str, number: int, outcome: Outcome, **members: object) -> Trial:
    """A run for a tenth of a dollar, in three turns and a second."""
    given = {"usd": Decimal("0.1"), "turns": 3, "seconds": 1.0, **members}
    return Trial(task="a", digest="", arm=cell, number=number, outcome=outcome, **given)


def trials(cell: str, passed: int, runs: int, **members: object) -> list[Trial]:
    """Runner of which some passed."""
    return [
        trial(cell, number, "solved" if number <= passed else "unsolved", **members) for number in range(1, runs + 1)
    ]


def write(rows: Sequence[Row], name: str = "result.json") -> str:
    """A sweep's result."""
    Path(name).write_text(json.dumps({"kind": "sweep", "cells": [encode_row(row) for row in rows]}))
    return name


def write_cells(*cells: tuple[str, int, int], name: str = "result.json", **members: object) -> str:
    """A sweep's result of cells that passed so many of so many."""
    found = [each for cell, passed, runs in cells for each in trials(cell, passed, runs, **members)]
    return write(tabulate(found, [cell for cell, _, _ in cells]), name)


@pytest.mark.parametrize(
    ("flags", "code", "says"),
    [
        (("--min-pass", "0.8"), 0, "ok      pass 0.8 >= 0.8  (8 of 10 passed, 0.490 to 0.943)"),
        (("--min-pass", "80%"), 0, "ok: 1 of 1 conditions"),
        (("--min-pass", "0.81"), 1, "FAILED  pass 0.8 >= 0.81"),
        (("--min-pass", "0.4", "--confident"), 0, "ok      pass 0.490162 >= 0.4"),
        (("--min-pass", "0.5", "--confident"), 1, "FAILED  pass 0.490162 >= 0.5"),
        (("--max-usd", "1"), 0, "ok      usd 1 <= 1"),
        (("--max-usd", "0.99"), 1, "FAILED  usd 1 <= 0.99"),
        (("--max-usd-per-pass", "0.125"), 0, "ok      usd_per_pass 0.125 <= 0.125"),
        (("--max-usd-per-pass", "0.12"), 1, "FAILED  usd_per_pass 0.125 <= 0.12"),
        (("--max-turns", "3"), 0, "ok      turns 3 <= 3"),
        (("--max-turns", "2.9"), 1, "FAILED  turns 3 <= 2.9"),
        (("--max-seconds", "1"), 0, "ok      seconds 1 <= 1"),
        (("--max-seconds", "0.5"), 1, "FAILED  seconds 1 <= 0.5"),
        (("--max-seconds", "1", "--confident"), 0, "ok      seconds 1 <= 1  (mean 1, 1 to 1)"),
        (("--baseline", "before.json", "--max-drop", "0.1"), 0, "ok      drop 0.1 <= 0.1  (9 of 10 before, 8 of 10"),
        (("--baseline", "before.json", "--max-drop", "9%"), 1, "FAILED  drop 0.1 <= 0.09"),
        (("--baseline", "before.json"), 1, "FAILED  drop 0.1 <= 0"),
        (("--baseline", "before.json", "--max-drop", "0.4", "--confident"), 1, "FAILED  drop 0.420536"),
        (("--baseline", "before.json", "--max-drop", "0.5", "--confident"), 0, "ok      drop 0.420536"),
        (("--min-pass", "0.9", "--max-usd", "2"), 1, "FAILED: 1 of 2 conditions"),
    ],
)
def test_every_condition_both_ways(gate: Gate, flags: tuple[str, ...], code: int, says: str) -> None:
    write_cells(("x", 9, 10), name="before.json")
    found, out, err = gate(write_cells(("x", 8, 10)), *flags)
    assert (found, err) == (code, "")
    assert says in out


def test_as_json(gate: Gate) -> None:
    code, out, _ = gate(write_cells(("x", 1, 2)), "--min-pass", "1", "--max-turns", "3", "--output-format", "json")
    told = json.loads(out)
    assert (code, told["ok"]) == (1, False)
    keys = ("cell", "condition", "figure", "wanted", "ok")
    assert [tuple(each[key] for key in keys) for each in told["conditions"]] == [
        ("x", "pass", 0.5, ">= 1", False),
        ("x", "turns", 3, "<= 3", True),
    ]


def test_all_or_named_cells_must_hold(gate: Gate) -> None:
    name = write_cells(("good", 2, 2), ("bad", 0, 2))
    code, out, _ = gate(name, "--min-pass", "0.5")
    assert code == 1
    assert out.splitlines()[:4] == [
        "good", "  ok      pass 1 >= 0.5  (2 of 2 passed, 0.342 to 1.000)",
        "bad", "  FAILED  pass 0 >= 0.5  (0 of 2 passed, 0.000 to 0.658)",
    ]  # fmt: skip
    assert gate(name, "--min-pass", "0.5", "--cell", "good")[0] == 0
    assert gate(name, "--min-pass", "0.5", "--cell", "good", "--cell", "bad")[0] == 1
    code, _, err = gate(name, "--min-pass", "0.5", "--cell", "goood")
    assert code == 2
    assert "'goood'" in err and "Did you mean good?" in err


def test_baseline_of_other_cells_refused(gate: Gate) -> None:
    one = write_cells(("x", 1, 2), name="one.json")
    two = write_cells(("y", 1, 2), ("z", 2, 2), name="two.json")
    assert gate(one, "--baseline", write_cells(("old", 1, 2), name="old.json"))[0] == 0  # one cell each
    code, _, err = gate(one, "--baseline", two)
    assert (code, "no cell 'x'" in err) == (2, True)
    assert gate(two, "--baseline", one)[0] == 2


def test_unknown_price_fails_only_usd(gate: Gate) -> None:
    found = [*trials("x", 2, 2), trial("x", 3, "solved", usd=None)]
    name = write(tabulate(found, ["x"]))
    code, out, _ = gate(name, "--max-usd", "100", "--max-usd-per-pass", "100", "--min-pass", "1")
    assert code == 1
    assert out.count("of 1 run a price is not known") == 2
    assert "ok      pass 1" in out


def test_killed_runs_count_possible_cost(gate: Gate) -> None:
    killed, budgets = [["x"]], {"x": Decimal("0.3"), "y": Decimal("0.4")}
    write(tabulate([*trials("x", 2, 2), *trials("y", 2, 2)], ["x", "y"], 2, killed, budgets), "r.json")
    assert gate("r.json", "--cell", "y", "--max-usd", "0.2")[0] == 0  # of another cell
    code, out, _ = gate("r.json", "--cell", "x", "--max-usd", "0.4", "--max-usd-per-pass", "0.25")
    assert code == 1
    assert "FAILED  usd 0.2 <= 0.4 " in out and "up to 0.5" in out
    assert "ok      usd_per_pass 0.1 <= 0.25" in out
    assert gate("r.json", "--cell", "x", "--max-usd", "0.5")[0] == 0
    Path("notes").mkdir()
    Path("notes", "setup.json").write_text("{}")
    found = [*trials("with", 2, 2), trial("with", 3, "interrupted", most=Decimal("0.4")), trial("with", 3, "solved")]
    Path("notes", "runs.jsonl").write_bytes(b"".join(map(encode_trial, found)))
    assert gate("notes", "--cell", "with", "--max-usd", "0.5")[0] == 1
    assert gate("notes", "--cell", "with", "--max-usd", "0.7")[0] == 0
    Path("notes", "sessions", "a-4-with").mkdir(parents=True)  # begun, and never heard of again
    assert gate("notes", "--cell", "with", "--max-usd", "0.7")[0] == 1
    assert gate("notes", "--cell", "without", "--max-usd", "0.7")[1].count("a price is not known") == 0
    Path("notes", "setup.json").write_text('{"max_budget_usd": "0.25"}')
    assert gate("notes", "--cell", "with", "--max-usd", "0.95")[0] == 0
    assert gate("notes", "--cell", "with", "--max-usd", "0.90")[0] == 1


def test_incomplete_result_needs_partial(gate: Gate) -> None:
    found = [*trials("x", 2, 2), trial("x", 3, "failed", reason="529")]
    name = write(tabulate(found, ["x"], 3))
    code, out, _ = gate(name, "--min-pass", "1")
    assert code == 1
    assert "FAILED  complete 2 = 3 " in out and "--partial" in out
    assert gate(name, "--min-pass", "1", "--partial")[0] == 0
    name = write(tabulate([*trials("x", 2, 2), trial("x", 3, "budget")], ["x"], 3))
    assert gate(name, "--min-pass", "1")[0] == 1  # a run that its budget ended did not pass


def test_no_pass_has_no_price_per_pass(gate: Gate) -> None:
    code, out, _ = gate(write_cells(("x", 0, 2)), "--max-usd-per-pass", "9")
    assert (code, "FAILED  usd_per_pass - <= 9" in out) == (1, True)


def test_one_run_has_no_interval(gate: Gate) -> None:
    code, out, _ = gate(write_cells(("x", 1, 1)), "--max-turns", "9", "--confident")
    assert (code, "one run has no interval: make more" in out) == (1, True)


def test_cell_without_runs_fails(gate: Gate) -> None:
    name = write(tabulate(trials("x", 2, 2), ["x", "y"]))
    for flag in ("--min-pass", "--max-usd", "--max-usd-per-pass", "--max-turns", "--max-seconds"):
        assert gate(name, flag, "1" if flag == "--min-pass" else "100", "--partial", "--cell", "y")[0] == 1, flag
    assert gate(name, "--baseline", name, "--partial", "--cell", "y")[0] == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the file is empty"),
        ("{", "cannot be read as a result"),
        ("\udc9b", "cannot be read as a result: it is not UTF-8 text."),
        ("[]", "not the result of a sweep or a run"),
        ("{}", "not the result of a sweep or a run"),
        ('{"cells": []}', "it is empty"),
        ('{"cells": [{}]}', "a cell has a name"),
        ('{"cells": [{"name": "x", "runs": 0, "passed": 0, "usd_total": 0}]}', "it is empty"),
        ('{"cells": [{"name": "x", "runs": 0, "passed": 0, "usd_total": 0, "missing": 3}]}', "no run of it has ended"),
        ('{"type": "text_delta"}\n{"type": "session"}\n', "not the result of a sweep or a run"),
    ],
)
def test_empty_result_never_passes(gate: Gate, text: str, says: str) -> None:
    Path("r.json").write_text(text, errors="surrogateescape")
    code, out, err = gate("r.json", "--min-pass", "0", "--partial")
    assert (code, out) == (2, "")
    assert says in err


def test_invalid_usage_refused(gate: Gate) -> None:
    name = write_cells(("x", 2, 2))
    Path("empty").mkdir()
    Path("notes").mkdir()
    Path("notes", "setup.json").write_text("{}")
    Path("notes", "runs.jsonl").write_text("")
    for argv, says in (
        ((name,), "No condition to check"),
        ((), "RESULT"),
        ((name, "--min-pass", "1.1"), "--min-pass 1.1: give a share from 0 to 1"),
        ((name, "--min-pass", "nan"), "give a share"),
        ((name, "--max-usd", "-1"), "--max-usd -1: give a number, at least 0"),
        ((name, "--max-turns", "many"), "give a number"),
        ((name, "--max-drop", "0.1"), "--max-drop needs --baseline RESULT"),
        ((name, "--min-pas", "1"), "Did you mean --min-pass?"),
        (("gone.json", "--min-pass", "1"), "no session 'gone.json'"),
        (("empty", "--min-pass", "1"), "it has neither a result.json nor a runs.jsonl"),
        (("notes", "--min-pass", "1"), "notes: it is empty"),
        ((name, "--baseline", "gone.json"), "no session 'gone.json'"),
    ):
        code, out, err = gate(*argv)
        assert (code, out) == (2, ""), argv
        assert says in err, err


def test_notes_judged_and_torn_line_ignored(gate: Gate) -> None:
    place = Path("notes")
    place.mkdir()
    (place / "setup.json").write_text('{"executor": "a/b"}')
    lines = [encode_trial(each) for each in (*trials("without", 0, 2), *trials("with", 2, 2))]
    (place / "runs.jsonl").write_bytes(b"".join(lines) + b'{"task": "a", "arm": "wi')
    assert gate("notes", "--min-pass", "1", "--cell", "with")[0] == 0
    assert gate("notes", "--min-pass", "1", "--cell", "without")[0] == 1
    lines[-1] = encode_trial(trial("with", 2, "failed"))
    (place / "runs.jsonl").write_bytes(b"".join(lines))
    code, out, _ = gate("notes", "--min-pass", "1", "--cell", "with")
    assert (code, "FAILED  complete 1 = 2" in out) == (1, True)


# -- real runs ---------------------------------------------------------------------------------------------------------

USAGE = Usage(input=1_000, output=100)


def test_run_and_its_session(shell: Shell) -> None:
    shell.serve([Turn(text="", calls=(Call("List", {"path": "."}),), usage=USAGE), Turn(text="Done.", usage=USAGE)])
    done = shell.run("--output-format", "json", "Look.")
    (shell.cwd / "run.json").write_text(done.out)
    session = str(done.json["session_path"])
    for name in ("run.json", session, Path(session).name):
        assert shell.run("gate", name, model="").code == 0
        assert shell.run("gate", name, "--max-usd", "0.01", "--max-turns", "2", model="").code == 0
        told = shell.run("gate", name, "--max-usd", "0.008", "--max-turns", "1", model="")
        assert told.code == 1
        assert "ok      pass 1 >= 1" in told.out
        assert "FAILED  usd 0.009 <= 0.008" in told.out
        assert "FAILED  turns 2 <= 1" in told.out
    assert shell.run("gate", "run.json", "--max-seconds", "60", model="").code == 0
    assert "it is not known" in shell.run("gate", session, "--max-seconds", "60", model="").out


@later
def test_failed_or_limited_run_fails_gate(shell: Shell) -> None:
    def script(request: Received) -> Step:
        said = json.dumps(request.json["messages"])
        if "break" in said:
            return Fail(400, message="broken")
        return Turn(text="On.", calls=(Call("List", {"path": "."}),), usage=USAGE)

    shell.serve(script)
    for words in (("--max-turns", "1", "Go on."), ("break",)):
        done = shell.run("--output-format", "json", *words)
        assert done.code != 0
        (shell.cwd / "run.json").write_text(done.out)
        for name in ("run.json", str(done.json["session_path"])):
            told = shell.run("gate", name, "--max-usd", "1", model="")
            assert told.code == 1, told.out
            assert "FAILED  pass 0 >= 1" in told.out


def test_several_runs_judged_together(shell: Shell) -> None:
    shell.serve([Turn(text="a", usage=USAGE), Turn(text="b", usage=USAGE)])
    done = shell.run("--output-format", "stream-json", "--input-format", "stream-json", stdin='"a"\n"b"\n')
    (shell.cwd / "runs.jsonl").write_text(done.out)
    told = shell.run("gate", "runs.jsonl", "--max-usd", "0.009", model="")
    assert told.code == 0, told.out + told.err
    assert "pass 1 >= 1  (2 of 2 passed" in told.out
    assert "usd 0.009 <= 0.009" in told.out  # a session's costs are told as a sum


@later
def test_gate_reads_notes_and_sweep(shell: Shell) -> None:
    shell.serve(lambda request: Turn(text="Done.", usage=USAGE))
    (shell.cwd / "tasks.jsonl").write_text('{"name": "a", "prompt": "?", "check": "true"}\n')
    done = shell.run(
        "bench-advisor", "tasks.jsonl", "--executor", "anthropic/claude-sonnet-4-6", "--advisor",
        "anthropic/claude-opus-4-6", "--advisor-mode", "client", "--out", "bench", model="",
    )  # fmt: skip
    assert done.code == 0, done.err
    told = shell.run("gate", "bench", "--min-pass", "1", "--max-usd", "0.0045", model="")
    assert (told.code, told.out.count("usd 0.0045 <= 0.0045")) == (0, 2), told.out + told.err
    (shell.cwd / "s.toml").write_text(
        'tasks = "tasks.jsonl"\nmax_total_usd = 1\nmax_budget_usd = 0.5\n'
        '[grid]\nmodel = "anthropic/claude-sonnet-4-6"\neffort = ["low", "high"]\n'
    )
    assert shell.run("sweep", "s.toml", model="").code == 0
    for name in ("s.sweep", "s.sweep/result.json"):
        assert shell.run("gate", name, "--min-pass", "1", "--baseline", name, model="").code == 0
    (shell.cwd / "s.sweep" / "result.json").unlink()  # what a kill at the very beginning leaves
    assert shell.run("gate", "s.sweep", "--min-pass", "1", model="").code == 0
