"""The file of tasks, the record of trials, and what two arms come to beside each other."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from sagent.errors import UsageError
from sagent.plugins.lab.comparison import UNCLEAR, compare, show
from sagent.plugins.lab.notebook import PREFIX, Notebook, Notes
from sagent.plugins.lab.trials import (
    ARMS,
    DEFAULT_TIMEOUT_SECONDS,
    Arm,
    Outcome,
    Task,
    Trial,
    decode_trial,
    encode_trial,
    read_tasks,
)

TASKS = (Task("add", "Add.", "true"), Task("sub", "Subtract.", "false"))
SETUP = {"executor": "a/b", "max_budget_usd": "1"}
MONEY = st.one_of(st.none(), st.decimals(0, 1000, places=8))


def trial(arm: Arm, number: int = 1, outcome: Outcome = "solved", **members: object) -> Trial:
    """A run of the first task."""
    given = {"task": "add", "digest": TASKS[0].digest, "usd": Decimal("0.1"), "turns": 3, "seconds": 1.0, **members}
    return Trial(arm=arm, number=number, outcome=outcome, **given)


def pairs(*outcomes: tuple[Outcome, Outcome], **members: object) -> list[Trial]:
    """Trials without and with."""
    return [
        trial(arm, number, outcome, **members)
        for number, both in enumerate(outcomes, 1)
        for arm, outcome in zip(ARMS, both, strict=True)
    ]


# -- tasks -------------------------------------------------------------------------------------------------------------


def test_tasks_of_both_forms(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    toml, lines = tmp_path / "tasks.toml", tmp_path / "tasks.jsonl"
    toml.write_text('[[tasks]]\nname = "a"\nprompt = "Do."\ncheck = "true"\ndirectory = "repo"\ntimeout = 5\n')
    lines.write_text('{"name": "a", "prompt": "Do.", "check": "true"}\n\n{"name": "b", "prompt": "?", "check": "x"}\n')
    assert read_tasks(toml) == (Task("a", "Do.", "true", (tmp_path / "repo").resolve(), 5.0),)
    assert [(task.name, task.directory, task.timeout) for task in read_tasks(lines)] == [
        ("a", None, DEFAULT_TIMEOUT_SECONDS),
        ("b", None, DEFAULT_TIMEOUT_SECONDS),
    ]
    assert read_tasks(toml)[0].digest != read_tasks(lines)[0].digest


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no tasks"),
        ("[[task]]\n", "'task' is not a key here: write [[tasks]]"),
        ("tasks = 3\n", "tasks must be a list"),
        ("[[tasks]\n", "not TOML"),
        ("[[tasks]]\nname='a'\nprompt='p'\n", "task 1: check is missing"),
        ("[[tasks]]\nname=' '\nprompt='p'\ncheck='x'\n", "task 1: name is missing"),
        ("[[tasks]]\nname='a'\nprompt='p'\ncheck='x'\nchek='y'\n", "'chek' is not a key of a task"),
        ("[[tasks]]\nname='a'\nprompt='p'\ncheck='x'\ntimeout=0\n", "seconds above 0"),
        ("[[tasks]]\nname='a'\nprompt='p'\ncheck='x'\ntimeout=inf\n", "seconds above 0"),
        ("[[tasks]]\nname='a'\nprompt='p'\ncheck='x'\ntimeout=true\n", "seconds above 0"),
        ("[[tasks]]\nname='a'\nprompt='p'\ncheck='x'\ndirectory='gone'\n", "there is no directory"),
        ("[[tasks]]\nname='a'\nprompt='p'\ncheck='x'\ndirectory='tree'\n", "Give a clone"),
        ("[[tasks]]\nname='a'\nprompt='p'\ncheck='x'\n" * 2, "task 2: two tasks are called 'a'"),
        ('[[tasks]]\nname="a\\u001b"\nprompt="p"\ncheck="x"\n', "printable"),
    ],
)
def test_invalid_tasks_explained(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / ".git").write_text("gitdir: /elsewhere\n")
    file = tmp_path / "tasks.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as raised:
        read_tasks(file)
    assert says in str(raised.value)
    assert str(file) in str(raised.value)


def test_unreadable_tasks_reported(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"name": "a", "prompt": "p", "check": "x"}\n{"name"\n')
    with pytest.raises(UsageError, match=r"line 2: not JSON"):
        read_tasks(file)
    file.write_text("[1]\n")
    with pytest.raises(UsageError, match=r"line 1: a task must be a table"):
        read_tasks(file)
    file.write_bytes(b"\x9b\0")
    with pytest.raises(UsageError, match=r"the tasks cannot be read: it is not UTF-8 text\."):
        read_tasks(file)
    for path in (tmp_path, tmp_path / "gone.toml"):
        with pytest.raises(UsageError, match="cannot be read"):
            read_tasks(path)


# -- trials ------------------------------------------------------------------------------------------------------------


@given(
    st.text(min_size=1),
    st.sampled_from(ARMS),
    st.integers(1, 99),
    MONEY,
    MONEY,
    st.integers(0, 99),
    st.text(),
    st.text(),
)
def test_trial_round_trips(
    task: str, arm: Arm, number: int, usd: Decimal | None, most: Decimal | None, turns: int, reason: str, stop: str
) -> None:
    written = trial(arm, number, task=task, usd=usd, most=most, turns=turns, reason=reason, stop=stop, check=1)
    line = encode_trial(written)
    assert line.find(b"\n") == len(line) - 1
    assert decode_trial(line) == written


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"task":"a","arm":"both","number":1,"outcome":"solved"}', "{", "7"])
def test_non_trial_refused(line: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- of JSON too
        decode_trial(line)


def test_notebook_resumes_and_drops_torn_end(tmp_path: Path) -> None:
    out = tmp_path / "out"
    book = Notebook(out, SETUP, TASKS)
    for number in (1, 2):
        book.keep(trial("with", number))
    book.close()
    file = out / "runs.jsonl"
    whole = file.read_bytes()
    for torn in (whole.splitlines()[1][:20], whole.splitlines()[1], b'{"half": \n'):
        file.write_bytes(whole + torn)
        book = Notebook(out, SETUP, TASKS)
        assert [each.number for each in book.trials] == [1, 2]
        assert file.read_bytes() == whole
        book.close()
    book = Notebook(out, SETUP, TASKS)
    book.keep(trial("without", 3))
    book.close()
    assert [json.loads(line)["number"] for line in file.read_text().splitlines()] == [1, 2, 3]


def test_notebook_bound_to_one_setup(tmp_path: Path) -> None:
    out = tmp_path / "out"
    book = Notebook(out, SETUP, TASKS)
    with pytest.raises(UsageError, match=r"another benchmark is running there: .* Wait for it, or name another dir"):
        Notebook(out, SETUP, TASKS)
    book.keep(trial("with"))
    book.close()
    with pytest.raises(UsageError, match=r'made with max_budget_usd = "1", not with max_budget_usd = "2"'):
        Notebook(out, {**SETUP, "max_budget_usd": "2"}, TASKS)
    with pytest.raises(UsageError, match="task 'add' has changed"):
        Notebook(out, SETUP, [Task("add", "Add more.", "true")])
    Notebook(out, SETUP, [*TASKS, Task("more", "?", "true")]).close()
    (tmp_path / "notes.md").write_text("mine")
    with pytest.raises(UsageError, match="it has other files in it"):
        Notebook(tmp_path, SETUP, TASKS)
    (out / "runs.jsonl").write_bytes(b"?\n" + (out / "runs.jsonl").read_bytes())
    with pytest.raises(UsageError, match=r"runs\.jsonl, line 1"):
        Notebook(out, SETUP, TASKS)


def test_lost_runs_known_and_not_reused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    book = Notebook(out, SETUP, TASKS)
    first, second = book.session("a task/1", "with", 1), book.session("a task/1", "with", 1)
    assert first is not None
    assert second is not None
    assert first != second
    for path in (first, second):
        path.mkdir(parents=True)
    book.keep(trial("with", session=str(first)))
    book.close()
    book = Notebook(out, SETUP, TASKS)
    assert book.lost == [["with"]]
    assert book.session("a task/1", "with", 1) not in (first, second)
    book.close()


def test_only_killed_leftovers_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    out, left, mine = tmp_path / "out", tmp_path / f"{PREFIX}left", tmp_path / "mine"
    Notebook(out, SETUP, TASKS).close()
    for directory in (left, mine):
        directory.mkdir()
        (directory / "file").write_text("x")
    linked = tmp_path / f"{PREFIX}link"
    linked.symlink_to(mine)
    for place in (mine, linked, left):
        (out / "workplace").write_text(str(place))
        book = Notebook(out, SETUP, TASKS)
        assert book.workplace.is_dir()
        book.close()
        assert not book.workplace.exists()
    assert (mine / "file").exists()
    assert not left.exists()
    memory = Notes()
    assert memory.workplace.parent == tmp_path
    memory.close()
    assert not memory.workplace.exists()


# -- the comparison ----------------------------------------------------------------------------------------------------


def test_failures_counted_apart() -> None:
    trials = pairs(("solved", "solved"), ("failed", "solved"), ("unsolved", "budget"), ("unsolved", "solved"))
    trials[2] = trial("without", 2, "failed", reason="529: overloaded")
    found = compare(trials)
    without, advised = found.sides["without"], found.sides["with"]
    assert (without.judged, without.solved, without.apart) == (3, 1, {"failed": 1})
    assert (advised.judged, advised.solved, advised.apart) == (3, 3, {"budget": 1})
    assert without.reasons == {"529: overloaded": 1}
    assert found.differences["solved"].pairs == 2  # of those in which both were judged
    told = "\n".join(drawn(show(found)))
    for words in (
        "without: 1 failed (not the task's doing)",
        "1 × 529: overloaded",
        "with: 1 ended by the budget",
        "Counting runs that the budget ended as unsolved: without 1/3, with 3/4 solved.",
    ):
        assert words in told


def test_few_runs_unclear_many_clear() -> None:
    few = compare(pairs(*[("unsolved", "solved")] * 5))  # pyright: ignore[reportArgumentType]
    assert not any(difference.is_clear for difference in few.differences.values())
    lines = drawn(show(few))
    assert sum(UNCLEAR in line for line in lines) == 4
    enough = compare(pairs(*[("unsolved", "solved")] * 6))  # pyright: ignore[reportArgumentType]
    assert enough.differences["solved"].is_clear
    assert UNCLEAR not in next(line for line in drawn(show(enough)) if line.startswith("solved"))
    assert all(
        UNCLEAR in line for line in drawn(show(compare(pairs(("solved", "solved"))))) if line.startswith("turns")
    )


def test_unknown_price_leaves_cost_unknown() -> None:
    trials = pairs(*[("solved", "solved")] * 6)  # pyright: ignore[reportArgumentType]
    trials[3] = trial("with", 2, usd=None, advisor_usd=None)
    found = compare(trials)
    assert found.sides["with"].mean["usd"] is None
    assert found.sides["with"].usd is None
    lines = drawn(show(found))
    assert next(line for line in lines if line.startswith("cost")).split()[-1] == "unknown"
    assert next(line for line in lines if line.startswith("consultations")).endswith("unknown")


def test_repeated_run_counted_once() -> None:
    trials = [trial("with", outcome="failed"), trial("without"), trial("with", turns=9, answered=2, undone=1)]
    side = compare(trials).sides["with"]
    assert (side.trials, side.solved, side.consultations, side.consulted) == (1, 1, 3, 1)
    assert side.consult_rate == pytest.approx(3 / 9)


def test_empty_table_shown() -> None:
    assert "consultations  0 in 0 of 0 runs" in "\n".join(drawn(show(compare([]))))
