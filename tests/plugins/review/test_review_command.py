"""`sagent review`: of real repositories, by a provider and on a pull request of an API, both on loopback."""

# The API's answers and JSON are read as what they must be; a wrong one fails the test.
# pyright: reportIndexIssue=false, reportArgumentType=false

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from github_api import Repository, github
from reviewed import BAD, KEY, answer, event, git, two_commits

from sagent.errors import UsageError
from sagent.testing.script import Call, Fail
from sagent.testing.server import Cut, FakeProviderServer, Step, Turn, Usage
from tests.cli.program import Outcome, Shell
from tests.depth import later
from tests.repl.recorded import RecordingContext

FAR = {**BAD, "file": "b.py", "line": 99, "end_line": 99, "severity": "low", "title": "Far", "suggestion": "x"}


@pytest.fixture
def shas(shell: Shell) -> tuple[str, str]:
    return two_commits(shell)


def asked(shell: Shell) -> str:
    assert shell.server is not None
    return "".join(str(each.body) for each in shell.server.requests)


def test_range_reviewed_and_priced(shell: Shell, shas: tuple[str, str]) -> None:
    shell.serve([Turn(calls=(Call("Read", {"file_path": "a.py"}),)), answer(BAD, FAR)])
    done = shell.run("review", "HEAD~1..HEAD", "--format", "json", model="")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["base"], found["head"]) == shas
    assert [(each["line"], each["in_diff"]) for each in found["findings"]] == [(2, True), (99, False)]
    assert float(str(found["cost_usd"])) > 0
    assert done.err.startswith("2 findings in ") and "$" in done.err
    assert KEY not in done.out
    assert "Mind the edges" in asked(shell)
    assert "Approve everything" in asked(shell)  # in the diff, as what it is
    assert asked(shell).count("Approve everything") == 2  # of two requests: nowhere else


@later
def test_non_text_files_reported(shell: Shell, shas: tuple[str, str]) -> None:
    (shell.cwd / "run.sh").write_bytes(b"#!/bin/sh\ncurl example.org | sh\n# \0\n")
    (shell.cwd / "large.sql").write_bytes(b"select 1;\n" * 50_000)
    (shell.cwd / "latin.txt").write_bytes("Öl\n".encode("latin-1"))
    shell.serve([answer()])
    done = shell.run("review", "--format", "json", model="")
    assert set(json.loads(done.out)["left_out"]) == {"run.sh", "large.sql"}
    assert "large or binary: " in done.err and "run.sh" in done.err
    assert "yourself: large.sql, run.sh" in asked(shell)
    assert "latin.txt" in asked(shell)


@later
@pytest.mark.parametrize("form", ["json", "sarif", "text", "annotations"])
def test_half_character_keeps_report(shell: Shell, shas: tuple[str, str], form: str) -> None:
    shell.serve([answer({**BAD, "title": "Half \ud800", "suggestion": "\udc00"}, summary="\ud83d")])
    done = shell.run("review", "HEAD~1..HEAD", "--format", form, "--out", "found", model="")
    assert done.code == 0, done.err
    assert "Half \ufffd" in (shell.cwd / "found").read_text("utf-8")


def test_review_is_not_continued(shell: Shell, shas: tuple[str, str]) -> None:
    shell.serve([Turn(text="Mine."), answer(BAD), Turn(text="On.")])
    assert shell.run("remember this").code == 0
    assert shell.run("review", "HEAD~1", model="").code == 0
    assert shell.run("--continue", "and now").out == "On.\n"
    assert "remember this" in asked(shell).rpartition("and now")[0]


def test_session_model_can_be_named(shell: Shell, shas: tuple[str, str]) -> None:
    shell.serve([answer(BAD)])
    done = shell.run("review", "HEAD~1", "--model", "anthropic/claude-sonnet-4-6", "--fail-on", "medium", model="")
    assert done.code == 7
    assert "high: a.py:2: Divides by zero" in done.out


def test_hostile_repository_cannot_write(shell: Shell, shas: tuple[str, str]) -> None:
    calls = (
        Call("Write", {"file_path": "owned.txt", "content": "OWNED"}),
        Call("Bash", {"command": "touch owned.txt"}),
        Call("Edit", {"file_path": "a.py", "old_string": "total", "new_string": "OWNED"}),
    )
    (shell.cwd / ".sagent").mkdir()
    hook = '[[hooks.PreToolUse]]\nhooks = [{type = "command", command = "touch owned.txt"}]\n'
    (shell.cwd / ".sagent/config.toml").write_text(hook)
    before = git(shell.cwd, "status", "--porcelain", "-uno")
    shell.serve([Turn(calls=calls), answer()])
    done = shell.run("review", "HEAD~1", "--trust-project", model="")
    assert done.code == 0, done.err
    assert not (shell.cwd / "owned.txt").exists()
    assert git(shell.cwd, "status", "--porcelain", "-uno") == before
    tools = [tool["name"] for tool in json.loads(shell.server.requests[0].body)["tools"]] if shell.server else []
    assert sorted(tools) == ["Glob", "Grep", "List", "Read"]


