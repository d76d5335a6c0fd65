"""`sagent review --gitlab`: a merge request by the variables of a job, on an API on loopback."""

import re
from collections.abc import Iterator

import pytest
from gitlab_api import Project, gitlab
from reviewed import BAD, KEY, answer, two_commits

from tests.cli.program import Outcome, Shell
from tests.depth import later

FIRST = {
    **BAD,
    "line": 1,
    "end_line": 1,
    "title": "First",
    "suggestion": "",
    "message": "See:\n/merge\n /close\n/\rmerge\n/\u200bmerge",
}


@pytest.fixture
def api(shell: Shell) -> Iterator[Project]:
    with gitlab() as project:
        shell.environment |= project.begin(*two_commits(shell))
        yield project


def run(shell: Shell, *argv: str) -> Outcome:
    return shell.run("review", "--gitlab", *argv, model="")


def test_review_posts_threads_and_note(shell: Shell, api: Project) -> None:
    shell.serve([answer(BAD, FIRST), answer(BAD, FIRST), answer({**BAD, "message": "else"})])
    done = run(shell)
    assert done.code == 0, done.err
    assert "2 added" in done.err
    assert [(each["position"]["new_line"], each["position"].get("old_line")) for each in api.lines] == [
        (1, 1),
        (2, None),
    ]
    (note,) = api.notes
    assert "$" in note["body"]
    assert "```suggestion:-0+0\nreturn total / max(n, 1)\n```" in api.lines[1]["body"]
    posted = "\n".join(each["body"] for each in (note, *api.lines))
    assert KEY not in posted
    assert "@team" not in posted
    assert not re.search(r"(?m)^\s*/\w", posted.replace("\r", ""))  # GitLab carries such lines out
    before = [dict(each) for each in api.lines]
    assert run(shell).code == 0
    assert (api.lines, len(api.notes)) == (before, 1)
    assert "1 changed, 1 no longer found" in run(shell).err
    assert api.lines[0]["body"].startswith("*No longer found.*")
    assert (len(api.lines), len(api.notes)) == (2, 1)
    assert api.tokens == {"glpat-x"}


@later
def test_multiline_suggestion_not_command(shell: Shell, api: Project) -> None:
    commands = ("x\n/merge", "\n\r/merge", "/\rmerge", "/\u200bmerge")
    shell.serve([answer({**BAD, "line": 1}, *({**BAD, "title": repr(each), "suggestion": each} for each in commands))])
    assert run(shell).code == 0
    bodies = "".join(each["body"] for each in api.lines)
    assert "suggestion:-1+0" in bodies
    assert (len(api.lines), bodies.count("suggestion:")) == (5, 1)


@later
def test_notes_of_others_are_never_changed(shell: Shell, api: Project) -> None:
    shell.serve([answer(BAD), answer(BAD)])
    assert run(shell).code == 0
    for thread in api.threads:
        thread["notes"][0]["author"] = {"id": 1, "username": "eve"}
    before = [dict(each) for each in (*api.lines, *api.notes)]
    assert "1 added" in run(shell).err
    assert (len(api.lines), len(api.notes)) == (2, 2)
    assert [api.lines[0], api.notes[0]] == before


@later
def test_paged_threads_read(shell: Shell, api: Project) -> None:
    for number in range(150):
        api.add(None, body=f"talk {number}", author={"id": 1})
    shell.serve([answer(BAD), answer(BAD)])
    assert run(shell).code == run(shell).code == 0
    assert (len(api.lines), len(api.notes)) == (1, 151)


def test_refused_or_excess_lines_left_out(shell: Shell, api: Project) -> None:
    api.kept = {}
    shell.serve([answer(FIRST, *({**BAD, "title": f"T{each}"} for each in range(5)))])
    done = run(shell, "--max-comments", "3")
    assert "2 added" in done.err
    assert "4 left out" in done.err
    assert "4 of them have no comment" in api.notes[0]["body"]


@pytest.mark.parametrize("source", ["evil/r", ""])
def test_fork_left_alone(shell: Shell, api: Project, source: str) -> None:
    shell.environment["CI_MERGE_REQUEST_SOURCE_PROJECT_PATH"] = source
    server = shell.serve([])
    done = run(shell)
    assert (done.code, "another repository" in done.err) == (0, True)
    assert api.calls == list(server.requests) == []


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("CI_MERGE_REQUEST_IID", "", "CI_MERGE_REQUEST_IID"),
        ("CI_PROJECT_ID", "../6", "CI_PROJECT_ID"),
        ("CI_COMMIT_SHA", "--output=x", "CI_COMMIT_SHA"),
        ("GITLAB_TOKEN", "", "GITLAB_TOKEN"),
        ("CI_API_V4_URL", "", "CI_API_V4_URL"),
    ],
)
def test_incomplete_job_told_what_is_missing(shell: Shell, api: Project, name: str, value: str, why: str) -> None:
    shell.environment[name] = value
    server = shell.serve([])
    done = run(shell)
    assert (done.code, why in done.err) == (2, True), done.err
    assert api.calls == list(server.requests) == []


@pytest.mark.parametrize("name", ["CI_API_V4_URL", "GITLAB_TOKEN"])
def test_bad_address_or_token_one_error(shell: Shell, api: Project, name: str) -> None:
    shell.environment[name] = "http://[é"
    shell.serve([])
    done = run(shell)
    assert (done.code, done.err.count("\n"), "Traceback" in done.err) == (1, 1, False), done.err


def test_refused_gitlab_spends_nothing(shell: Shell, api: Project) -> None:
    server = shell.serve([])
    api.fail = [(401, {})]
    done = run(shell)
    assert (done.code, "GitLab answered GET user with 401" in done.err, done.err.count("\n")) == (1, True, 1)
    del api.versions[0]
    done = run(shell)
    assert (done.code, "newest pipeline" in done.err, done.err.count("\n")) == (1, True, 1)
    assert not server.requests


@later
def test_failed_post_finished_next_run(shell: Shell, api: Project) -> None:
    shell.serve([answer(BAD, FIRST), answer(BAD, FIRST)])
    api.fail = [(0, {})] * 4 + [(500, {})]  # the second thread
    done = run(shell)
    assert (done.code, "500" in done.err, len(api.lines), len(api.notes)) == (1, True, 1, 0)
    assert "1 added" in run(shell).err
    assert (len(api.lines), len(api.notes)) == (2, 1)


@later
def test_review_posted_later_with_token(shell: Shell, api: Project) -> None:
    shell.serve([answer(BAD, FIRST)])
    del shell.environment["GITLAB_TOKEN"]
    assert run(shell, "--no-post", "--format", "json", "--out", ".git/review.json").code == 0
    assert api.calls == []
    shell.environment["GITLAB_TOKEN"] = "glpat-x"
    del shell.environment["ANTHROPIC_API_KEY"]
    assert run(shell, "--read", ".git/review.json", "--fail-on", "high").code == 7
    assert (len(api.lines), len(api.notes)) == (2, 1)
