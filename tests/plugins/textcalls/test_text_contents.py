"""New texts of files: what breaks a file, what is left out of it, and what changes beside what was asked for."""

import pytest

from sagent.messages import user
from sagent.plugins.textcalls.contents import changed_aside, fault_in, forbids_more, left_out, without_aside
from sagent.plugins.textcalls.task import deletes_many, demanded_checks, is_test, path_to_change, picks_lines, sorts
from sagent.plugins.textcalls.writing import Reminders, enclose

LISTS = "def merge(one, other):\n    return sorted(one + other)\n\n\ndef first(items):\n    return items[0]\n"
SETTINGS = '{"download": {"retries": 3}, "upload": {"retries": 3, "chunk": 512}}'
TWO = SETTINGS.replace("}, ", "},\n")
TITLES = "[a]\ncolour = red\n\n[b]\nsize = 3\n"


@pytest.mark.parametrize(
    ("path", "before", "after", "broken"),
    [
        ("a.json", "{}", '{"a": 1,}', True),
        ("a.json", "", "{'a': 1}", True),
        ("a.json", "// said\n{}", '// said\n{"a": 1}', False),  # it could not be read before either
        ("a.json", "{}", '{"a": 1}', False),
        ("a.py", "x = 1\n", "x = (1\n", True),
        ("a.py", "print 1\n", "print 2\n", False),
        ("a.toml", "a = 1\n", "a = \n", True),
        ("a.txt", "a", "{", False),
        ("a.py", "x = 1\n", "", False),
    ],
)
def test_broken_file_found(path: str, before: str, after: str, broken: bool) -> None:
    assert bool(fault_in(path, before, after)) == broken


@pytest.mark.parametrize(
    ("path", "before", "after", "asked", "aside"),
    [
        ("a.py", LISTS, LISTS.replace("):\n", '):\n    """It."""\n'), "Add a docstring to merge.", ["first"]),
        ("a.py", LISTS, LISTS.replace("):\n", '):\n    """It."""\n'), "Add docstrings to merge and first.", []),
        ("a.py", LISTS, LISTS.replace("):\n", '):\n    """It."""\n'), "Add docstrings.", []),
        ("a.py", LISTS, LISTS.replace("items[0]", "merge(items, [])[0]"), "Use merge everywhere.", []),
        ("a.json", SETTINGS, SETTINGS.replace("3", "5"), "Set retries of upload to 5.", ["download.retries"]),
        ("a.json", SETTINGS, SETTINGS.replace("3", "5"), "Set all retries to 5.", []),
        ("a.json", SETTINGS, SETTINGS.replace("512", "9").replace("3", "5"), "Set chunk to 9, retries to 5.", []),
        ("a.json", SETTINGS, "{", "Set retries of upload to 5.", []),
        ("a.txt", "a", "b", "Write b.", []),
    ],
)
def test_change_beside_task_found(path: str, before: str, after: str, asked: str, aside: list[str]) -> None:
    assert changed_aside(path, before, after, asked) == aside


@pytest.mark.parametrize(
    ("path", "before", "after", "asked", "restored"),
    [
        (
            "a.py",
            LISTS,
            LISTS.replace("):\n", '):\n    """It."""\n'),
            "Add a docstring to merge. Change nothing else.",
            LISTS.replace("):\n", '):\n    """It."""\n', 1),
        ),
        ("a.py", LISTS, LISTS.replace("):\n", "):  # it\n"), "Add a comment to merge.", None),
        (
            "a.json",
            TWO,
            TWO.replace("3", "5"),
            "Set retries of upload to 5. Leave everything else.",
            TWO[:28] + TWO[28:].replace("3", "5"),
        ),
        (
            "a.json",
            SETTINGS,
            SETTINGS.replace("3", "5"),
            "Set retries of upload to 5. Leave everything else.",
            None,
        ),  # one line
    ],
)
def test_change_beside_task_restored(path: str, before: str, after: str, asked: str, restored: str | None) -> None:
    kept = without_aside(path, before, after, asked) if forbids_more(asked) else after
    assert kept == (after if restored is None else restored)


@pytest.mark.parametrize(
    ("path", "before", "after", "asked", "lost"),
    [
        ("a.json", SETTINGS, '{"upload": {"retries": 5, "chunk": 512}}', "Set retries to 5.", ["download"]),
        ("a.json", SETTINGS, '{"upload": {"retries": 5, "chunk": 512}}', "Remove download.", []),
        ("a.ini", TITLES, TITLES.replace("colour", "color"), "Correct the key colour.", []),
        ("a.ini", TITLES, "[b]\nsize = 4\n", "Set size to 4.", ["a", "colour"]),
        ("a.yaml", "a: 1\nb:\n  - c: 2\n", "a: 2\n", "Set a to 2.", ["b", "c"]),
        ("a.py", LISTS, "def first(): ...\n", "Fix first.", ["merge"]),
        ("a.txt", "a", "x", "Write x.", []),
    ],
)
def test_left_out_parts_found(path: str, before: str, after: str, asked: str, lost: list[str]) -> None:
    assert left_out(path, before, after, asked)[0] == lost


@pytest.mark.parametrize(
    ("said", "kinds"),
    [
        ("Sort the rows of a.csv by age, youngest first.", "sorts"),
        ("Please sort a.txt by name.", "sorts"),
        ("Add a function sort(rows) to a.py.", ""),
        ("Fix the sort order of rows in a.py.", ""),
        ("Write the rows of a.csv whose status is open into b.csv.", "picks"),
        ("Save the first 10 lines of a.log as head.txt.", "picks"),
        ("Write b.json: a list with an object for each row of a.csv, with the key name.", ""),
        ("Delete all *.tmp files.", "deletes"),
        ("Remove every folder named build.", "deletes"),
        ("Remove all comments from a.py.", ""),
    ],
)
def test_work_on_many_lines_or_files(said: str, kinds: str) -> None:
    found = {"sorts": sorts, "picks": picks_lines, "deletes": deletes_many}
    assert [kind for kind, has in found.items() if has(user(said))] == [kinds] * bool(kinds)


def test_reminder_asks_for_program() -> None:
    message = user("Sort the rows of a.csv by age.", enclose("a.csv", "name,age\nBo,3\n"))
    assert "which writes a.csv: python3 - <<'EOF'" in Reminders().after(message)
    assert "python3" not in Reminders(runs=False).after(message)
    assert "`find`" in Reminders().after(user("Delete all .tmp files."))


def test_ending_of_names_is_no_file() -> None:
    history = [user("Add the line *.log to .gitignore.", enclose(".gitignore", "dist/\n"))]
    assert path_to_change(history, 0) == ".gitignore"


def test_command_to_repair_has_to_pass() -> None:
    assert demanded_checks(user("Run `pytest -q` and fix what fails.")) == ["`pytest -q`"]
    assert demanded_checks(user("Run `pytest -q` and tell me what fails.")) == []


def test_names_of_test_files() -> None:
    assert all(map(is_test, ("test_a.py", "src/a_test.go", "web/a.spec.ts")))
    assert not any(map(is_test, ("a.py", "contest.py", "latest.txt")))