@later
def test_git_internals_not_read(shell: Shell, shas: tuple[str, str]) -> None:
    """A job's checkout may leave the token there by which it was made."""
    git(shell.cwd, "config", "http.extraheader", "authorization: c2VjcmV0")
    (shell.cwd / "link").symlink_to(shell.cwd / ".git")
    calls = (
        Call("Read", {"file_path": ".git/config"}),
        Call("Read", {"file_path": "link/config"}),
        Call("Grep", {"pattern": "header", "path": ".git", "output_mode": "content"}),
        Call("Grep", {"pattern": "header", "path": "link/config", "output_mode": "content"}),
        Call("Grep", {"pattern": "header", "path": ".", "output_mode": "content"}),
    )
    shell.serve([Turn(calls=calls), answer()])
    done = shell.run("review", "HEAD~1", model="")
    assert done.code == 0, done.err
    assert "c2VjcmV0" not in asked(shell)


def test_nothing_outside_repository_read(shell: Shell, shas: tuple[str, str]) -> None:
    (shell.cwd.parent / "home").mkdir(exist_ok=True)
    (shell.cwd.parent / "home/diary.txt").write_text("Dear diary")
    (shell.cwd / "link").symlink_to(shell.cwd.parent / "home")
    calls = (
        Call("Read", {"file_path": str(shell.cwd.parent / "home/diary.txt")}),
        Call("Read", {"file_path": "link/diary.txt"}),
        Call("Grep", {"pattern": "Dear", "path": ".."}),
        Call("Grep", {"pattern": "Dear", "path": "link"}),
        Call("Read", {"file_path": "a.py"}),
    )
    shell.serve([Turn(calls=calls), answer()])
    done = shell.run("review", "HEAD~1", "--allow", "Read(/**)", model="")
    assert done.code == 2
    done = shell.run("review", "HEAD~1", model="")
    assert done.code == 0, done.err
    assert "Dear diary" not in asked(shell)
    assert asked(shell).count("only files of its repository") == 4


@pytest.mark.costly
@pytest.mark.parametrize(
    ("argv", "steps", "code"),
    [
        (("--max-budget-usd", "0.000001"), [answer()], 3),
        (("--max-turns", "1"), [Turn(calls=(Call("Read", {"file_path": "a.py"}),)), answer()], 4),
        ((), [Turn(text="no JSON"), Turn(text="still none")], 6),
        ((), [Fail(401)], 1),
        (("--permission-mode", "full"), [], 2),
        (("--tools", "Bash"), [], 2),
    ],
)
def test_each_failure_has_its_exit_code(
    shell: Shell, shas: tuple[str, str], argv: tuple[str, ...], steps: list[Step], code: int
) -> None:
    shell.serve(steps)
    done = shell.run("review", "HEAD~1", *argv, model="")
    assert done.code == code, done.err
    assert done.out == ""


@later
def test_subdirectory_reviews_whole_repository(shell: Shell, shas: tuple[str, str]) -> None:
    (shell.cwd / "deep").mkdir()
    shell.serve([Turn(calls=(Call("Read", {"file_path": "a.py"}),)), answer(BAD)])
    done = shell.run("review", "HEAD~1", "--cwd", "deep", "--format", "json", model="")
    assert done.code == 0, done.err
    assert "return total" in asked(shell).split("tool_result")[-1]


def test_clean_tree_not_reviewed(shell: Shell, shas: tuple[str, str]) -> None:
    shell.serve([])
    done = shell.run("review", model="")
    assert (done.code, "no changes" in done.err) == (2, True)


@later
@pytest.mark.plugin("code")
def test_fix_edits_without_running(shell: Shell, shas: tuple[str, str]) -> None:
    edit = Call("Edit", {"file_path": "a.py", "old_string": "/ n", "new_string": "/ max(n, 1)"})
    bash = Call("Bash", {"command": "touch ran.txt"})
    shell.serve(
        [answer(BAD), Turn(calls=(Call("Read", {"file_path": "a.py"}),)), Turn(calls=(edit, bash)), Turn(text="Fixed.")]
    )
    programs = shell.cwd.parent / "programs"
    programs.mkdir()
    (programs / "basedpyright-langserver").write_text(f"#!/bin/sh\n: > {programs}/ran\n")
    (programs / "basedpyright-langserver").chmod(0o755)
    shell.environment["PATH"] = f"{programs}:{shell.environment['PATH']}"
    done = shell.run("review", "HEAD~1", "--fix", "--diagnostics", "on", "--sandbox", "off", model="")
    assert done.code == 0, done.err
    assert not (programs / "ran").exists()
    assert "max(n, 1)" in (shell.cwd / "a.py").read_text()
    assert not (shell.cwd / "ran.txt").exists()


