"""What we offer for CI: pinned, without rights that it does not need, and its scripts do what they say."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from github_api import Repository, github
from gitlab_api import gitlab
from reviewed import BAD, answer, event, two_commits

from sagent.lib.json import as_array, as_object, as_str
from sagent.testing.server import Call, Turn
from tests.cli.program import CHECKOUT, PROGRAM, Shell
from tests.depth import later

TEMPLATES = CHECKOUT / "examples/ci"
FILES = sorted(TEMPLATES.rglob("*.yml"))


def load(file: Path) -> Mapping[str, object]:
    return as_object(yaml.load(file.read_text("utf-8"), yaml.BaseLoader))


def steps(value: object) -> Iterator[Mapping[str, object]]:
    """The steps of a workflow or an action, wherever they are."""
    members = as_object(value) if isinstance(value, dict) else {}
    for name, inner in members.items():
        if name == "steps":
            yield from map(as_object, as_array(inner))
        else:
            yield from steps(inner)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_actions_pinned_and_events_not_in_shell(file: Path) -> None:
    for step in steps(load(file)):
        assert "${{" not in as_str(step.get("run")), step
        if uses := as_str(step.get("uses")):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", uses), uses
        if "checkout" in as_str(step.get("uses")):
            assert as_object(step["with"])["persist-credentials"] == "false"


@pytest.mark.parametrize("name", ["sagent-review.yml", "sagent-fix.yml", "sagent-solve.yml"])
def test_no_job_has_key_and_write_access(name: str) -> None:
    workflow = load(TEMPLATES / "github" / name)
    assert as_object(workflow["permissions"]) == {}
    assert "pull_request_target" not in as_object(workflow["on"])
    for job in map(as_object, as_object(workflow["jobs"]).values()):
        has_key = "secrets." in json.dumps(job)
        writes = "write" in as_object(job["permissions"]).values()
        assert not (has_key and writes) or name == "sagent-fix.yml"
        assert "timeout-minutes" in job
        if has_key and name == "sagent-review.yml":
            assert "head.repo.full_name == github.repository" in as_str(job["if"])


@pytest.fixture
def api() -> Iterator[Repository]:
    with github() as repository:
        repository.shown = {"a.py": {1, 2}}
        yield repository


def act(shell: Shell, place: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the action's second step as a runner does; the first has installed the program."""
    program = place / "sagent/bin/sagent"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.join(PROGRAM)} "$@"\n')
    program.chmod(0o755)
    action = load(TEMPLATES / "github/action.yml")
    given = {name: as_str(as_object(each).get("default")) for name, each in as_object(action["inputs"]).items()}
    given |= {name.replace("_", "-"): value for name, value in inputs.items()}
    step = list(steps(action))[-1]
    variables = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: given[found[1]], as_str(text))
        for name, text in as_object(step["env"]).items()
    }
    runner = {"RUNNER_TEMP": str(place), "GITHUB_EVENT_PATH": str(shell.cwd / ".git/event.json")}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", as_str(step["run"])],
        cwd=shell.cwd, env={**shell.environment, **runner, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@later
def test_action_reviews_and_posts_apart(shell: Shell, api: Repository, tmp_path: Path) -> None:
    event(shell, two_commits(shell))
    shell.serve([answer(BAD)])
    shell.environment["GITHUB_API_URL"] = api.url
    done = act(shell, tmp_path, operation="review", model="anthropic/claude-sonnet-4-6", token="unused")
    assert done.returncode == 0, done.stderr
    assert api.calls == []
    del shell.environment["ANTHROPIC_API_KEY"]
    done = act(shell, tmp_path, operation="post", token="t", fail_on="high")
    assert done.returncode == 7, done.stderr
    assert done.stdout.startswith("::error file=a.py,line=2")
    assert len(api.lines) == 1
    os.unlink(shell.cwd / "sagent-review.json")
    assert act(shell, tmp_path, operation="post", token="t").returncode == 0


def run_job(shell: Shell, place: Path, name: str) -> subprocess.CompletedProcess[str]:
    """Run a job of GitLab as a runner does, without its first lines, which install."""
    program = place / "sagent"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(PROGRAM)} "$@"\n')
    program.chmod(0o755)
    job = as_object(load(TEMPLATES / "gitlab/sagent-review.yml")[name])
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", "\n".join(as_str(line) for line in as_array(job["script"])[2:])],
        cwd=shell.cwd, env={**shell.environment, "PATH": f"{place}:{shell.environment['PATH']}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@later
@pytest.mark.costly
@pytest.mark.parametrize("token", ["glpat-x", ""])
def test_gitlab_job_reviews_and_posts(shell: Shell, tmp_path: Path, token: str) -> None:
    shell.serve([answer(BAD)])
    with gitlab() as project:
        shell.environment |= project.begin(*two_commits(shell)) | {"GITLAB_TOKEN": token, "SAGENT_FAIL_ON": "high"}
        done = run_job(shell, tmp_path, "sagent-review")
    assert done.returncode == 7, done.stderr
    assert (len(project.lines), len(project.notes)) == ((1, 1) if token else (0, 0))
    (row,) = json.loads((shell.cwd / "gl-code-quality-report.json").read_text())
    assert row["location"] == {"path": "a.py", "lines": {"begin": 2}}


@later
def test_gitlab_fix_pushes_only_its_changes(shell: Shell, tmp_path: Path) -> None:
    two_commits(shell)
    origin, url = tmp_path / "origin.git", "https://oauth2:glpat-x@gitlab.test:8443/group/project.git"
    subprocess.run(["git", "init", "-q", "--bare", origin], check=True)
    change = {"file_path": "a.py", "old_string": "total / n", "new_string": "total / max(n, 1)"}
    reads, edits = (Turn(calls=(each,)) for each in (Call("Read", {"file_path": "a.py"}), Call("Edit", change)))
    shell.serve([answer(BAD), reads, edits, Turn("Fixed.")])
    wanted = ("HEAD~1..HEAD", "--model", "anthropic/claude-sonnet-4-6", "--format", "json", "--out", "review.json")
    assert shell.run("review", *wanted, model="").code == 0
    shell.environment |= {
        "GITLAB_TOKEN": "glpat-x", "CI_SERVER_PROTOCOL": "https", "CI_SERVER_URL": "https://gitlab.test:8443",
        "CI_PROJECT_PATH": "group/project", "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "topic",
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{origin}.insteadOf", "GIT_CONFIG_VALUE_0": url,
    }  # fmt: skip
    (shell.cwd / ".gitlab-ci.yml").write_text("planted: {}\n")
    done = run_job(shell, tmp_path, "sagent-fix")
    assert done.returncode == 0, done.stderr
    shown = ["git", "-C", origin, "show", "--format=%s", "--name-only", "topic"]
    pushed = subprocess.run(shown, capture_output=True, text=True, check=True).stdout.split("\n")
    assert [line for line in pushed if line] == ["Fix the findings of a review", "a.py"]
    assert "glpat" not in done.stdout + done.stderr


def test_action_gates_and_rejects_unknown(shell: Shell, tmp_path: Path) -> None:
    pytest.importorskip("sagent.plugins.lab", reason="`sagent gate` is of the plugin lab")
    (shell.cwd / "result.json").write_text(json.dumps({"type": "result", "is_error": True, "result": ""}))
    assert act(shell, tmp_path, operation="gate", gate="result.json --min-pass 1").returncode == 1
    assert act(shell, tmp_path, operation="$(touch x)").returncode == 2
    assert not (shell.cwd / "x").exists()
