"""`--worktree`: a run in a worktree, and what becomes of it."""

import json
import shutil
import signal
from pathlib import Path

import pytest

from sagent.testing.server import Call, Turn
from tests.cli.program import Shell
from tests.depth import later
from tests.waiting import wait_until
from tests.worktrees import assert_nothing_left, git, worktrees_of

FREE = ("--permission-mode", "full", "--sandbox", "off")


def writing(path: str, content: str) -> list[Turn]:
    return [Turn(calls=(Call("Write", {"file_path": path, "content": content}),)), Turn(text="Done.")]


def running(command: str) -> list[Turn]:
    return [Turn(calls=(Call("Bash", {"command": command}),)), Turn(text="Done.")]


def test_changes_are_kept_then_merged(project: Shell) -> None:
    project.serve(writing("new.txt", "x\n"))
    done = project.run(*FREE, "--worktree", "try", "-p", "go")
    assert (done.code, done.out) == (0, "Done.\n")
    assert "The worktree try is kept: 1 file +1 -0." in done.err
    assert not (project.cwd / "new.txt").exists() and git(project.cwd, "status", "--short") == ""
    assert "+x" in project.run("worktree", "diff", "try", model="").out
    merged = project.run("worktree", "merge", model="")
    assert merged.code == 0 and (project.cwd / "new.txt").read_text() == "x\n"
    assert_nothing_left(project)


def test_clean_worktree_is_dropped(project: Shell) -> None:
    project.serve([Turn(text="Hello.")])
    done = project.run("--worktree", "what is this?")
    assert done.code == 0 and "has no changes and is dropped" in done.err
    assert_nothing_left(project)


@later
def test_json_result_names_worktree(project: Shell) -> None:
    project.serve(writing("new.txt", "x\n"))
    found = project.run(*FREE, "--worktree", "try", "--json", "go").json["worktree"]
    assert isinstance(found, dict) and found["kept"] is True and found["branch"] == "sagent/try"
    assert found["files"] == [{"path": "new.txt", "added": 1, "removed": 0}]
    listed = json.loads(project.run("worktree", "list", "--json", model="").out)["worktrees"]
    assert [(each["name"], each["state"]) for each in listed] == [("try", "kept")]
    assert project.run("worktree", "drop", "try", model="").code == 0
    assert_nothing_left(project)


@later
def test_commits_are_merged_as_commits(project: Shell) -> None:
    project.serve(running("echo 1 >> a.txt; git commit -qam 'By the agent'; echo 2 >> b.txt"))
    project.run(*FREE, "--worktree", "try", "go")
    (project.cwd / "folder/c.txt").write_text("mine\n")
    assert project.run("worktree", "merge", "try", model="").code == 0
    assert git(project.cwd, "log", "-1", "--format=%s %an") == "By the agent Ann"
    assert git(project.cwd, "status", "--short") == " M b.txt\n M folder/c.txt"
    assert_nothing_left(project)


def test_conflict_changes_nothing(project: Shell) -> None:
    project.serve(running("sed -i s/two/agent/ a.txt; echo more >> b.txt"))
    project.run(*FREE, "--worktree", "try", "go")
    (project.cwd / "a.txt").write_text("one\nmine\nthree\n")
    done = project.run("worktree", "merge", "try", model="")
    assert done.code == 2 and "conflicts with changes here in a.txt" in done.err
    assert (project.cwd / "b.txt").read_text() == "b\n" and len(worktrees_of(project)) == 1


@later
def test_conflicting_commits_change_nothing(project: Shell) -> None:
    project.serve(running("sed -i s/two/agent/ a.txt; git commit -qam x"))
    project.run(*FREE, "--worktree", "try", "go")
    (project.cwd / "a.txt").write_text("one\nmine\nthree\n")
    git(project.cwd, "commit", "-qam", "mine")
    done = project.run("worktree", "merge", "try", model="")
    assert done.code == 2 and "conflicts with changes here in a.txt" in done.err
    assert git(project.cwd, "status", "--short") == ""


@later
def test_dirty_tree_is_left_or_taken(project: Shell) -> None:
    (project.cwd / "a.txt").write_text("one\nmine\nthree\n")
    (project.cwd / "untracked").write_text("u\n")
    project.serve(running("cat a.txt untracked; echo agent >> a.txt"))
    left = project.run(*FREE, "--worktree", "left", "go")
    assert "Your uncommitted changes (2 files) are not in it" in left.err
    server = project.serve(running("cat a.txt untracked; echo agent >> a.txt"))
    project.run(*FREE, "--worktree", "taken", "--worktree-changes", "take", "go")
    assert b"mine" in server.requests[1].body
    shown = project.run("worktree", "diff", "taken", model="").out
    assert "+agent" in shown and "+mine" not in shown
    assert project.run("worktree", "merge", "taken", model="").code == 0
    assert (project.cwd / "a.txt").read_text() == "one\nmine\nthree\nagent\n"
    project.run("worktree", "drop", "left", model="")
    assert_nothing_left(project)


