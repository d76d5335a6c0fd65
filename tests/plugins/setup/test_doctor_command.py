"""`sagent doctor` and `/doctor`: what they look at, also where settings are wrong, and what is said of the sandbox."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from sagent.config import load
from sagent.config.plugins import find_plugins
from sagent.plugins.setup.doctor import examine
from sagent.sandbox import probe
from sagent.sandbox.probe import Confinement, keep
from tests.cli.program import Shell
from tests.depth import later
from tests.repl.recorded import RecordingContext

CHECKING = """
from sagent.plugin import Check, Finding, Plugin

def check(settings, login):
    yield Finding("good", "harbours", str(len(settings.fallback)))

plugin = Plugin("harbour", checks=(Check("harbours", ":check"),))
"""


async def test_doctor_and_bug_slash_commands(context: RecordingContext) -> None:
    assert "state directory" in await context.do("/doctor")
    assert re.search("sagent .*, Python", await context.do("/bug"))
    for line in ("/doctor x", "/bug x"):
        with pytest.raises(Exception, match="x"):
            await context.do(line)


@later
def test_failing_plugin_check_is_finding(shell: Shell) -> None:
    file = Path(shell.environment["HOME"]) / ".config/sagent/plugins/harbour.py"
    file.parent.mkdir(parents=True)
    file.write_text(CHECKING)
    assert re.search(r"harbours +0$", shell.run("doctor", model="").out, re.MULTILINE)
    file.write_text(CHECKING.replace("len(", "lenn("))
    done = shell.run("doctor", model="")
    assert "harbour failed: NameError" in done.out
    assert f"{file}:" in done.out, "where it was raised"
    assert "terminal" in done.out and "Traceback" not in done.out + done.err


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return [7]", "not a Finding"),
        ("return [Finding('odd', 'a', 'b')]", "not a Finding"),
        ("import asyncio; raise asyncio.CancelledError", "CancelledError"),
        ("import time; time.sleep(1000)", "did not end"),
    ],
)
async def test_hanging_check_is_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, why: str) -> None:
    monkeypatch.setattr("sagent.plugins.setup.doctor.MAX_CHECK_SECONDS", 0.5)
    head = "from sagent.plugin import Check, Finding, Plugin\n"
    end = "plugin = Plugin('harbour', checks=(Check('pier', ':check'),))\n"
    (tmp_path / "harbour.py").write_text(f"{head}{end}def check(settings, login):\n    {body}\n")
    found = find_plugins(tmp_path / "none", tmp_path, (tmp_path / "harbour.py",))
    settings = replace(load(environ={}, cwd=tmp_path), plugins=found)
    (pier,) = (each for each in await examine(settings) if each.what == "pier")
    assert pier.state == "bad"
    assert "the check of harbour" in pier.detail and why in pier.detail


@later
def test_unreadable_home_is_finding(shell: Shell) -> None:
    shell.environment["XDG_CONFIG_HOME"] = "/" + "x" * 300
    assert re.search(r"^✗ +settings +/x+", shell.run("doctor", model="").out, re.MULTILINE)


def test_doctor_works_with_bad_settings(shell: Shell) -> None:
    shell.serve([])
    settings = Path(shell.environment["HOME"]) / ".config/sagent/config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    for text, wrong in (("modle = 1", "there is no setting modle"), ("[", "not valid TOML")):
        settings.write_text(text)
        done = shell.run("doctor", model="")
        assert done.code == 1
        assert re.search(rf"^✗ +settings +.*{wrong}", done.out, re.MULTILINE)
        assert re.search(r"^✓ +keys +anthropic \(ANTHROPIC_API_KEY\)$", done.out, re.MULTILINE)


def test_doctor_fails_without_key(shell: Shell) -> None:
    done = shell.run("doctor", model="")
    assert done.code == 1
    assert re.search(r"^✗ +keys +none is set: use sagent login$", done.out, re.MULTILINE)
    shell.serve([])
    done = shell.run("doctor", model="")
    assert re.search(r"^✓ +keys +anthropic \(ANTHROPIC_API_KEY\)$", done.out, re.MULTILINE)
    found = re.search(r"^. +anthropic +127\.0\.0\.1:\d+ answers in (.*)$", done.out, re.MULTILINE)
    assert found and "the key could not be tested" in found[1]
    assert re.search(rf"^. +state directory +{re.escape(str(Path(shell.environment['HOME'])))}", done.out, re.MULTILINE)


def test_doctor_names_sandbox(shell: Shell) -> None:
    def line() -> str:
        return next(line for line in shell.run("doctor", model="").out.splitlines() if " sandbox " in line)

    assert "commands run in" in line() or "none: " in line()
    shell.environment["SAGENT_SANDBOX"] = "off"
    assert "! sandbox " in line()
    assert "off: the model's commands run without a sandbox" in line()


@pytest.mark.parametrize(
    ("means", "state", "says"),
    [
        (Confinement("bubblewrap"), "good", "commands run in bubblewrap"),
        (
            Confinement("landlock", "bwrap is not installed"),
            "poor",
            "commands run in landlock, as bwrap is not installed. Install",
        ),
        (Confinement("none", "bwrap is not installed"), "poor", "none: bwrap is not installed. Install bubblewrap"),
        (Confinement("none", "there is none for sunos"), "poor", "none: there is none for sunos"),
    ],
)
async def test_doctor_probes_sandbox_anew(
    means: Confinement, state: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_try_all", lambda: means)
    settings = load({"cwd": str(tmp_path)}, {"HOME": str(tmp_path)}, tmp_path)
    settings.state_dir.mkdir(parents=True)
    keep(settings.state_dir, Confinement("seatbelt"))  # what was found once
    (finding,) = [each for each in await examine(settings) if each.what == "sandbox"]
    assert finding.state == state
    assert finding.detail.startswith(says)
