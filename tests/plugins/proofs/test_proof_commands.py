"""Real runs of an agent, proven by the program and checked by it, and by our templates for CI."""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from proven_work import BOB, commit, git, make_key, put

from sagent.lib.json import as_array, as_object, as_str
from sagent.testing.server import Call, Turn
from tests.cli.program import CHECKOUT, PROGRAM, Outcome, Shell
from tests.depth import later

pytestmark = pytest.mark.needs("ssh-keygen")
TEMPLATES = CHECKOUT / "examples/ci"
EDIT = {"file_path": "a.py", "old_string": "return 0", "new_string": "return total / n"}


@pytest.fixture
def key(shell: Shell, tmp_path: Path) -> Path:
    """A repository in which an agent has worked on a branch, and the key of its person."""
    made = make_key(tmp_path, "ann")
    git(shell.cwd, "init", "-q")
    put(shell.cwd / "a.py", "def mean(total, n):\n    return 0\n")
    put(shell.cwd / ".sagent/allowed_signers", f"ann@example.org {made.with_suffix('.pub').read_text()}")
    commit(shell.cwd, "begin")
    git(shell.cwd, "checkout", "-q", "-b", "topic")
    turns = (Call("Read", {"file_path": "a.py"}), Call("Edit", EDIT), Call("Bash", {"command": "echo 3 passed"}))
    shell.serve([*(Turn(calls=(call,)) for call in turns), Turn("Done.")])
    assert shell.run("-p", "divide", "--permission-mode", "full").code == 0
    commit(shell.cwd, "Divide")
    return made


def prove(shell: Shell, key: Path, *flags: str, named: str = "main..HEAD") -> Outcome:
    return shell.run("prove", named, "--sign", str(key), *flags, model="")


def check(shell: Shell, *flags: str, file: str = "proof.tar") -> Outcome:
    return shell.run("check-proof", file, *flags, "--json", model="")


def test_run_is_proven_and_checked_without_sessions(shell: Shell, key: Path):
    made = prove(shell, key, "--quote", "echo", "--max-budget-usd", "1", "--json")
    assert made.code == 0, made.err
    assert made.json["lines"] == {"logs": 2, "people": {}, "moved": 0}
    shell.environment["HOME"] = str(shell.cwd.parent / "elsewhere")
    checked = check(shell, "--base", "main", "--fresh", "--model", "anthropic/claude-sonnet-4-6")
    assert checked.code == 0, checked.out
    assert (checked.json["ok"], checked.json["relation"]) == (True, "same")
    assert check(shell, "main..topic").code == 0
    shown = shell.run("check-proof", "proof.tar", "--base", "main", model="")
    assert shown.out.endswith("PROVEN\n")


def test_exit_codes_of_check(shell: Shell, key: Path):
    assert prove(shell, key).code == 0
    assert check(shell).code == 2  # nobody's signature would count
    assert check(shell, "--base", "nowhere").code == 2
    assert check(shell, "--base", "main", file="missing.tar").code == 2
    assert check(shell, "--base", "main", file="a.py").code == 1
    assert check(shell, "--base", "main", "--signers", "missing").code == 2
    assert check(shell, "--base", "main", "--text", "missing").code == 2
    assert prove(shell, key, named="topic..topic").code == 2
    assert prove(shell, key, "--quote", "no such command").code == 2
    assert prove(shell, shell.cwd / "a.py").code == 2


def test_signers_of_the_change_itself_do_not_count(shell: Shell, key: Path, tmp_path: Path):
    mallory = make_key(tmp_path, "mallory")
    put(shell.cwd / ".sagent/allowed_signers", f"ann@example.org {mallory.with_suffix('.pub').read_text()}")
    commit(shell.cwd, "Let me in")
    assert prove(shell, mallory).code == 0
    assert check(shell, "--base", "main").code == 1
    assert check(shell, "--base", "main", "--signers", ".sagent/allowed_signers").code == 2
    (shell.cwd / "link").symlink_to(".sagent/allowed_signers")
    assert check(shell, "--base", "main", "--signers", "link").code == 2


def test_removed_signer_does_not_count_for_old_bases(shell: Shell, key: Path, tmp_path: Path):
    file = str(tmp_path / "ann.tar")
    assert prove(shell, key, "--out", file).code == 0
    assert check(shell, "--base", "main", file=file).code == 0
    git(shell.cwd, "checkout", "-q", "main")
    bob = make_key(tmp_path, "bob").with_suffix(".pub").read_text()
    put(shell.cwd / ".sagent/allowed_signers", f"bob@example.org {bob}")
    commit(shell.cwd, "Ann has left")
    git(shell.cwd, "checkout", "-q", "topic")
    checked = check(shell, "--base", "main", file=file)
    assert checked.code == 1
    assert "not signed by a key" in checked.out


