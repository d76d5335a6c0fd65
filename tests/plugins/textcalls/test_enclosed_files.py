"""Files for a model that writes its calls as text: which names of a prompt count, who is asked, what stays unread."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from sagent.cli.headless import EXIT_FAILED
from sagent.plugins.textcalls.enclosing import MAX_WORDS, named_directories, named_files, names_in
from sagent.testing.script import Listed, Turn
from sagent.testing.server import FakeProviderServer
from sagent.tool import Workspace
from tests.cli.program import Shell
from tests.depth import later

SMALL = [Listed("tiny-q4", window=16_384, owner="llamacpp", weights=1_777_088_000)]
REPLACED = Turn(text="I shorten it.\n\nnotes.txt\n```\nshort\n```\n")
DONE = Turn(text="Done.")


@dataclass
class Run:
    """The program with a small model in a directory that has notes."""

    shell: Shell
    server: FakeProviderServer
    notes: Path

    def sent(self, *argv: str, code: int = 0) -> Sequence[str]:
        """Run it; return each request's messages, as JSON."""
        flags = ("--base-url", f"{self.server.url}/v1", "--permission-mode", "full")
        assert self.shell.run(*flags, *argv, model="").code == code
        posts = [request.json for request in self.server.requests if request.method == "POST"]
        return [json.dumps(each["messages"], ensure_ascii=False) for each in posts]


@pytest.fixture
def run(shell: Shell) -> Run:
    server = shell.serve([REPLACED, DONE, DONE], models=SMALL, require_key=False)
    notes = shell.cwd / "notes.txt"
    notes.write_text("opensesame\n")
    return Run(shell, server, notes)


def _hook(run: Run, command: str) -> None:
    folder = Path(run.shell.environment["HOME"], ".config/sagent")
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f"[[hooks.PreToolUse]]\nmatcher = 'Read'\ncommand = '{command}'\n")


def test_denied_unseen_file_kept(run: Run) -> None:
    sent = run.sent("--deny", "Read(notes.txt)", "Shorten what I wrote")
    assert run.notes.read_text() == "opensesame\n"
    assert "opensesame" not in "".join(sent) and "you have not seen it" in sent[1]


@later
def test_hook_keeps_unseen_file_hidden(run: Run) -> None:
    _hook(run, "exit 2")
    sent = run.sent("Shorten what I wrote")
    assert run.notes.read_text() == "opensesame\n"
    assert "opensesame" not in "".join(sent) and "you have not seen it" in sent[1]


@later
def test_hook_is_asked_of_each_file(run: Run) -> None:
    _hook(run, "if grep -q notes.txt; then exit 2; fi")
    (run.shell.cwd / "free.txt").write_text("gazebo\n")
    sent = run.sent("Compare free.txt with notes.txt")
    assert "gazebo" in sent[0] and "opensesame" not in "".join(sent)


@pytest.mark.plugin("audit")
def test_session_title_is_prompt_text(run: Run) -> None:
    run.notes.write_text("opensesame\n")
    run.sent("Shorten notes.txt")
    assert run.shell.run("sessions", "list", model="").out.splitlines()[0].endswith("  Shorten notes.txt")


@later
@pytest.mark.plugin("audit")
def test_rewind_drops_enclosed_file(run: Run) -> None:
    run.server = run.shell.serve([DONE, DONE, DONE], models=SMALL, require_key=False)
    run.sent("Hello")
    run.sent("-c", "Is notes.txt short?")
    session = run.shell.run("sessions", "list", model="").out.split()[0]
    assert run.shell.run("sessions", "rewind", session, "2", model="").code == 0
    sent = run.sent("-c", "Bye")
    assert "opensesame" in sent[1] and "opensesame" not in sent[2] and "Hello" in sent[2]


@later
def test_empty_file_may_be_written_unseen(run: Run) -> None:
    run.notes.write_text("")
    run.sent("Write something")
    assert run.notes.read_text() == "short\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("see ./a.py, then .env.", {"./a.py", ".env"}),
        ("a.py:12:5: error: oops", {"a.py"}),
        ("fix @src/a.py: it's wrong, isn't it", {"src/a.py"}),
        ("don't touch 'my notes.txt' or `b.py`", {"my notes.txt", "b.py"}),
        ("vor größe.txt; ../up.txt", {"größe.txt", "../up.txt"}),
    ],
)
def test_names_found_anywhere_in_sentence(text: str, names: set[str]) -> None:
    assert names <= {*names_in(text)}


def test_lone_backtick_reads_in_linear_time() -> None:
    """A pattern that goes back over the line for each word would take hours."""
    assert "a.py" in names_in("` a.py" + " word" * 400_000)


