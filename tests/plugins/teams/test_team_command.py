"""`sagent team`, as real runs of the program: modes, money, failures, other families, `kill -9`, and its reports."""

# Parts of recordings, JSON and SDK objects are read as what they must be; a wrong one fails the test.
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false, reportIndexIssue=false, reportCallIssue=false
# pyright: reportOptionalIterable=false, reportOptionalSubscript=false

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.cli.main import run
from sagent.cost.prices import PriceBook
from sagent.events import Failure
from sagent.plugins.teams.command import progress
from sagent.plugins.teams.handoffs import RoleReport
from sagent.testing.server import Call, Fail, Received, Stall, Step, Turn, Usage
from tests.cli.program import Shell
from tests.depth import later
from tests.intact import faults
from tests.waiting import wait_until

USAGE = Usage(input=1_000, output=100)
TEAM = """
name = "crew"
mode = "{mode}"
{more}
[[roles]]
name = "one"
prompt = "The first part."
tools = "none"

[[roles]]
name = "two"
prompt = "The second part."
tools = ["Read"]

[[roles]]
name = "three"
prompt = "The third part."
tools = "none"
"""


def who(request: Received) -> str:
    """The role that asks."""
    found = re.search(r"You are (\w+), one role of the team", request.body.decode())
    return found[1] if found else "nobody"


def says(request: Received) -> Step:
    """Every role its own words."""
    return Turn(text=f"What {who(request)} found.", usage=USAGE)


def failing(role: str, step: Step) -> Callable[[Received], Step]:
    """The same, but for one."""
    return lambda request: step if who(request) == role else says(request)


@pytest.fixture
def crew(shell: Shell) -> Callable[..., str]:
    """Write a team's file; what is put in its place among the flags."""

    def write(mode: str = "sequential", more: str = "") -> str:
        (shell.cwd / "crew.toml").write_text(TEAM.format(mode=mode, more=more))
        return "crew.toml"

    return write


def team(shell: Shell, *argv: str, **more: str):
    """Run one."""
    return shell.run("team", "run", *argv, **{"model": "", **more})


MODEL = ("--model", "anthropic/claude-sonnet-4-6")


def sessions(shell: Shell) -> list[Path]:
    """Where they lie, the first one first."""
    home = Path(shell.environment["HOME"]) / ".local/state/sagent/sessions"
    return sorted(path.parent for path in home.rglob("root.jsonl"))


def test_answer_progress_and_reports(shell: Shell, crew) -> None:
    server = shell.serve(says)
    done = team(shell, crew(), *MODEL, "The task. password=hunter2", "--output", "out")
    assert (done.code, done.out) == (0, "What three found.\n")
    used = "1 turn, 1000 in, 100 out, $0.0045"
    *progress, head = done.err.splitlines()
    assert head.startswith("sagent: session ")
    assert progress == [
        line
        for role in ("one", "two", "three")
        for line in (
            f"{role} (anthropic/claude-sonnet-4-6): begins",
            f"{role} (anthropic/claude-sonnet-4-6): done, {used}",
        )
    ]
    assert [who(request) for request in server.requests] == ["one", "two", "three"]
    assert [len(request.json.get("tools", ())) for request in server.requests] == [0, 1, 0]
    assert (shell.cwd / "out" / "final.md").read_text() == "What three found.\n"
    report = (shell.cwd / "out" / "report.md").read_text()
    session = sessions(shell)[0]
    for words in (
        "# Team crew",
        "- Outcome: done",
        "> The task. password=[redacted: value]",
        "| two | anthropic/claude-sonnet-4-6 | done | 1 |",
        "| one | two | 15 B",
        "What one found.",
        "What three found.",
        f"sagent verify {session} --head ",
    ):
        assert words in report
    head = re.search(r"--head (\w{64})", report)
    assert head is not None
    assert faults(session, head[1]) == []