def test_second_person_approves(shell: Shell, key: Path, tmp_path: Path):
    bob = make_key(tmp_path, "bob")
    put(tmp_path / "signers", f"ann {key.with_suffix('.pub').read_text()}bob {bob.with_suffix('.pub').read_text()}")
    wanted = ("--base", "main", "--signers", str(tmp_path / "signers"), "--approvals", "1")
    assert prove(shell, key).code == 0
    assert check(shell, *wanted).code == 1
    approve = ("prove", "--approve", "proof.tar", "--sign")
    assert shell.run(*approve, str(key), model="").code == 0
    assert check(shell, *wanted).code == 1
    assert prove(shell, key).code == 0
    assert shell.run(*approve, str(bob), model="").code == 0
    assert shell.run(*approve, str(bob), model="").code == 0
    checked = check(shell, *wanted)
    assert (checked.code, checked.json["approvers"]) == (0, ["bob"])


def test_quotation_in_commit_message_is_checked(shell: Shell, key: Path):
    (quote,) = as_array(prove(shell, key, "--quote", "echo", "--json").json["quotes"])
    text = as_str(as_object(quote)["text"])
    git(shell.cwd, "commit", "-q", "--amend", "-m", f"Divide\n\n{text}")
    assert check(shell, "--base", "main").code == 0
    git(shell.cwd, "commit", "-q", "--amend", "-m", f"Divide\n\n{text.replace('3', '4')}")
    assert check(shell, "--base", "main").code == 1


# -- templates ---------------------------------------------------------------------------------------------------------