def test_words_looked_up_bounded(tmp_path: Path) -> None:
    (tmp_path / "first.txt").write_text("1")
    (tmp_path / "last.txt").write_text("2")
    words = " ".join(f"w{number}" for number in range(MAX_WORDS))
    found = named_files(f"first.txt {words} last.txt", Workspace(tmp_path))
    assert [name for name, _ in found] == ["first.txt"]


@later
@pytest.mark.parametrize("content", ["opensesame\n", "opensesame\r\n"])
def test_unchanged_write_reported(shell: Shell, content: str) -> None:
    same = Turn(text="notes.txt\n```\nopensesame\n```\n")
    server = shell.serve([same, DONE, DONE], models=SMALL, require_key=False)
    run = Run(shell, server, shell.cwd / "notes.txt")
    run.notes.write_bytes(content.encode())
    sent = run.sent("Rename notes.txt to other.txt", code=EXIT_FAILED)
    assert run.notes.read_bytes() == content.encode()
    assert "notes.txt was not changed" in sent[1] and "holds exactly this already" in sent[1]
    assert "Is the task done?" not in sent[1] and "the command that does it" in sent[2]


@later
def test_unchanged_write_checked_by_command(shell: Shell) -> None:
    same = Turn(text="notes.txt\n```\nopensesame\n```\n")
    run = Run(shell, shell.serve([same, DONE, DONE], models=SMALL, require_key=False), shell.cwd / "notes.txt")
    run.notes.write_text("opensesame\n")
    sent = run.sent("`python3 show.py` fails. Fix notes.txt.", code=EXIT_FAILED)
    assert "Run `python3 show.py`" in sent[1] and "Check it" not in sent[1]


def test_files_named_in_enclosed_file_added(run: Run) -> None:
    folder = run.shell.cwd / "conf"
    folder.mkdir()
    (run.shell.cwd / "app.conf").write_text("include = conf/limits.conf\n")
    (folder / "limits.conf").write_text("timeout = 6835\ninclude sizes.conf\n")
    (folder / "sizes.conf").write_text("size = 4711\n")
    sent = run.sent("Which timeout has app.conf?")
    assert "timeout = 6835" in sent[0] and "size =" not in sent[0]
    run.server.requests.clear()
    assert "size = 4711" in run.sent("Which size has conf/limits.conf?")[0]


@later
@pytest.mark.parametrize("flags", [(), ("--deny", "Read(.env)", "--deny", "Read(notes.txt)")])
def test_unnamed_files_short_and_visible(run: Run, flags: Sequence[str]) -> None:
    others = [run.shell.cwd / f"other{number}.txt" for number in range(3)]
    for other in others:
        other.write_text(f"{other.stem} is here\n")
    (run.shell.cwd / "long.txt").write_text("endless\n" * 1_000)
    (run.shell.cwd / ".env").write_text("opensesame\n")
    (run.shell.cwd / "index.txt").write_text(" ".join(("long.txt", ".env", *(each.name for each in others))) + "\n")
    sent = run.sent(*flags, "Explain index.txt")[0]
    assert [f"{other.stem} is here" in sent for other in others] == [True, True, False]
    assert "endless" not in sent and "opensesame" not in sent


@later
def test_imported_modules_enclosed(run: Run) -> None:
    folder = run.shell.cwd / "src"
    (folder / "shapes").mkdir(parents=True)
    (folder / "run.py").write_text("import os\nfrom shapes import area\nfrom .box import Box\n\nprint(area(Box()))\n")
    (folder / "box.py").write_text("class Box: gazebo = 1\n")
    (folder / "shapes" / "__init__.py").write_text("def area(pavilion): ...\n")
    sent = run.sent("Fix src/run.py")
    assert "gazebo" in sent[0] and "pavilion" in sent[0]


LOSING = Turn(text="sums.py\n```\ndef mean(values): ...\n```\n")


@later
@pytest.mark.parametrize(
    ("request_text", "turns", "kept", "left"),
    [
        ("Add a function mean to sums.py", [LOSING, DONE], True, True),
        ("Add a function mean to sums.py. Leave total and Sums as they are", [LOSING, DONE], True, True),
        ("Add a function mean to sums.py", [LOSING, LOSING, DONE], True, False),  # it is meant
        ("Replace total and Sums in sums.py by mean", [LOSING, DONE], False, False),
    ],
)
def test_write_removing_definitions_held(
    shell: Shell, request_text: str, turns: Sequence[Turn], kept: bool, left: bool
) -> None:
    file = shell.cwd / "sums.py"
    file.write_text("def total(values):\n    return sum(values)\n\n\nclass Sums: ...\n")
    run = Run(shell, shell.serve(turns, models=SMALL, require_key=False), file)
    sent = run.sent(request_text)
    told = "leaves out total and Sums. Write the whole file again, with total, Sums and mean."
    assert (told in sent[1]) == kept and sent[1].endswith(f'{told}"}}]') == kept
    assert ("return sum(values)" in file.read_text()) == left