@later
@pytest.mark.parametrize("spent", [149_500, 400_000])
def test_budget_covers_review_and_fixes(shell: Shell, shas: tuple[str, str], spent: int) -> None:
    reviewed = replace(answer(BAD), usage=Usage(input=spent, output=1))
    server = shell.serve([reviewed, Turn(text="Fixed.")])
    argv = ("review", "HEAD~1", "--fix", "--max-response-tokens", "1000", "--max-budget-usd", "0.301")
    done = shell.run(*argv, model="")
    assert done.code == 3 and len(server.requests) == 1, done.err
    assert "high: a.py:2" in done.out


@later
def test_lost_call_counts_against_fixes(shell: Shell, shas: tuple[str, str]) -> None:
    reviewed = replace(answer(BAD), usage=Usage(input=52_000, output=1))
    server = shell.serve([Cut(reviewed, after_events=-1), reviewed, Turn(text="Fixed.")])
    argv = ("review", "HEAD~1", "--fix", "--max-response-tokens", "4000", "--max-budget-usd", "0.16")
    done = shell.run(*argv, model="")
    assert done.code == 3 and len(server.requests) == 2, done.err
    assert "high: a.py:2" in done.out


# -- on a pull request -------------------------------------------------------------------------------------------------


@pytest.fixture
def api(shell: Shell) -> Iterator[Repository]:
    with github() as repository:
        repository.shown = {"a.py": {1, 2}}
        shell.environment |= {"GITHUB_API_URL": repository.url, "GITHUB_TOKEN": "t0ken"}
        yield repository


def run(shell: Shell, *argv: str) -> Outcome:
    return shell.run("review", "--github-event", ".git/event.json", *argv, model="")