def load(file: Path) -> Mapping[str, object]:
    return as_object(yaml.load(file.read_text("utf-8"), yaml.BaseLoader))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The program where the first step of a job installs it."""
    file = tmp_path / "sagent/bin/sagent"
    put(file, f'#!/bin/sh\nexec {shlex.join(PROGRAM)} "$@"\n')
    file.chmod(0o755)
    return file


def act(shell: Shell, program: Path, body: str, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the last step of the action as a runner does, with the payload of a pull request."""
    action = load(TEMPLATES / "github/action.yml")
    given = {name: as_str(as_object(each).get("default")) for name, each in as_object(action["inputs"]).items()}
    given |= {name.replace("_", "-"): value for name, value in inputs.items()}
    step = as_object([*as_array(as_object(action["runs"])["steps"])][-1])
    variables = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: given[found[1]], as_str(text))
        for name, text in as_object(step["env"]).items()
    }
    base, head = git(shell.cwd, "rev-parse", "main"), git(shell.cwd, "rev-parse", "HEAD")
    pull = {"number": 7, "title": "Divide", "body": body, "base": {"sha": base}, "head": {"sha": head}}
    put(program.parents[2] / "event.json", json.dumps({"action": "opened", "number": 7, "pull_request": pull}))
    runner = {"RUNNER_TEMP": str(program.parents[2]), "GITHUB_EVENT_PATH": str(program.parents[2] / "event.json")}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", as_str(step["run"])],
        cwd=shell.cwd, env={**shell.environment, **runner, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.skipif(shutil.which("jq") is None, reason="the action needs jq, which every runner has")
def test_action_checks_proof_of_pull_request(shell: Shell, key: Path, program: Path):
    made = prove(shell, key, "--quote", "echo", "--out", ".sagent/proof.tar", "--json").json
    text = as_str(as_object(as_array(made["quotes"])[0])["text"])
    commit(shell.cwd, "with its proof")
    inputs = {"operation": "proof", "proof_flags": "--max-budget-usd 5"}
    done = act(shell, program, f"Tested:\n\n{text}\n", **inputs)
    assert done.returncode == 0, done.stdout + done.stderr
    assert act(shell, program, f"Tested:\r\n\r\n{text.replace('3', '4')}\n", **inputs).returncode == 1
    put(shell.cwd / "a.py", (shell.cwd / "a.py").read_text() + "evil()\n")
    commit(shell.cwd, "one more", BOB)
    done = act(shell, program, "", **inputs)
    assert done.returncode == 1
    assert "a.py:3" in done.stdout


def gitlab(shell: Shell, program: Path, origin: Path, description: str) -> subprocess.CompletedProcess[str]:
    """Run the job as a runner does, without its first lines, which install."""
    job = as_object(load(TEMPLATES / "gitlab/sagent-proof.yml")["sagent-proof"])
    given = {name: as_str(value) for name, value in as_object(job["variables"]).items()}
    url = "https://gitlab-ci-token:t@gitlab.test:8443/group/project.git"
    given |= {
        "CI_SERVER_PROTOCOL": "https", "CI_SERVER_URL": "https://gitlab.test:8443", "CI_JOB_TOKEN": "t",
        "CI_MERGE_REQUEST_PROJECT_PATH": "group/project", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_MERGE_REQUEST_DESCRIPTION": description, "PATH": f"{program.parent}:{shell.environment['PATH']}",
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{origin}.insteadOf", "GIT_CONFIG_VALUE_0": url,
    }  # fmt: skip
    script = "\n".join(as_str(line) for line in as_array(job["script"])[2:])
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=shell.cwd, env={**shell.environment, **given}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@later
def test_gitlab_job_checks_proof_of_merge_request(shell: Shell, key: Path, program: Path, tmp_path: Path):
    assert prove(shell, key, "--out", ".sagent/proof.tar").code == 0
    commit(shell.cwd, "with its proof")
    origin = tmp_path / "origin.git"
    git(tmp_path, "clone", "-q", "--bare", str(shell.cwd), str(origin))
    done = gitlab(shell, program, origin, "It's `fine`, $(touch owned)")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (shell.cwd / "owned").exists()
    assert as_object(json.loads((shell.cwd / "proof-check.json").read_text()))["ok"] is True
    put(shell.cwd / "a.py", "evil()\n")
    commit(shell.cwd, "one more", BOB)
    assert gitlab(shell, program, origin, "").returncode == 1


def test_templates_have_no_key_and_write_nothing():
    workflow = load(TEMPLATES / "github/sagent-proof.yml")
    assert as_object(workflow["permissions"]) == {}
    assert "pull_request_target" not in as_object(workflow["on"])
    jobs = as_object(workflow["jobs"])
    assert [as_object(job)["permissions"] for job in jobs.values()] == [{"contents": "read"}]
    texts = [(TEMPLATES / name).read_text() for name in ("github/sagent-proof.yml", "gitlab/sagent-proof.yml")]
    assert not any("secrets." in text or "GITLAB_TOKEN" in text for text in texts)


def test_verify_of_a_proof_names_its_own_check(shell: Shell, key: Path, tmp_path: Path):
    assert prove(shell, key).code == 0
    shutil.unpack_archive(shell.cwd / "proof.tar", tmp_path / "unpacked", filter="data")
    for path in (shell.cwd / "proof.tar", tmp_path / "unpacked"):
        done = shell.run("verify", str(path), model="")
        assert done.code == 2 and done.out == ""
        (sentence,) = done.err.splitlines()
        assert f"sagent check-proof {path}" in sentence


def test_range_from_the_very_first_commit_is_proven(shell: Shell, key: Path, tmp_path: Path):
    signers = tmp_path / "signers"
    signers.write_bytes((shell.cwd / ".sagent/allowed_signers").read_bytes())
    made = prove(shell, key, "--json", named="main^..HEAD")
    assert made.code == 0, made.err
    assert made.json["base"] == ""
    assert made.json["lines"] == {"logs": 1, "people": {"Ann <ann@example.org>": 2}, "moved": 0}
    for words in (("main^..HEAD",), ("--base", "main^"), ()):
        checked = check(shell, *words, "--signers", str(signers))
        assert checked.code == 0 and checked.json["relation"] == "same", checked.out
        unsigned = check(shell, *words)  # no commit before the change can name signers
        assert unsigned.code == 2 and "--signers" in unsigned.err
    assert check(shell, "main..HEAD", "--signers", str(signers)).code == 1
    put(shell.cwd / "b.py", "one = 1\n")
    commit(shell.cwd, "One more")
    assert check(shell, "main^..HEAD", "--signers", str(signers)).code == 1
    assert prove(shell, key, named="main~2..HEAD").code == 2
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{shell.cwd}", "shallow")
    shell.cwd = tmp_path / "shallow"  # its only commit has parents, which are not there
    cut = prove(shell, key, named="HEAD^..HEAD")
    assert cut.code == 2 and "fetch" in cut.err
