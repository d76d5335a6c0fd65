"""Isolated agents: each in a worktree, merged when it ends."""

import json
from collections.abc import Callable, Mapping, Sequence

from sagent.testing.server import Call, Received, Turn
from tests.cli.program import Shell
from tests.depth import later
from tests.worktrees import assert_nothing_left, git, worktrees_of

FREE = ("--permission-mode", "full", "--sandbox", "off")


def spawn(prompt: str, **more: object) -> Call:
    return Call("AgentSpawn", {"prompt": prompt, "isolation": "worktree", **more})


def script(root: Sequence[Turn], children: Mapping[str, Sequence[Turn]]) -> Callable[[Received], Turn]:
    """Answer each agent by its own turns; a child is known by a word of its prompt."""

    def answer(request: Received) -> Turn:
        messages = json.loads(request.body)["messages"]
        first = json.dumps(messages[0])
        turns = next((turns for word, turns in children.items() if word in first and "Your task" in first), root)
        return turns[sum(each["role"] == "assistant" for each in messages)]

    return answer


def bash(command: str) -> list[Turn]:
    return [Turn(calls=(Call("Bash", {"command": command}),)), Turn(text="Done by me.")]


def test_children_do_not_write_over_each_other(project: Shell) -> None:
    (project.cwd / "a.txt").write_text("mine\none\ntwo\nthree\n")
    children = {
        "FIRST": bash(
            "grep -q mine a.txt && echo 1 > same.tmp && sed -i s/one/ONE/ a.txt && cat same.tmp; rm same.tmp"
        ),
        "SECOND": bash("test ! -e same.tmp && echo 2 > same.tmp && sed -i s/three/THREE/ a.txt; rm same.tmp"),
    }
    root = [Turn(calls=(spawn("FIRST"), spawn("SECOND"))), Turn(text="All done.")]
    server = project.serve(script(root, children))
    done = project.run(*FREE, "go")
    assert (done.code, done.out) == (0, "All done.\n")
    assert (project.cwd / "a.txt").read_text() == "mine\nONE\ntwo\nTHREE\n"
    assert git(project.cwd, "status", "--short") == " M a.txt"
    assert server.requests[-1].body.count(b"Its changes are merged into your files: 1 file +1 -1.") == 2
    assert_nothing_left(project)


@later
def test_conflict_is_kept_and_told(project: Shell) -> None:
    children = {"FIRST": bash("sed -i s/two/first/ a.txt"), "SECOND": bash("sed -i s/two/second/ a.txt")}
    root = [Turn(calls=(spawn("FIRST", name="one"), spawn("SECOND", name="two"))), Turn(text="All done.")]
    server = project.serve(script(root, children))
    done = project.run(*FREE, "go")
    assert b"not merged: It conflicts with changes here in a.txt." in server.requests[-1].body
    assert "sagent worktree diff" in done.err
    (kept,) = worktrees_of(project)
    assert kept.name in ("one-1", "two-1")
    assert project.run("worktree", "drop", kept.name, model="").code == 0
    assert_nothing_left(project)


def test_denied_file_is_not_merged(project: Shell) -> None:
    root = [Turn(calls=(spawn("FIRST"),)), Turn(text="All done.")]
    server = project.serve(script(root, {"FIRST": bash("echo x >> b.txt")}))
    project.run(*FREE, "--deny", f"Edit({project.cwd}/b.txt)", "go")
    assert b"denies Write on" in server.requests[-1].body
    assert (project.cwd / "b.txt").read_text() == "b\n" and len(worktrees_of(project)) == 1


@later
def test_described_agent_is_isolated(project: Shell) -> None:
    folder = project.cwd / ".sagent/agents"
    folder.mkdir(parents=True)
    (folder / "fixer.md").write_text("---\nname: fixer\ndescription: fixes\nisolation: worktree\n---\nFix it.\n")
    git(project.cwd, "add", ".")
    git(project.cwd, "commit", "-qm", "agent")
    root = [Turn(calls=(Call("AgentSpawn", {"prompt": "FIRST", "agent": "fixer"}),)), Turn(text="All done.")]
    server = project.serve(script(root, {"FIRST": bash("pwd; git commit -q --allow-empty -m 'By the fixer'")}))
    project.run(*FREE, "go")
    assert b"/fixer-1" in server.requests[-2].body
    assert git(project.cwd, "log", "-1", "--format=%s") == "By the fixer"
    assert_nothing_left(project)


@later
def test_commits_in_the_sandbox(project: Shell) -> None:
    plant = "echo '[core] fsmonitor=x' >> $(git rev-parse --git-common-dir)/config"
    command = f"echo 1 >> a.txt; git commit -qam inside && git log -1 --format=%s; {plant}"
    root = [Turn(calls=(spawn("FIRST"),)), Turn(text="All done.")]
    server = project.serve(script(root, {"FIRST": bash(command)}))
    project.run("--permission-mode", "edit", "go")
    assert b"inside" in server.requests[-2].body
    assert "fsmonitor" not in (project.cwd / ".git/config").read_text()
    assert git(project.cwd, "log", "-1", "--format=%s") == "inside"
    assert_nothing_left(project)


@later
def test_persistent_agent_is_not_isolated(project: Shell) -> None:
    root = [Turn(calls=(spawn("FIRST", persistent=True),)), Turn(text="All done.")]
    server = project.serve(script(root, {}))
    project.run(*FREE, "go")
    assert b"leave out persistent, or isolation" in server.requests[-1].body


def test_isolation_is_not_offered_without_git(shell: Shell) -> None:
    server = shell.serve([Turn(text="Hello.")])
    shell.run("go")
    assert b'"isolation":' not in server.requests[0].body


@later
def test_merge_is_undone_by_rewind(project: Shell) -> None:
    root = [Turn(calls=(spawn("FIRST"),)), Turn(text="All done."), Turn(text="Again.")]
    project.serve(script(root, {"FIRST": bash("echo 1 >> a.txt; echo n > new.txt")}))
    project.run(*FREE, "go")
    assert (project.cwd / "new.txt").exists()
    project.run(*FREE, "--continue", "/rewind 1 files")
    assert git(project.cwd, "status", "--short") == ""


@later
def test_described_isolation_without_git(shell: Shell) -> None:
    folder = shell.cwd / ".sagent/agents"
    folder.mkdir(parents=True)
    (folder / "fixer.md").write_text("---\nname: fixer\ndescription: fixes\nisolation: worktree\n---\nFix it.\n")
    root = [Turn(calls=(Call("AgentSpawn", {"prompt": "FIRST", "agent": "fixer"}),)), Turn(text="All done.")]
    server = shell.serve(script(root, {}))
    assert shell.run(*FREE, "go").code == 0
    assert b"is in no git repository" in server.requests[-1].body
