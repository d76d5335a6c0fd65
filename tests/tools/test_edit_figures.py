"""The table of what other programs' edit tools do: whole, as measured, and judged as it says."""

from collections import Counter
from pathlib import Path

import pytest

from tests.benchmarks.edit_tools import PROGRAMS, aider_reply, codex_edit
from tests.benchmarks.edits import NAMES, PAGE, cases, exact, expressible, measured, session, table, verdict
from tests.depth import later
from tests.tools.near_misses import Case


def test_every_case_measured_with_every_program() -> None:
    assert tuple(measured()) == NAMES
    for name, one in measured().items():
        assert Counter(case.kind for case in expressible(name)) == Counter(
            {kind: sum(counts.values()) for kind, counts in one["kinds"].items()}
        )
        assert one["kinds"].keys() == {case.kind for case in cases()}


def test_own_results_are_as_expected() -> None:
    expected: dict[str, Counter[str]] = {case.kind: Counter() for case in cases()}
    for case in cases():
        expected[case.kind]["refused" if case.wanted is None else "done"] += 1
    assert measured()["sagent"]["kinds"] == expected


def test_page_shows_the_measurements() -> None:
    page = PAGE.read_text("utf-8")
    assert "\n".join(table(measured())) in page
    for name, one in measured().items():
        assert one["package"] in page, name
        assert one["date"] in page, name


@pytest.mark.parametrize(
    ("after", "said"),
    [("a\nB\n", "done"), ("a \nB\r\n", "loose"), ("a\nb\n", "refused"), (" a\nB\n", "wrong"), (None, "wrong")],
)
def test_verdict_on_edited_file(after: str | None, said: str, tmp_path: Path) -> None:
    case = Case("a kind", "f", "a\nb\n", "b ", "B", "a\nB\n", "a\nB\n")
    if after is not None:
        (tmp_path / "f").write_bytes(after.encode())
    assert verdict(case, tmp_path / "f") == said


def test_edit_in_words_of_other_tools() -> None:
    one = exact()[0]
    call = codex_edit(one, "there/parse.py")
    assert call is not None
    assert str(call.arguments).splitlines()[:2] == ["*** Begin Patch", "*** Update File: there/parse.py"]
    assert "\n-            found.append(part.strip())\n+            found.append(part.lower())\n" in str(call.arguments)
    assert f"<<<<<<< SEARCH\n{one.old}\n=======\n{one.new}\n>>>>>>> REPLACE" in str(aider_reply(one, one.name))


@later
def test_program_is_run_and_files_compared() -> None:
    stale = next(case for case in cases() if case.kind == "stale text")
    assert session(PROGRAMS[0], [*exact()[:2], stale]) == ["done", "done", "refused"]