def test_planted_output_link_replaced(shell: Shell, crew) -> None:
    outside = shell.cwd.parent / "outside"
    outside.write_text("mine")

    def plants(request: Received) -> Step:
        if who(request) == "three":
            for name in ("final.md", "report.md"):
                (shell.cwd / "out" / name).symlink_to(outside)
        return says(request)

    shell.serve(plants)
    assert team(shell, crew(), *MODEL, "The task.", "--output", "out").code == 0
    assert outside.read_text() == "mine"
    assert (shell.cwd / "out" / "final.md").read_text() == "What three found.\n"


@pytest.mark.plugin("audit")
def test_json_has_roles_handoffs_costs(shell: Shell, crew) -> None:
    shell.serve(says)
    done = team(shell, crew(), *MODEL, "The task.", "--output-format", "json", "--visible-handoffs", "1")
    found = done.json
    assert (done.code, found["result"], found["is_error"], found["team"]) == (0, "What three found.", False, "crew")
    assert (found["visible_handoffs"], found["task"], found["num_turns"]) == (1, "The task.", 3)
    roles = found["roles"]
    assert isinstance(roles, list)
    assert [(role["name"], role["state"], role["text"], role["usd"]) for role in roles] == [
        (name, "done", f"What {name} found.", pytest.approx(0.0045)) for name in ("one", "two", "three")
    ]
    handoffs = found["handoffs"]
    assert isinstance(handoffs, list)
    assert [(each["from"], each["to"]) for each in handoffs] == [
        ("", "one"), ("one", "two"), ("two", "three"), ("three", ""),
    ]  # fmt: skip
    assert handoffs[2]["given"]["left_out"] == ["one"]
    assert re.fullmatch(r"[0-9a-f]{64}", handoffs[2]["given"]["prompt_sha256"])
    assert found["cost_by_role"] == pytest.approx({"one": 0.0045, "two": 0.0045, "three": 0.0045})
    saved = found["handoffs_saved"]
    assert saved["tokens"] > 0 and saved["usd"] > 0
    assert f"left out or cut: {saved['tokens']} tokens, ${saved['usd']:.4f}" in str(found["report"])
    assert str(found["report"]).startswith("# Team crew\n")
    assert Path(str(found["session_path"])) == sessions(shell)[0]
    logged = [json.loads(line) for line in (sessions(shell)[0] / "root.jsonl").read_text().splitlines()]
    assert [entry["id"] for entry in logged if entry["kind"] == "handoff"] == [each["entry"] for each in handoffs]
    assert logged[-1]["id"] == found["head"]


@later
@pytest.mark.plugin("audit")
def test_handoff_budgets_and_savings(shell: Shell, crew) -> None:
    words = "".join(f" {number:04}" for number in range(2_000))  # one word over and over would be cut while it comes
    long = Turn(text=f"begin{words} end.", usage=Usage(input=1_000, output=2_002))
    server = shell.serve(failing("one", long))
    file = crew(more="handoff_tokens = 100\nhandoff_bytes = 9000")
    done = team(shell, file, *MODEL, "The task.", "--handoff-bytes", "600", "--output-format", "json")
    assert done.code == 0, done.err
    assert (done.json["handoff_tokens"], done.json["handoff_bytes"]) == (100, 600)
    first, second = (handoff["given"] for handoff in done.json["handoffs"][:2])
    assert (first["handoff_tokens"], first["handoff_bytes"], "shown" in first) == (100, 600, False)
    assert 490 <= second["shown"]["one"] <= 502  # a twentieth of the tokens, by bytes
    assert len(server.requests[1].body) < 4_000
    saved = done.json["handoffs_saved"]["tokens"]
    assert saved == pytest.approx(2 * 1_902, abs=9)  # two roles were spared it
    assert f"one ({second['shown']['one']} B)" in str(done.json["report"])
    shown = shell.run("sessions", "show", done.json["session_id"], "--costs", model="")
    assert f"hand-offs  {saved} tokens, " in shown.out
    assert team(shell, file, *MODEL, "Go.", "--handoff-tokens", "0").code == 2


def test_stream_json_ends_with_the_result(shell: Shell, crew) -> None:
    shell.serve(says)
    done = team(shell, crew(), *MODEL, "The task.", "--output-format", "stream-json")
    assert (done.code, done.err) == (0, "")
    assert done.lines[-1]["type"] == "result"
    assert done.lines[-1]["result"] == "What three found."
    assert {str(line["agent"]) for line in done.lines} >= {"root", "root/one", "root/two", "root/three"}