@later
def test_needed_files_and_setup(project: Shell) -> None:
    (project.cwd / ".env").write_text("KEY=1\n")
    server = project.serve(running("cat .env made"))
    flags = ("--worktree-copy", ".env,nothing/*", "--worktree-setup", "echo ready > made")
    done = project.run(*FREE, *flags, "--worktree", "try", "go")
    assert b"KEY=1" in server.requests[1].body and b"ready" in server.requests[1].body
    assert "is dropped" in done.err  # what a setup makes is no change
    failed = project.run(*FREE, "--worktree-setup", "echo broken; exit 3", "--worktree", "try", "go")
    assert failed.code == 2 and "ended with exit code 3: broken" in failed.err
    refused = project.run("--worktree-copy", "../x", "--worktree", "try", "go")
    assert refused.code == 2 and "below the repository's top directory" in refused.err
    assert_nothing_left(project)


@later
def test_submodule_is_checked_out(project: Shell) -> None:
    project.cwd = project.cwd.parent / "modular"
    server = project.serve(running("cat sub/inner.txt; git -C sub status --short"))
    assert "is dropped" in project.run(*FREE, "--worktree", "try", "go").err
    assert b'"in"' in server.requests[1].body
    project.serve(running("echo x >> sub/inner.txt"))
    assert "changes in the submodule sub" in project.run(*FREE, "--worktree", "try", "go").err
    refused = project.run("worktree", "merge", "try", model="")
    assert refused.code == 2 and "fetch" in refused.err
    assert project.run("worktree", "drop", "try", model="").code == 0
    assert_nothing_left(project)


@later
def test_existing_worktree_is_continued(project: Shell) -> None:
    project.serve(writing("one.txt", "1\n"))
    project.run(*FREE, "--worktree", "try", "go")
    project.serve(writing("two.txt", "2\n"))
    done = project.run(*FREE, "--worktree", "try", "go")
    assert "Continues in the worktree try" in done.err and "2 files +2 -0" in done.err


@later
def test_run_in_subdirectory(project: Shell) -> None:
    root = project.cwd
    project.cwd = root / "folder"
    server = project.serve(running("pwd; cat c.txt"))
    project.run(*FREE, "--worktree", "try", "go")
    assert b"/try/folder" in server.requests[1].body
    project.cwd = root
    assert_nothing_left(project)


REFUSED = {
    "no repository": ("cd .. && mkdir plain", "../plain", "is in no git repository"),
    "bare": ("git clone -q --bare . ../bare", "../bare", "is a bare repository"),
    "no commit": ("git init -q ../empty", "../empty", "has no commit yet"),
    "branch exists": ("git branch sagent/try", ".", "The branch sagent/try exists already"),
    "branch in the way": ("git branch sagent", ".", "git worktree failed"),
    "filters": ("git config filter.x.clean cat", ".", "names filters"),
}


@later
@pytest.mark.parametrize("case", REFUSED)
def test_refusal_is_one_sentence(project: Shell, case: str) -> None:
    import subprocess

    line, place, said = REFUSED[case]
    subprocess.run(["bash", "-ec", line], cwd=project.cwd, check=True)
    root, project.cwd = project.cwd, (project.cwd / place).resolve()
    project.serve([Turn(text="Hello.")])
    done = project.run("--worktree", "try", "go")
    assert done.code == 2 and said in done.err and len(done.err.splitlines()) == 1
    assert worktrees_of(project) == []
    assert git(root, "worktree", "list").count("\n") == 0


@later
def test_detached_head(project: Shell) -> None:
    git(project.cwd, "checkout", "-q", "--detach")
    head = git(project.cwd, "rev-parse", "HEAD")
    project.serve(running("echo 1 >> a.txt; git commit -qam x"))
    project.run(*FREE, "--worktree", "try", "go")
    assert project.run("worktree", "merge", "try", model="").code == 0
    assert git(project.cwd, "rev-parse", "HEAD") == head and git(project.cwd, "status", "--short") == " M a.txt"
    assert_nothing_left(project)


