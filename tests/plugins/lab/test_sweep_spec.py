"""The file of a sweep: what it may say, what cells it comes to, and what is told of mistakes."""

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.errors import UsageError
from sagent.plugins.lab.plan import Spec, read_spec

TASK = '[[task]]\nname = "a"\nprompt = "Do."\ncheck = "true"\n'


def spec(tmp_path: Path, text: str) -> Spec:
    """What the file says."""
    file = tmp_path / "spec.toml"
    file.write_text(text)
    return read_spec(file)


def names(found: Spec) -> list[str]:
    """The cells, by their names."""
    return [cell.name for cell in found.cells]


def test_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "critic.md").write_text("Doubt it.")
    found = spec(
        tmp_path,
        """
        repeats = 3
        jobs = 2
        max_total_usd = 1.10
        max_budget_usd = 0.05
        [grid]
        model = ["a/small", "a/large"]
        effort = ["low", "high"]
        advisor = ["none", "critic=b/wise,effort=high,role=critic.md"]
        permission_mode = "full"
        tools = [["Read", "Grep"], "none"]
        add_dirs = [["repo"]]
        [grid.advisor_rules]
        max_advisor_calls = [1, 2]
        [[exclude]]
        model = "a/large"
        effort = ["low", "high"]
        tools = "none"
        [[include]]
        name = "cheap"
        model = "c/tiny"
        max_turns = 3
        """
        + TASK.replace("[[task]]", "\n[[task]]")
        + 'directory = "repo"\ntimeout = 1.5\n',
    )
    assert (found.repeats, found.jobs, found.max_total_usd, found.max_budget_usd) == (
        3, 2, Decimal("1.10"), Decimal("0.05"),
    )  # fmt: skip
    assert [(task.name, task.directory, task.timeout) for task in found.tasks] == [("a", tmp_path / "repo", 1.5)]
    assert found.task_dir == tmp_path
    assert len(found.cells) == 32 - 8 + 1
    first, last = found.cells[0], found.cells[-1]
    assert first.name == "model=a/small effort=low advisor=none tools=Read,Grep advisor_rules.max_advisor_calls=1"
    assert first.settings == {
        "model": "a/small", "effort": "low", "advisors": "none", "permission_mode": "full", "tools": ["Read", "Grep"],
        "add_dirs": [str(tmp_path / "repo")], "max_budget_usd": Decimal("0.05"),
    }  # fmt: skip
    assert first.rules == {"max_advisor_calls": 1}
    assert found.cells[6].settings["advisors"] == [f"critic=b/wise,effort=high,role={tmp_path / 'critic.md'}"]
    assert (last.name, last.settings["model"], last.settings["max_turns"]) == ("cheap", "c/tiny", 3)
    assert last.settings["permission_mode"] == "full"  # what has one value in the grid holds for all
    assert "effort" not in last.settings


def test_task_file_relative_to_spec(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "tasks.jsonl").write_text('{"name": "b", "prompt": "Do.", "check": "true"}\n')
    found = spec(tmp_path, 'tasks = "deep/tasks.jsonl"\n')
    assert [task.name for task in found.tasks] == ["b"]
    assert found.task_dir == tmp_path / "deep"
    assert names(found) == ["settings"]


def test_long_values_named_by_place(tmp_path: Path) -> None:
    found = spec(tmp_path, f'[grid]\nappend_system = ["", "Be brief.", "x"]\n{TASK}')
    assert names(found) == ["append_system=#1", "append_system=#2", "append_system=x"]


def test_include_alone_makes_grid(tmp_path: Path) -> None:
    found = spec(tmp_path, f'[[include]]\nmodel = "a/b"\n[[include]]\nmodel = "a/c"\neffort = "low"\n{TASK}')
    assert names(found) == ["model=a/b", "model=a/c effort=low"]