def test_parallel_roles_asked_together(shell: Shell, crew) -> None:
    together = threading.Semaphore(0)
    seen: list[str] = []

    async def meet(request: Received) -> Step:
        import asyncio

        seen.append(who(request))
        if who(request) == "three":
            return says(request)
        async with asyncio.timeout(60):
            while not {"one", "two"} <= set(seen):
                await asyncio.sleep(0.01)
        together.release()
        return says(request)

    server = shell.serve(meet)
    done = team(shell, crew("parallel", 'editor = "three"'), *MODEL, "The task.")
    assert (done.code, done.out) == (0, "What three found.\n"), done.err
    last = server.requests[-1].body.decode()
    assert who(server.requests[-1]) == "three"
    assert "What one found." in last and "What two found." in last
    assert server.requests[1].at < server.answered[0]


def test_team_cap_holds_with_three_roles(shell: Shell, crew) -> None:
    server = shell.serve(lambda request: Turn(text="Found."), bill="worst")
    done = team(
        shell, crew("parallel", "budget_usd = 0.08"), *MODEL, "The task.", "--max-response-tokens", "4000",
        "--output-format", "json",
    )  # fmt: skip
    bills = [PriceBook().price("anthropic", "claude-sonnet-4-6", usage) for usage in server.billed]
    billed = sum((bill or Decimal(0) for bill in bills), Decimal(0))
    assert 0 < billed <= Decimal("0.08")
    assert done.code == 3
    assert done.json["error"]["kind"] == "budget"
    assert done.json["cost_usd"]["total"] == pytest.approx(float(billed))


@later
def test_smallest_cap_holds(shell: Shell, crew) -> None:
    shell.serve(says)

    def cap(*argv: str, **more: str) -> object:
        shell.environment |= more
        done = team(shell, crew(more="budget_usd = 2"), *MODEL, "The task.", "--output-format", "json", *argv)
        return done.json["handoffs"][0]["given"]["cap_usd"]

    assert cap() == "2"
    assert cap(SAGENT_MAX_BUDGET_USD="1") == "1"
    assert cap(SAGENT_MAX_BUDGET_USD="3") == "2"
    assert cap("--max-budget-usd", "5") == "5"


def test_role_keeps_own_budget(shell: Shell, crew) -> None:
    server = shell.serve(says)
    crew()
    text = (shell.cwd / "crew.toml").read_text()
    (shell.cwd / "crew.toml").write_text(text.replace('tools = ["Read"]', 'tools = ["Read"]\nbudget_usd = 0.0001'))
    done = team(shell, "crew.toml", *MODEL, "The task.")
    assert (done.code, done.out) == (3, "## one\n\nWhat one found.\n")
    assert "two failed (budget): " in done.err and "allowance of root/two is $0.0001" in done.err
    assert [who(request) for request in server.requests] == ["one"]


def test_roles_on_families_with_advisors(shell: Shell, crew) -> None:
    """One role on each wire format; the second may consult, the others may not."""
    server = shell.serve(says)
    shell.environment |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{server.url}/v1"}
    shell.environment |= {"MOONSHOT_API_KEY": "k", "MOONSHOT_BASE_URL": f"{server.url}/v1"}
    crew()
    text = (shell.cwd / "crew.toml").read_text()
    text = text.replace(
        'tools = ["Read"]', 'tools = ["Read"]\nmodel = "openai/gpt-5.5"\nadvisor = "anthropic/claude-opus-4-6"'
    )
    text = text.replace('"The third part."\n', '"The third part."\nmodel = "moonshot/kimi-k2.5"\n')
    (shell.cwd / "crew.toml").write_text(text)
    done = team(shell, "crew.toml", *MODEL, "The task.", "--output-format", "json")
    assert done.code == 0, done.err
    assert [request.family for request in server.requests] == ["anthropic", "responses", "chat"]
    assert [b'"advisor"' in request.body for request in server.requests] == [False, True, False]
    assert "What two found." in server.requests[2].body.decode()
    models = [each["given"]["model"] for each in done.json["handoffs"] if each["given"]]
    assert models == ["anthropic/claude-sonnet-4-6", "openai/gpt-5.5", "moonshot/kimi-k2.5"]