def test_unchanged_write_beside_change_passes(shell: Shell) -> None:
    both = Turn(text="notes.txt\n```\nopensesame\n```\n\nother.txt\n```\nshut\n```\n")
    run = Run(shell, shell.serve([both, DONE], models=SMALL, require_key=False), shell.cwd / "notes.txt")
    run.notes.write_text("opensesame\n")
    sent = run.sent("Write what notes.txt is not into other.txt")
    assert (shell.cwd / "other.txt").read_text() == "shut\n"
    assert "was not changed" not in sent[1] and "Is the task done?" in sent[1]


def test_named_directory_listed(run: Run) -> None:
    source = run.shell.cwd / "src"
    (source / "net").mkdir(parents=True)
    for name in ("__init__.py", ".secret", *(f"m{number:03}.py" for number in range(99))):
        (source / name).write_text("gazebo\n")
    sent = run.sent("Which file in src/ is the longest?")[0]
    assert "src/\\n```\\n__init__.py\\nm000.py" in sent and "more)" in sent
    assert ".secret" not in sent and "m099" not in sent and "gazebo" not in sent
    assert sent.index("src/\\n```") < sent.index("(Do not guess")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("what is in src/", True),
        ("look at src/net.", True),
        ("the directory src has a fault", True),
        ("in the src folder", True),
        ("count the files in `src`", True),
        ("the src of the image", False),
        ("see docs/", False),
        ("go up to ../ or /", False),
        ("see .", False),
    ],
)
def test_directories_of_text(tmp_path: Path, text: str, named: bool) -> None:
    (tmp_path / "work/src/net").mkdir(parents=True)
    assert bool([*named_directories(text, Workspace(tmp_path / "work"))]) == named


def test_project_is_listed_for_request_about_it(run: Run) -> None:
    (run.shell.cwd / "lib").mkdir()
    (run.shell.cwd / "start.py").write_text("gazebo\n")
    run.server = run.shell.serve([DONE] * 3, models=SMALL, require_key=False)
    sent = run.sent("Which file of this project opens the window?")[0]
    assert "./\\n```\\nlib/\\n" in sent and "start.py\\n" in sent and "gazebo" not in sent
    assert "lib/\\n" not in run.sent("Is start.py the only program of this project?")[-1]
    assert "lib/\\n" not in run.sent("What is a window?")[-1]


@later
def test_denied_directory_not_listed(run: Run) -> None:
    (run.shell.cwd / "src").mkdir()
    (run.shell.cwd / "src/gazebo.py").write_text("")
    run.server = run.shell.serve([DONE, DONE], models=SMALL, require_key=False)
    assert "gazebo" not in run.sent("--deny", "Read(src/**)", "What is in src/?")[0]
    assert "gazebo" in run.sent("What is in src/?")[-1]


def test_command_to_mend_shows_its_file(run: Run) -> None:
    (run.shell.cwd / "show.py").write_text("gazebo\n")
    run.server = run.shell.serve([DONE] * 6, models=SMALL, require_key=False)
    assert "gazebo" not in run.sent("Run `python3 show.py` and tell me what it prints.", code=EXIT_FAILED)[-1]
    sent = run.sent("`python3 show.py` ends with an error. Fix it.", code=EXIT_FAILED)
    assert "show.py\\n```\\ngazebo\\n```" in sent[-1]
    sent = run.sent("`python3 show.py` fails without numbers. Make mean([]) return 0.", code=EXIT_FAILED)
    assert "show.py\\n```\\ngazebo\\n```" in sent[-1]


BROKEN = Turn(text='data.json\n```\n{"a": 2,}\n```\n')
MENDED = Turn(text='data.json\n```\n{"a": 2}\n```\n')


@later
@pytest.mark.parametrize(
    ("turns", "holds"), [([BROKEN, MENDED, DONE], '{"a": 2}'), ([BROKEN] * 2 + [DONE], '{"a": 2,}')]
)
def test_write_breaking_file_held_once(shell: Shell, turns: Sequence[Turn], holds: str) -> None:
    (shell.cwd / "data.json").write_text('{"a": 1}\n')
    run = Run(shell, shell.serve(turns, models=SMALL, require_key=False), shell.cwd / "data.json")
    assert "could not be read any more" in run.sent("In data.json set a to 2")[1]
    assert run.notes.read_text().strip() == holds