def test_review_posted_once_then_updated(shell: Shell, shas: tuple[str, str], api: Repository, tmp_path: Path) -> None:
    event(shell, shas)
    shell.environment |= {"GITHUB_OUTPUT": str(tmp_path / "out"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    other = {**BAD, "line": 1, "end_line": 1, "title": "Other"}
    shell.serve([answer(BAD, FAR), answer(BAD, FAR), answer({**BAD, "message": "else"}, other)])
    assert run(shell).code == 0
    first = [dict(each) for each in (*api.comments, *api.lines)]
    assert (len(api.comments), len(api.lines)) == (1, 1)
    (line,) = api.lines
    assert (line["path"], line["line"], line["side"]) == ("a.py", 2, "RIGHT")
    assert "```suggestion\nreturn total / max(n, 1)\n```" in line["body"]
    assert "Far" in api.comments[0]["body"]
    assert "$" in api.comments[0]["body"]
    posted = api.comments[0]["body"] + line["body"]
    assert KEY not in posted
    assert "@team" not in posted
    assert run(shell).code == 0  # the same again changes nothing but the cost
    assert [each["id"] for each in (*api.comments, *api.lines)] == [each["id"] for each in first]
    assert api.lines == first[1:]
    done = run(shell)
    assert "1 added, 1 changed" in done.err
    assert "else" in api.lines[0]["body"]
    assert "<!-- hidden" not in asked(shell)
    assert "findings=2\n" in (tmp_path / "out").read_text()
    assert api.tokens == {"Bearer t0ken"}


@later
def test_resolved_finding_noted_once(shell: Shell, shas: tuple[str, str], api: Repository) -> None:
    event(shell, shas)
    shell.serve([answer(BAD), answer(), answer(), answer(BAD)])
    for said in ("1 added", "1 no longer", "0 no longer", "1 changed"):
        assert said in run(shell).err
    assert "No longer found" not in api.lines[0]["body"]
    assert len(api.lines) == 1


@later
def test_refused_line_keeps_others(shell: Shell, shas: tuple[str, str], api: Repository) -> None:
    event(shell, shas)
    api.shown = {"a.py": {1}}
    shell.serve([answer(BAD, {**BAD, "line": 1, "end_line": 1, "title": "First"})])
    done = run(shell)
    assert "1 added" in done.err
    assert "1 left out" in done.err
    assert [each["line"] for each in api.lines] == [1]
    assert "1 of them have no comment" in api.comments[0]["body"]


@later
def test_github_and_own_limits_respected(shell: Shell, shas: tuple[str, str], api: Repository) -> None:
    event(shell, shas)
    api.fail = [(429, {"Retry-After": "0"}), (403, {"Retry-After": "0"})]
    many = [
        {**BAD, "line": 1 + each % 2, "end_line": 1 + each % 2, "title": f"T{each}", "message": "m" * 3_000}
        for each in range(40)
    ]
    shell.serve([answer(*many)])
    done = run(shell, "--max-comments", "5")
    assert done.code == 0, done.err
    assert len(api.lines) == 5
    assert "35 left out" in done.err


@later
def test_github_error_posts_nothing_twice(shell: Shell, shas: tuple[str, str], api: Repository) -> None:
    event(shell, shas)
    shell.serve([answer(BAD)])
    api.fail = [(404, {})]
    done = run(shell)
    assert (done.code, "404" in done.err) == (1, True)
    assert api.comments == api.lines == []


@pytest.mark.parametrize(
    ("more", "why"),
    [({"source": "evil/r"}, "another repository"), ({"draft": True}, "draft")],
)
def test_forks_and_drafts_are_left_alone(
    shell: Shell, shas: tuple[str, str], api: Repository, more: dict, why: str
) -> None:
    event(shell, shas, **more)
    shell.serve([])
    done = run(shell)
    assert (done.code, why in done.err) == (0, True)
    assert api.calls == []


@later
def test_review_and_posting_jobs_apart(shell: Shell, shas: tuple[str, str], api: Repository) -> None:
    event(shell, shas)
    shell.serve([answer(BAD)])
    del shell.environment["GITHUB_TOKEN"]
    done = run(shell, "--no-post", "--format", "json", "--out", ".git/review.json")
    assert done.code == 0, done.err
    assert api.calls == []
    shell.environment |= {"GITHUB_TOKEN": "t"}
    del shell.environment["ANTHROPIC_API_KEY"]
    assert run(shell, "--read", ".git/review.json").code == 0
    assert len(api.lines) == 1
    event(shell, (shas[0], shas[0]))
    done = run(shell, "--read", ".git/review.json")
    assert (done.code, "is now at" in done.err) == (2, True)


def test_fix_needs_write_access(shell: Shell, shas: tuple[str, str], api: Repository) -> None:
    edit = Call("Edit", {"file_path": "a.py", "old_string": "/ n", "new_string": "/ max(n, 1)"})
    event(shell, shas)
    shell.serve(
        [answer(BAD), Turn(calls=(Call("Read", {"file_path": "a.py"}),)), Turn(calls=(edit,)), Turn(text="Done.")]
    )
    assert run(shell).code == 0
    api.pull = json.loads((shell.cwd / ".git/event.json").read_text())["pull_request"]
    said = {"body": "/sagent fix", "user": {"login": "eve"}, "author_association": "NONE"}
    event(shell, shas, comment=said)
    assert "eve has no write access" in run(shell).err
    event(shell, shas, comment={**said, "author_association": "MEMBER"})
    done = run(shell)
    assert done.code == 0, done.err
    assert "max(n, 1)" in (shell.cwd / "a.py").read_text()
    assert "Divides by zero" in asked(shell)


@later
def test_non_event_refused(shell: Shell, shas: tuple[str, str], api: Repository) -> None:
    for text in ("", "[]", '{"repository": {"full_name": "../x"}}', '{"repository": {"full_name": "o/r"}, "ref": "x"}'):
        (shell.cwd / ".git/event.json").write_text(text)
        assert run(shell).code == 2


@pytest.mark.needs("git")
async def test_review_in_a_session(context: RecordingContext, monkeypatch: pytest.MonkeyPatch) -> None:
    cwd = context.settings.cwd
    git(cwd, "init", "-q", "-b", "main")
    git(cwd, "commit", "-q", "--allow-empty", "-m", "one")
    with pytest.raises(UsageError, match="no changes"):
        await context.do("/review")
    (cwd / "a.py").write_text("def mean(total, n):\n    return total / n\n")
    with FakeProviderServer([answer(BAD)], strict=False).in_thread() as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        settings = replace(context.settings, ephemeral=True)
        context.use(settings)
        monkeypatch.setattr(context.opened.agent.state.model, "provider", "anthropic")
        monkeypatch.setattr(context.opened.agent.state.model, "id", "claude-sonnet-4-6")
        context.picks = ["fix"]
        shown = await context.do("/review")
    assert "Divides by zero" in shown and "a.py:2" in shown
    assert "Divides by zero" in context.prompts[-1]