def test_run_advisor_inherited_by_roles(shell: Shell, crew) -> None:
    server = shell.serve(says)
    crew()
    text = (shell.cwd / "crew.toml").read_text()
    (shell.cwd / "crew.toml").write_text(text.replace('tools = ["Read"]', 'tools = ["Read"]\nadvisor = "none"'))
    done = team(shell, "crew.toml", *MODEL, "--advisor", "openai/gpt-5.5", "The task.", "--log-level", "error")
    assert done.code == 2
    assert "role one: " in done.err  # there is no key for its advisor
    shell.environment |= {"OPENAI_API_KEY": "k"}
    done = team(shell, "crew.toml", *MODEL, "--advisor", "openai/gpt-5.5", "The task.", "--log-level", "error")
    assert (done.code, done.err) == (0, "")
    assert [b'"advisor"' in request.body for request in server.requests] == [True, False, True]


@later
@pytest.mark.parametrize(
    ("step", "code", "kind"),
    [
        (Fail(400, message="no such thing"), 1, "invalid_request"),
        (Turn(text="Half", stop="max_tokens"), 5, "max_tokens"),
        (Turn(calls=(Call("Read", {"file_path": "crew.toml"}),)), 4, "max_turns"),
    ],
)
def test_failing_role_ends_sequence(shell: Shell, crew, step: Step, code: int, kind: str) -> None:
    server = shell.serve(failing("two", step))
    done = team(shell, crew(), *MODEL, "The task.", "--output", "out", "--max-turns", "1")
    assert (done.code, done.out) == (code, "## one\n\nWhat one found.\n")
    assert f"sagent: two failed ({kind}): " in done.err
    assert f"run the same command with --session {sessions(shell)[0]}" in done.err
    assert "three" not in [who(request) for request in server.requests]
    assert "| three |  | not begun |" in (shell.cwd / "out" / "report.md").read_text()
    assert faults(sessions(shell)[0]) == []


@later
def test_parallel_failure_told_to_joiner(shell: Shell, crew) -> None:
    server = shell.serve(failing("two", Fail(400, message="no such thing")))
    done = team(shell, crew("parallel", 'editor = "three"'), *MODEL, "The task.", "--output-format", "json")
    assert (done.code, done.json["result"]) == (1, "What three found.")
    assert done.json["error"]["kind"] == "invalid_request"
    joiner = next(request.body.decode() for request in server.requests if who(request) == "three")
    assert "two failed (invalid_request: " in joiner and "What one found." in joiner


@later
def test_ctrl_c_stops_team_with_report(shell: Shell, crew) -> None:
    server = shell.serve(failing("two", Stall(Turn(text="Half of it"), after_events=3)))
    child = shell.start("team", "run", *MODEL, crew(), "The task.", model="")
    wait_until(lambda: any(who(request) == "two" for request in server.requests))
    begun = time.monotonic()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert time.monotonic() - begun < 20
    assert (child.returncode, out.decode()) == (130, "## one\n\nWhat one found.\n")
    assert "sagent: the team was interrupted" in err.decode()
    wait_until(lambda: server.abandoned)
    assert faults(sessions(shell)[0]) == []