def test_teams_and_their_hand_offs(tmp_path: Path) -> None:
    (tmp_path / "pair.toml").write_text(
        'mode = "parallel"\n[[roles]]\nname = "A"\nprompt = "Do."\n[[roles]]\nname = "B"\nprompt = "Do."\n'
    )
    found = spec(tmp_path, f'[grid]\nteam = ["none", "code_review", "pair.toml"]\nvisible_handoffs = [0, 2]\n{TASK}')
    assert names(found) == [
        "team=none", "team=code_review visible_handoffs=0", "team=code_review visible_handoffs=2", "team=pair.toml",
    ]  # fmt: skip
    assert [cell.team and cell.team.visible_handoffs for cell in found.cells[:3]] == [None, 0, 2]
    assert found.cells[3].team is not None
    assert [role.name for role in found.cells[3].team.roles] == ["A", "B"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "there are no tasks"),
        ("[grid\n", "spec.toml:1: not valid TOML"),
        (f"repeat = 2\n{TASK}", "spec.toml:1: repeat: there is no key 'repeat'. Did you mean repeats?"),
        (f"repeats = 0\n{TASK}", "spec.toml:1: repeats = 0 is not accepted: give a whole number, at least 1."),
        (f"jobs = 1.5\n{TASK}", "jobs = 1.5 is not accepted"),
        (f"max_total_usd = 0\n{TASK}", "max_total_usd must be a number of USD above 0"),
        (f'max_total_usd = "much"\n{TASK}', "give USD as a number"),
        (f'tasks = "t.jsonl"\n{TASK}', "keep only one"),
        ("tasks = 3\n", "tasks must name a file"),
        ('tasks = "a\\u0000"\n', "spec.toml:1: tasks = 'a\\x00' is not accepted: give a path"),
        ('tasks = "gone.jsonl"\n', "gone.jsonl: the tasks cannot be read"),
        ('sessions = ["a"]\n', "session_check is missing: give a command that exits with 0"),
        ('sessions = ["a", "a"]\nsession_check = "true"\n', "each of them once"),
        ("sessions = 3\n", "give a list of sessions"),
        (f'session_check = "true"\n{TASK}', "session_check needs sessions"),
        ("task = 3\n", "spec.toml:1: task must be a list: write [[task]] for each."),
        ('[[task]]\nname = "a"\nprompt = "p"\n', "spec.toml:1: task 1: check is missing"),
        (f"{TASK}timeout = 0\n", "task 1: timeout must be a number of seconds above 0"),
        (f"grid = 3\n{TASK}", "grid must be a table, [grid]."),
        (f'[grid]\nmodell = "a/b"\n{TASK}', "spec.toml:2: grid.modell: there is no setting 'modell'. Did"),
        (f'[grid]\ncwd = "."\n{TASK}', "there is no setting 'cwd'"),
        (f'[grid]\neffort = ["low",\n"hihg"]\n{TASK}', "effort = 'hihg' is not accepted: give one of none, minimal"),
        (f"[grid]\nmax_turns = [0]\n{TASK}", "max_turns = 0 is not accepted: give a whole number, at least 1"),
        (f"[grid]\nmodel = []\n{TASK}", "model has no values"),
        (f'[grid]\nmodel = ["a/b", "a/b"]\n{TASK}', "model names 'a/b' twice"),
        (f'[grid]\nadvisor = "none"\nadvisors = "none"\n{TASK}', "advisors and advisor are the same setting"),
        (f'[grid]\nadvisor = "a/b,speed=1"\n{TASK}', "'speed=1' is not an option of the advisor"),
        (f"[grid.advisor_rules]\nmax_call = 1\n{TASK}", "grid.advisor_rules.max_call: there is no setting"),
        (f"[grid]\nmax_turns = {list(range(1, 200))}\nmax_retries = {list(range(99))}\n{TASK}", "has 19,701 cells"),
        (f"max_budget_usd = 1\n[grid]\nmax_budget_usd = [1, 2]\n{TASK}", "is in [grid] too"),
        (f'[grid]\nmodel = "a/b"\n[[exclude]]\nmodle = "a/b"\n{TASK}', "no setting 'modle'. Did you mean model?"),
        (f'[grid]\nmodel = "a/b"\n[[exclude]]\neffort = "low"\n{TASK}', "no axis of [grid] 'effort'; there are model."),
        (
            f'[grid]\nmodel = ["a/small", "b/other"]\n[[exclude]]\nmodel = "a/smal"\n{TASK}',
            "spec.toml:4: model has no value 'a/smal' in [grid]. Did you mean a/small?",
        ),
        (f'[grid]\nmodel = "a/b"\n[[exclude]]\nmodel = "a/b"\n{TASK}', "every cell of the grid is excluded"),
        (f'[grid]\nmodel = "a/b"\n[[exclude]]\n{TASK}', "an empty row would exclude every cell"),
        (f'[grid]\nmodel = "a/b"\n[[include]]\nmodel = "a/b"\n{TASK}', "two cells are called 'model=a/b'"),
        (f'[[include]]\nname = "x"\n[[include]]\nname = "x"\neffort = "low"\n{TASK}', "two cells are called 'x'"),
        (f'[[include]]\nname = 3\n{TASK}', "give a cell a name"),
        (f'[grid]\nteam = "code_reviw"\n{TASK}', "Did you mean code_review?"),
        (f'[grid]\nteam = "gone.toml"\n{TASK}', "no such file"),
        (f"[grid]\nvisible_handoffs = 2\n{TASK}", "visible_handoffs is only for teams"),
    ],
)  # fmt: skip
def test_mistakes_named_with_place(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        spec(tmp_path, text)
    assert says in str(raised.value)
    assert str(tmp_path) in str(raised.value)


def test_missing_file_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.toml: no such file"):
        read_spec(tmp_path / "gone.toml")


AXES = {"effort": ["low", "medium", "high"], "max_turns": [1, 2, 3, 4], "panel": ["first", "all"]}


@given(
    grid=st.fixed_dictionaries(
        {key: st.lists(st.sampled_from(values), min_size=1, unique=True) for key, values in AXES.items()}
    ),
    data=st.data(),
)
def test_grid_is_product_minus_excluded(
    grid: dict[str, list[object]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    row = {key: data.draw(st.sampled_from(values)) for key, values in grid.items() if data.draw(st.booleans())}
    lines = ["[grid]", *(f"{key} = {values!r}" for key, values in grid.items())]
    size, hit = 1, 1
    for key, values in grid.items():
        size *= len(values)
        hit *= 1 if key in row else len(values)
    left = size - (hit if row else 0)
    lines += ["[[exclude]]", *(f"{key} = {value!r}" for key, value in row.items())] if row else []
    text = "\n".join([*lines, TASK])
    place = tmp_path_factory.mktemp("spec")
    if not left:
        with pytest.raises(UsageError, match="every cell"):
            spec(place, text)
        return
    found = spec(place, text)
    assert len(found.cells) == len(set(names(found))) == left
    assert not any(row and all(cell.settings[key] == value for key, value in row.items()) for cell in found.cells)
