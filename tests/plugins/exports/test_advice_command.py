"""`sagent advice`: what a session's advisors came to, and a person's word on them."""

import json
from pathlib import Path

import pytest

from sagent.cli.main import run
from sagent.events import Advice
from sagent.plugins.audit.verify import verify
from sagent.session.contents import Opened, Returned, Unknown
from sagent.session.entries import read_body, show_advice
from sagent.session.log import read_log
from sagent.session.store import Session
from sagent.testing.server import Call, Fail, Received, Step, Turn, Usage
from tests.cli.program import Shell
from tests.depth import later

ADVISOR = "claude-opus-4-6"
FLAGS = ("--advisor", f"anthropic/{ADVISOR}", "--advisor-mode", "client")


@pytest.fixture
def session(shell: Shell) -> Path:
    """A session in which an advisor was asked twice: one answer, one failure."""
    steps = iter(
        [
            Turn(text="Hm.", calls=(Call("advisor", {}),)),
            Turn(text="[FOLLOWED] Hm.", calls=(Call("advisor", {"question": "And?"}),)),
        ]
    )
    answers = iter(
        [
            Turn(
                text="VERDICT: adjust\nNEXT: look \x1b[31mfirst, not glpat-k3Jd9Qm2Xr7Lw0Zt5Vb8",
                usage=Usage(input=900, output=80),
            ),
            Fail(400),
        ]
    )

    def script(request: Received) -> Step:
        return next(answers if request.json["model"] == ADVISOR else steps, Turn(text="Done."))

    shell.serve(script)
    done = shell.run(*FLAGS, "--output-format", "json", "go")
    assert done.code == 0, done.err
    return Path(str(done.json["session_path"]))


def test_session_advice_reported(shell: Shell, session: Path) -> None:
    done = shell.run("advice", str(session), model="")
    assert done.code == 0, done.err
    for words in (
        "3 turns, 2 consultations, 0.67 per turn",
        f"anthropic/{ADVISOR}",
        "calls     2: 1 answered, 0 declined, 1 failed; 0 withheld",
        "triggers  asked 2",
        "verdicts  adjust 1",
        "outcomes  1 followed, 0 rejected, 0 contradicted, 0 not known; hit rate 100% (1 of 1)",
        "no answer 1 × ",
        "tokens    900 in",
        "cost      $0.006500; $0.006500 for each that was followed",
        "look �[31mfirst, not [redacted: token]",
    ):
        assert words in done.out
    assert "\x1b" not in done.out
    for name in (session.name, session.name[:14]):
        assert shell.run("advice", name, model="").out == done.out
    assert shell.run("advice", model="").out == done.out


def test_json_has_every_figure(shell: Shell, session: Path) -> None:
    found = shell.run("advice", str(session), "--json", model="").json
    assert (found["session"], found["turns"], found["consultations"]) == (session.name, 3, 2)
    assert found["consult_rate"] == pytest.approx(2 / 3)
    advisor = found["advisors"]["advisor"]  # pyright: ignore[reportIndexIssue]
    for name, value in {
        "calls": 2, "answered": 1, "failed": 1, "followed": 1, "hit_rate": 1.0, "usd": 0.0065,
        "usd_per_followed": 0.0065, "triggers": {"asked": 2}, "verdicts": {"adjust": 1},
    }.items():  # fmt: skip
        assert advisor[name] == value
    assert advisor["usage"]["input"] == 900
    rows = found["list"]
    assert isinstance(rows, list)
    assert rows[0]["next"].endswith(" not [redacted: token]")
    assert [(row["status"], row["verdict"], row["outcome"]) for row in rows] == [
        ("answered", "adjust", "followed"),
        ("failed", "", ""),
    ]


@later
def test_rating_of_last_advice_logged(shell: Shell, session: Path) -> None:
    done = shell.run("advice", str(session), "--rate", "bad", model="")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("rated bad: ") and "advice of advisor at " in done.out
    done = shell.run("advice", str(session), "--rate", "good", "--name", "advisor", "--json", model="")
    assert (done.json["advisor"], done.json["rated"]) == ("advisor", 1)
    assert [read_body(each) for each in read_log(session / "root.jsonl") if each.kind == "advice"][-2:] == [
        {"advisor": "advisor", "outcome": "rated", "by": -1},
        {"advisor": "advisor", "outcome": "rated", "by": 1},
    ]
    assert verify(session).problems == ()
    assert "ratings   1 good, 1 bad" in shell.run("advice", str(session), model="").out
    shell.serve([Turn(text="Yes.")])
    assert shell.run("--session", str(session), "on?").code == 0


@later
def test_rating_needs_idle_rated_session(shell: Shell, session: Path) -> None:
    before = (session / "root.jsonl").read_bytes()
    with Session.open(session):
        done = shell.run("advice", str(session), "--rate", "good", model="")
        assert (done.code, "is in use by process" in done.err) == (1, True)
        assert shell.run("advice", str(session), model="").code == 0
    for argv, says in (
        (("--rate", "good", "--name", "critic"), "no advice of 'critic'; there are advisor"),
        (("--name", "advisor"), "--name needs --rate"),
        (("--rate", "fine"), "invalid choice"),
    ):
        done = shell.run("advice", str(session), *argv, model="")
        assert (done.code, says in done.err) == (2, True), done.err
    assert (session / "root.jsonl").read_bytes() == before


def test_child_advice_counted_and_rated(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "session"
    with Session.create_at(path) as session:
        root = session.log()
        root.append(Opened(session.id, "root", "/w", {}))
        child = session.log("root/review")
        child.append(Opened(session.id, "root/review", "/w", {}))
        for log, name in ((root, "advisor"), (child, "critic")):
            advice = Advice(name, "openai/m", "failures", "answered", text="x", verdict="proceed", next=f"{name} next")
            log.append(Unknown("advice", {**show_advice(advice), "usd": None}))
        root.append(Returned("root/review", child.head))
    out = shell.run("advice", str(path), model="").out
    for words in ("critic of root/review", "critic next", "advisor next", "hit rate not known"):
        assert words in out
    done = shell.run("advice", str(path), "--rate", "good", model="")
    assert "the advice of critic at" in done.out
    assert (
        tuple(read_body(each) for each in read_log(path / "root" / "review.jsonl") if each.kind == "advice")[-1]["by"]
        == 1
    )
    assert verify(path).problems == ()


def test_damaged_log_read_up_to_damage(shell: Shell, session: Path) -> None:
    file = session / "root.jsonl"
    file.write_bytes(file.read_bytes()[:-40])  # as a killed process leaves it
    assert shell.run("advice", str(session), model="").code == 0
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:-3], b"oops\n", *lines[-3:]]))
    done = shell.run("advice", str(session), "--json", model="")
    assert (done.code, "sagent sessions repair" in done.err) == (1, True)
    assert json.loads(done.out)["consultations"] == 2


def test_session_without_advisors_reported(shell: Shell) -> None:
    shell.serve([Turn(text="Yes.")])
    shell.run("hello")
    done = shell.run("advice", model="")
    assert (done.code, "No advisor was asked." in done.out) == (0, True)
    assert shell.run("advice", "--rate", "good", model="").code == 2
    assert "no session 'gone'" in shell.run("advice", "gone", model="").err


def test_advice_command_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    for name in ("advice",):
        assert f"  {name} " in out
        assert run([name, "--help"]) == 0
        assert f"usage: sagent {name}" in capsys.readouterr().out