@pytest.mark.costly
@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_killed_team_skips_finished_roles(shell: Shell, crew, mode: str) -> None:
    stalled = True

    def play(request: Received) -> Step:
        if who(request) == "two" and stalled:
            return Stall(Turn(text="Half of it"), after_events=3)
        return says(request)

    server = shell.serve(play)
    file = crew(mode, "" if mode == "sequential" else 'editor = "three"')
    child = shell.start("team", "run", *MODEL, file, "The task.", model="")
    wait_until(lambda: any(who(request) == "two" for request in server.requests))

    def logged() -> int:
        return (sessions(shell)[0] / "root.jsonl").read_text().count('"kind":"handoff"')

    wait_until(lambda: logged() >= (2 if mode == "sequential" else 3))
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    stalled = False
    server.requests.clear()
    done = team(shell, "crew.toml", "--continue")  # neither the task nor the model is said again
    assert (done.code, done.out) == (0, "What three found.\n"), done.err
    assert [who(request) for request in server.requests] == ["two", "three"]
    assert "one (anthropic/claude-sonnet-4-6): had finished" in done.err and "not run again; 1 turn" in done.err
    assert len(sessions(shell)) == 1
    assert faults(sessions(shell)[0]) == []
    again = team(shell, "crew.toml", "--continue")
    assert again.code == 2 and "no unfinished team task" in again.err


@later
def test_failed_team_resumed_by_same_command(shell: Shell, crew) -> None:
    broken = True
    server = shell.serve(lambda request: failing("two", Fail(400, message="no"))(request) if broken else says(request))
    first = team(shell, crew(), *MODEL, "The task.")
    assert first.code == 1
    broken = False
    server.requests.clear()
    done = team(shell, "crew.toml", *MODEL, "The task.", "--session", str(sessions(shell)[0]))
    assert (done.code, [who(request) for request in server.requests]) == (0, ["two", "three"])


