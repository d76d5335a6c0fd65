"""The checks of `make eval`: the untouched files fail, a right way passes, plausible wrong ones fail."""

from pathlib import Path
from typing import assert_never

import pytest

from tests.eval.checks import Work, contents
from tests.eval.suites import Edit, FolderTask, Say, Steps, Task, Write, chosen, folder_tasks, git
from tests.eval.tasks import TASKS

WRONG = [(task, number) for task in TASKS for number in range(len(task.wrong))]


def judged(task: Task, folder: Path, steps: Steps) -> str | None:
    """Return what a task's checks say of some steps."""
    folder.mkdir()
    task.lay(folder)
    before = contents(folder)
    words: list[str] = []
    for step in steps:
        match step:
            case Edit(path, old, new):
                text = (folder / path).read_text("utf-8")
                assert text.count(old) == 1, f"{path} does not hold {old!r} once"
                (folder / path).write_text(text.replace(old, new), "utf-8")
            case Write() if step.text is None:
                (folder / step.path).unlink()
            case Write():
                (folder / step.path).write_text(step.text or "", "utf-8")
            case Say(text):
                words.append(text)
            case _:
                assert_never(step)
    return task.judge(Work(folder, before, "\n".join(words), words[-1] if words else ""))


def test_thirty_distinct_tasks_with_wrong_way() -> None:
    assert len({task.name for task in TASKS}) == len(TASKS) == 30
    assert all(task.wrong for task in TASKS)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_untouched_files_fail_right_way_passes(task: Task, tmp_path: Path) -> None:
    assert judged(task, tmp_path / "untouched", ()) is not None
    assert judged(task, tmp_path / "right", task.right) is None


@pytest.mark.parametrize(("task", "number"), WRONG, ids=[f"{task.name}-{number}" for task, number in WRONG])
def test_wrong_way_fails(task: Task, number: int, tmp_path: Path) -> None:
    assert judged(task, tmp_path / "wrong", task.wrong[number]) is not None


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_right_way_with_stray_change_fails(task: Task, tmp_path: Path) -> None:
    assert "stray.txt" in (judged(task, tmp_path / "stray", (*task.right, Write("stray.txt", "x\n"))) or "")


def test_caches_of_tools_are_no_change(tmp_path: Path) -> None:
    task = TASKS[0]
    task.lay(tmp_path)
    before = contents(tmp_path)
    for name in ("config/__pycache__/defaults.pyc", ".aider.chat.history.md", ".pytest_cache/README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert Work(tmp_path, before, "", "").changed() == set()


@pytest.mark.parametrize("name", ["git-message", "git-uncommitted"])
def test_git_question_fails_on_commit(name: str, tmp_path: Path) -> None:
    (task,) = [task for task in TASKS if task.name == name]
    task.lay(tmp_path)
    words = "\n".join(step.text for step in task.right if isinstance(step, Say))
    work = Work(tmp_path, contents(tmp_path), words, words)
    assert task.judge(work) is None
    git(tmp_path, "commit", "--allow-empty", "-qam", "Answer the question")
    assert task.judge(work) is not None


def test_folder_task_is_laid_and_judged(tmp_path: Path) -> None:
    home = tmp_path / "suite" / "01-read"
    (home / "files" / "sub").mkdir(parents=True)
    (home / "files" / "sub" / "a.txt").write_text("one\n")
    (home / "prompt.txt").write_text("Say two.\n")
    for path, mode in (("files/sub/a.txt", 0o444), ("files/sub", 0o555), ("files", 0o555)):
        (home / path).chmod(mode)
    (home / "check.py").write_text(
        "import pathlib, sys\n"
        "assert pathlib.Path('sub/a.txt').exists()\n"
        "sys.exit(0 if 'two' in pathlib.Path(sys.argv[1]).read_text() else 'no two')\n"
    )
    (tmp_path / "suite" / "notes").mkdir()
    (task,) = chosen(folder_tasks(tmp_path / "suite"), "read,other")
    assert isinstance(task, FolderTask)
    assert (task.name, task.prompt) == ("01-read", "Say two.")
    project = tmp_path / "project"
    project.mkdir()
    task.lay(project)
    assert [path.stat().st_mode & 0o200 for path in (project, project / "sub", project / "sub" / "a.txt")] == [
        0o200
    ] * 3
    assert task.judge(Work(project, contents(project), "it is two", "")) is None
    assert task.judge(Work(project, contents(project), "it is one", "two")) == "no two"
    assert not chosen(folder_tasks(tmp_path / "suite"), "write")