@later
def test_failed_command_shows_files_to_mend(shell: Shell) -> None:
    (shell.cwd / "clock.py").write_text("def hours():\n    return 'gazebo' + 1\n")
    (shell.cwd / "test_clock.py").write_text("from clock import hours\n\nassert hours()\n")
    runs = Turn(text="```bash\npython3 test_clock.py\n```\n")
    for request, shown in (("Run the test and repair what fails.", True), ("Run the test.", False)):
        run = Run(shell, shell.serve([runs, DONE, DONE, DONE], models=SMALL, require_key=False), shell.cwd / "clock.py")
        sent = run.sent(request, code=EXIT_FAILED * shown)[1]
        assert ("clock.py\\n```\\ndef hours" in sent) == ("write the path clock.py on" in sent) == shown
        assert sent.count("gazebo") - 1 == shown  # the traceback has the line


def test_change_beside_task_left_out(shell: Shell) -> None:
    before = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
    both = Turn(text=f"sums.py\n```\n{before.replace('):', ') -> int:')}```\n")
    (shell.cwd / "sums.py").write_text(before)
    run = Run(shell, shell.serve([both, both, DONE, DONE], models=SMALL, require_key=False), shell.cwd / "sums.py")
    sent = run.sent("Add a type to one in sums.py. Change nothing else.")
    assert "your block changes two too" in sent[1] and "with two as it was" in sent[2]
    assert run.notes.read_text() == before.replace("one():", "one() -> int:")


def test_change_taken_back_with_what_was_beside_it(shell: Shell) -> None:
    before = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
    both, same = (
        Turn(text=f"sums.py\n```\n{text}```\n") for text in (before.replace("return ", "return 2 + "), before)
    )
    (shell.cwd / "sums.py").write_text(before)
    run = Run(shell, shell.serve([both, same, DONE], models=SMALL, require_key=False), shell.cwd / "sums.py")
    sent = run.sent("one in sums.py must return 3. Fix it.")
    assert "your block changes two too" in sent[1] and "with two as it was" in sent[2]
    assert run.notes.read_text() == before.replace("return 1", "return 2 + 1")


@pytest.mark.parametrize(
    ("request_", "command", "told"),
    [
        ("Remove the duplicates from notes.txt.", "python3 -c 'print(7)'", "with a program that reads notes.txt"),
        ("In notes.txt replace gazebo by veranda.", "sed s/gazebo/veranda/ notes.txt", "Write the path notes.txt on"),
        ("In notes.txt replace gazebo by veranda.", "sed -i s/gazebo/veranda/ notes.txt", ""),
        ("Change the mode of notes.txt to 600.", "chmod 600 notes.txt", ""),
        ("Remove notes.txt.", "rm notes.txt", ""),
    ],
)
def test_file_left_as_it_was_told(shell: Shell, request_: str, command: str, told: str) -> None:
    runs = Turn(text=f"```bash\n{command}\n```\n")
    run = Run(shell, shell.serve([runs, DONE, DONE], models=SMALL, require_key=False), shell.cwd / "notes.txt")
    run.notes.write_text("gazebo\n")
    sent = run.sent(request_, code=EXIT_FAILED * bool(told))
    assert len(sent) == 2 + bool(told)
    assert told in sent[-1]


@later
def test_command_that_meets_git_told_without(shell: Shell) -> None:
    runs = Turn(text="```bash\necho 'sed: ./.git/sedX: Device or resource busy'; exit 4\n```\n")
    run = Run(shell, shell.serve([runs, DONE, DONE], models=SMALL, require_key=False), shell.cwd / "notes.txt")
    run.notes.write_text("opensesame\n")
    sent = run.sent("Replace opensesame by gazebo in all files.", code=EXIT_FAILED)
    assert "-not -path './.git/*'" in sent[1] and "It failed, so nothing is done yet." in sent[2]


@later
def test_name_left_elsewhere_told(shell: Shell) -> None:
    (shell.cwd / "table.py").write_text("def load(): ...\n")
    for name in ("show.py", ".hidden", "secret.py", "loaded.py"):
        (shell.cwd / name).write_text("load()\n" if name != "loaded.py" else "loaded()\n")
    renames = Turn(text="table.py\n```\ndef load_table(): ...\n```\n")
    mends = Turn(text="```bash\nsed -i 's/load()/load_table()/' show.py\n```\n")
    run = Run(shell, shell.serve([renames, DONE, mends, DONE], models=SMALL, require_key=False), shell.cwd / "show.py")
    flags = ("--deny", "Read(secret.py)")
    sent = run.sent(*flags, "Rename the function load to load_table in table.py and in every file that uses it.")
    assert "load is still in show.py. If" in sent[2]
    assert run.notes.read_text() == "load_table()\n"