def test_task_from_words_file_or_stdin(shell: Shell, crew) -> None:
    server = shell.serve(says)
    (shell.cwd / "task.md").write_text("The task of a file.\n")
    name = crew()
    assert team(shell, name, *MODEL, "--task", "task.md").code == 0
    assert "The task of a file." in server.requests[-1].body.decode()
    assert team(shell, name, *MODEL, "--task", "-", stdin="The task of a pipe.").code == 0
    assert "The task of a pipe." in server.requests[-1].body.decode()
    assert team(shell, name, *MODEL, "Look at this.", stdin="A diff.").code == 0
    assert "Look at this.\\n\\n<stdin>\\nA diff.\\n</stdin>" in server.requests[-1].body.decode()
    assert team(shell, "--preset", "research_writer", *MODEL, "About ants.").code == 0
    assert who(server.requests[-1]) == "editor"
    assert "several people who work on a text" in server.requests[-1].body.decode()
    assert team(shell, "--preset", "code_review", *MODEL, "--system", "Be brief.", "Look.").code == 0
    assert json.dumps(server.requests[-1].json["system"]).count("Be brief.") == 1


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ((), "Which team? Give --preset code_review|quant_desk|research_writer"),
        (("--preset", "code_reveiw", "x"), "no such preset. Did you mean code_review?"),
        (("--preset", "code_review"), 'Nothing to do: give a prompt, as in sagent team run --preset code_review "'),
        (("--preset", "code_review", "crew.toml", "x"), "are two teams"),
        (("code_review", "x"), "code_review is a preset: give --preset code_review"),
        (("no.toml", "x"), "no such file"),
        (("bad.toml", "x"), "bad.toml:2: there is no key roles[1].tols. Did you mean tools?"),
        (("crew.toml", "look", "here"), 'Quote the task: "look here"'),
        (("crew.toml", "x", "--task", "y"), "are two tasks"),
        (("crew.toml", "--task", "no.md"), "--task no.md: cannot be read: No such file"),
        (("crew.toml", "x", "--visible-handoffs", "-1"), "give a whole number"),
        (("crew.toml", "x", "--tools", "Grep"), "role two: there is no tool 'Read' to use; there are Grep"),
        (("crew.toml", "x", "--input-format", "stream-json"), "a team has one task"),
        (("crew.toml", "x", "--vsible-handoffs", "1"), "Did you mean --visible-handoffs"),
        (("crew.toml", "--continue"), "no session of"),
        (("crew.toml", "x", "--output", "crew.toml/out"), "Not a directory"),
    ],
)
def test_invalid_team_exits_2(
    shell: Shell, crew, argv: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    server = shell.serve(says)
    for name, value in shell.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(shell.cwd)
    crew()
    (shell.cwd / "bad.toml").write_text('[[roles]]\ntols = "none"\n')
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        assert run(["team", "run", *argv, *MODEL]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert told in said.err
    assert server.requests == []
    assert sessions(shell) == []


def test_error_is_json_if_requested(shell: Shell) -> None:
    done = team(shell, "no.toml", "x", "--output-format", "json")
    assert (done.code, done.json["error"]["kind"]) == (2, "config")


def test_report_inside_session_refused(shell: Shell, crew) -> None:
    shell.serve(says)
    done = team(shell, crew(), *MODEL, "x", "--session", "here", "--output", "here/out")
    assert done.code == 2 and "is inside the session's directory" in done.err


def test_presets_listed_and_shown(shell: Shell) -> None:
    listed = shell.run("team", "list", model="")
    assert listed.code == 0
    assert [line.split()[0] for line in listed.out.splitlines()] == [
        "preset",
        "code_review",
        "quant_desk",
        "research_writer",
    ]
    shown = shell.run("team", "show", "code_review", model="")
    assert shown.out.startswith('name = "code_review"\n') and "prompt = '''" in shown.out
    (shell.cwd / "mine.toml").write_text(shown.out)
    shell.serve(says)
    assert team(shell, "mine.toml", *MODEL, "Look.").code == 0
    assert shell.run("team", "shwo", model="").code == 2
    assert "code_review" in shell.run("team", model="").out
    assert "--visible-handoffs" in shell.run("team", "run", "--help", model="").out


@later
@pytest.mark.plugin("audit", "exports")
def test_exports_know_team_session(shell: Shell, crew) -> None:
    shell.serve(says)
    assert team(shell, crew(), *MODEL, "The task.").code == 0
    for kind in ("html", "md"):
        done = shell.run("export", "--format", kind, "--out", "-", model="")
        assert done.code == 0
        for words in ("The task.", "What one found.", "What two found.", "What three found.", "root/two"):
            assert words in done.out
    assert shell.run("export", "--out", "s.tar", model="").code == 0
    assert shell.run("verify", "s.tar", model="").code == 0
    assert "The task." in shell.run("sessions", "list", model="").out
    assert "What three found." in shell.run("sessions", "show", model="").out
    root = sessions(shell)[0] / "root.jsonl"
    root.write_bytes(root.read_bytes().replace(b'"prompt_bytes":', b'"prompt_bytes":9', 1))
    found = shell.run("verify", model="")
    assert found.code == 1 and "the content does not match its id" in found.out


@pytest.mark.needs("git")
def test_environment_logged(shell: Shell, crew) -> None:
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        crew()
        subprocess.run(["git", *command], cwd=shell.cwd, check=True, env=shell.environment)
    shell.serve(says)
    done = team(shell, "crew.toml", *MODEL, "The task.", "--output-format", "json")
    logged = [json.loads(line) for line in (sessions(shell)[0] / "root.jsonl").read_text().splitlines()]
    found = next(entry["body"] for entry in logged if "git_commit" in entry["body"])
    assert re.fullmatch(r"[0-9a-f]{40}", found["git_commit"]) and found["git_dirty"] is False
    assert logged[-1]["id"] == done.json["head"]


def test_role_progress_on_one_line() -> None:
    role = RoleReport("a", "done", "root/a", "p/m", 2, USAGE, Decimal("0.5"))
    assert progress(role) == "a (p/m): done, 2 turns, 1000 in, 100 out, $0.50"
    assert progress(replace(role, usd=None, turns=1)).endswith("1 turn, 1000 in, 100 out, price unknown")
    assert progress(RoleReport("a", "failed", error=Failure("budget", "no"))).startswith("a: failed (budget), 0 turns")
    assert progress(replace(role, state="kept")).startswith("a (p/m): had finished, not run again; 2 turns")


def test_ephemeral_team_report_complete(shell: Shell, crew) -> None:
    shell.serve(says)
    done = team(shell, crew(), *MODEL, "The task.", "--ephemeral", "--output-format", "json")
    assert done.code == 0
    assert "What one found." in str(done.json["report"]) and "- Session: not kept" in str(done.json["report"])
    assert done.json["session_path"] == ""
    assert sessions(shell) == []