def test_killed_run_is_repaired(project: Shell) -> None:
    server = project.serve([*writing("new.txt", "x\n")[:1], Turn(text="late", delay=60)])
    child = project.start(*FREE, "--worktree", "try", "go")
    while len(server.requests) < 2:
        assert child.poll() is None
    busy = project.run("worktree", "drop", "try", model="")
    assert busy.code == 2 and "in use by another process" in busy.err
    child.send_signal(signal.SIGKILL)
    child.wait()
    project.serve([Turn(text="Hello.")])
    done = project.run("--worktree", "go")
    assert "The worktree try was left by a process that was killed: 1 file +1 -0." in done.err
    assert "killed" not in project.run("worktree", "list", model="").err  # said once
    project.run("worktree", "drop", "try", model="")
    assert_nothing_left(project)


@later
def test_killed_while_made(project: Shell) -> None:
    ready = project.cwd.parent / "ready"
    child = project.start("--worktree-setup", f"touch '{ready}'; sleep 60", "--worktree", "try", "go")
    while not ready.exists():
        assert child.poll() is None
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert "try was left by a process that was killed, and is removed" in project.run("worktree", model="").err
    assert_nothing_left(project)


@later
def test_foreign_record_is_not_believed(project: Shell) -> None:
    project.serve(writing("new.txt", "x\n"))
    project.run(*FREE, "--worktree", "try", "go")
    file = worktrees_of(project)[0].with_suffix(".json")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"path": str(Path.home())}))
    done = project.run("worktree", "drop", "try", model="")
    assert done.code == 2 and "There is no worktree" in done.err


@later
def test_branches_that_diverged_are_merged(project: Shell) -> None:
    project.serve(running("echo 1 >> a.txt; git commit -qam theirs"))
    project.run(*FREE, "--worktree", "try", "go")
    git(project.cwd, "rm", "-q", "b.txt")
    git(project.cwd, "commit", "-qm", "mine")
    (project.cwd / "folder/c.txt").write_text("mine\n")
    assert project.run("worktree", "merge", "try", model="").code == 0
    assert git(project.cwd, "log", "-1", "--format=%s %an") == "Merge sagent/try Ann"
    assert git(project.cwd, "status", "--short") == " M folder/c.txt"
    assert git(project.cwd, "ls-files") == ".gitignore\na.txt\nfolder/c.txt"
    assert_nothing_left(project)


@later
def test_project_chooses_no_setup_untrusted(project: Shell) -> None:
    evil, file = project.cwd.parent / "evil", project.cwd / ".sagent/config.toml"
    file.parent.mkdir()
    file.write_text(f'worktree_setup = "touch {evil}"\nworktree_copy = [".env"]\n')
    project.serve([Turn(text="Hello.")] * 2)
    project.run("--worktree", "try", "go")
    assert not evil.exists()
    assert project.run("--trust-project", "--worktree", "try", "go").code == 0
    assert evil.exists()


@later
def test_word_after_flag_is_the_name(project: Shell) -> None:
    project.serve([Turn(text="Hello.")])
    refused = project.run("--worktree", "hi")
    assert refused.code == 2 and "`hi` was read as the name of a worktree" in refused.err
    assert project.run("hi", "--worktree").out == "Hello.\n"
    assert_nothing_left(project)


def test_ended_setup_leaves_nothing(project: Shell) -> None:
    setup = f"touch {project.cwd}/begun; sleep 1000"
    child = project.start("--worktree", "--worktree-setup", setup, "go")
    wait_until(lambda: (project.cwd / "begun").exists())
    listed = project.run("worktree", "--json", model="")
    assert "is being made" in str(listed.json["worktrees"])
    child.terminate()
    assert child.wait() == 128 + signal.SIGTERM
    (project.cwd / "begun").unlink()
    assert_nothing_left(project)


def test_filters_of_the_person_are_not_run(project: Shell) -> None:
    ran = project.cwd.parent / "ran"
    filters = "".join(f"{name} = touch {ran}; cat\n" for name in ("clean", "smudge"))
    Path(project.environment["HOME"], ".gitconfig").write_text(f'[filter "lfs"]\n{filters}required = true\n')
    (project.cwd / ".gitattributes").write_text("*.txt filter=lfs\n")
    git(project.cwd, "add", ".")
    git(project.cwd, "commit", "-qm", "attributes")
    ran.unlink(missing_ok=True)
    project.serve(running("cat a.txt; echo 1 > new"))
    assert "is kept: 1 file +1 -0" in project.run(*FREE, "--worktree", "-p", "go now").err
    assert project.run("worktree", "merge", model="").code == 0
    assert not ran.exists()


def test_lost_worktree_is_listed(project: Shell) -> None:
    project.serve(writing("new.txt", "x\n"))
    project.run(*FREE, "--worktree", "-p", "go now")
    shutil.rmtree(worktrees_of(project)[0])
    assert "has lost its directory" in str(project.run("worktree", "--json", model="").json["worktrees"])
    assert project.run("worktree", "drop", model="").code == 0
    assert_nothing_left(project)
