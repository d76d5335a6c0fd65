"""Sessions as transcripts of Claude Code and codex: read back they say the same, and the programs go on with them."""

import json
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from test_taken_over import messages, took
from told_transcripts import IDS, TELL

from sagent.messages import Image
from sagent.plugins.transfer.places import find_transcript, program_of, read_transcript
from sagent.plugins.transfer.steps import Program, Said
from sagent.testing.script import Call, Turn
from sagent.testing.server import FakeProviderServer
from tests.cli.program import Shell
from tests.depth import slow
from tests.npm import packages

NAME = "9f889e4f-c3d6-4e45-8f8c-03bd45198861"


def place(program: str, home: Path, work: Path) -> Path:
    """Return where a program looks for the transcript with this name."""
    if program == "codex":
        return home / f".codex/sessions/2026/12/01/rollout-2026-12-01T15-25-34-{NAME}.jsonl"
    slug = "".join(letter if letter.isalnum() else "-" for letter in str(work))
    return home / f".claude/projects/{slug}/{NAME}.jsonl"


def export(shell: Shell, session: str, program: str, out: Path) -> str:
    out.parent.mkdir(parents=True, exist_ok=True)
    done = shell.run("export", session, "--format", program, "--out", str(out), model="")
    assert done.code == 0, done.err
    return done.err


@pytest.mark.parametrize("program", ["claude", "codex"])
class TestThereAndBack:
    def test_own_session_reads_back_the_same(self, shell: Shell, program: Program, tmp_path: Path) -> None:
        (shell.cwd / "a.txt").write_text("alpha\n")
        turns = [
            Turn("Looking.", calls=(Call("Read", {"file_path": "a.txt"}), Call("Read", {"file_path": "missing"}))),
            Turn("All done."),
        ]
        shell.serve(turns)
        shell.run("please look", "--permission-mode", "full", "--sandbox", "off")
        (session,) = shell.run("sessions", "list", "--ids", model="").out.split()
        out = tmp_path / f"rollout-{NAME}.jsonl"
        export(shell, session, program, out)
        assert program_of(out) == program
        read = read_transcript(find_transcript(str(out), program, tmp_path, {}, tmp_path))
        talk = [step.message for step in read.steps if isinstance(step, Said)]
        assert [one.content for one in talk] == ["please look", "Looking.", "", "All done."]
        assert [call.arguments for call in talk[1].calls] == [{"file_path": "a.txt"}, {"file_path": "missing"}]
        assert [result.call_id for result in talk[2].results] == [call.id for call in talk[1].calls]
        assert "alpha" in talk[2].results[0].text
        assert read.id == NAME
        assert not read.left_out or max(read.left_out.values()) == 0

    def test_images_and_summaries_go_along_and_losses_are_named(
        self, shell: Shell, program: Program, tmp_path: Path
    ) -> None:
        home = Path(shell.environment["HOME"])
        for teller in ("pi", "gemini"):
            TELL[teller](home)
        out = tmp_path / "summary.jsonl"
        done = shell.run("resume", IDS["pi"], "--from", "pi", "--save-only", model="")
        said = export(shell, done.out.strip(), program, out)
        assert "What came before, in short." in out.read_text()
        assert "compacted" in said
        done = shell.run("resume", IDS["gemini"], "--from", "gemini", "--save-only", model="")
        said = export(shell, done.out.strip(), program, out)
        assert "Thinking is not in it" in said
        read = read_transcript(find_transcript(str(out), program, tmp_path, {}, tmp_path))
        parts = [part for step in read.steps if isinstance(step, Said) for part in step.message.parts]
        assert [part.media_type for part in parts if isinstance(part, Image)] == ["image/png"]

    def test_secrets_are_taken_out(self, shell: Shell, program: Program, tmp_path: Path) -> None:
        key = "sk-ant-api03-" + "aB3dE5gH7j" * 9
        shell.serve([Turn(f"It is {key}.")])
        shell.run(f"my key is {key}")
        (session,) = shell.run("sessions", "list", "--ids", model="").out.split()
        export(shell, session, program, tmp_path / "out.jsonl")
        assert key not in (tmp_path / "out.jsonl").read_text()


@pytest.mark.parametrize("program", ["claude", "codex"])
@slow
def test_program_goes_on(shell: Shell, program: Program, tmp_path: Path) -> None:
    home, work = Path(shell.environment["HOME"]), shell.cwd
    TELL["opencode"](home)
    done = shell.run("resume", IDS["opencode"], "--save-only", model="")
    export(shell, done.out.strip(), program, place(program, home, work))
    npm = packages("@openai/codex@0.169.0" if program == "codex" else "@anthropic-ai/claude-code@2.1.197")
    with FakeProviderServer(lambda _: Turn("Gone on."), strict=False).in_thread() as server:
        words: Sequence[str] = ("claude", "-p", "go on", "--resume", NAME, "--model", "claude-sonnet-4-6")
        keys: Mapping[str, str] = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k",
                                   "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1"}  # fmt: skip
        if program == "codex":
            (home / ".codex/config.toml").write_text(
                f'model = "gpt-5.5"\nmodel_provider = "ours"\nanalytics.enabled = false\n[model_providers.ours]\n'
                f'name = "ours"\nbase_url = "{server.url}/v1"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"\n'
            )
            words = ("codex", "exec", "--skip-git-repo-check", "resume", NAME, "go on")
        argv = [str(npm.modules / ".bin" / words[0]), *words[1:]]
        environment = {**npm.environment, "HOME": str(home), **keys}
        ended = subprocess.run(
            argv,
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert "Gone on." in ended.stdout, ended.stderr
    bodies = [request.body.decode() for request in server.requests if request.json.get("tools")]
    assert any("and now?" in body and "All done." in body and "go on" in body for body in bodies)


def test_name_of_a_transcript_is_stable(tmp_path: Path, shell: Shell) -> None:
    TELL["pi"](tmp_path)
    session = took(tmp_path, "pi").session
    assert messages(session)
    out = tmp_path / "first.jsonl"
    export(shell, str(session), "claude", out)
    (name,) = {json.loads(line)["sessionId"] for line in out.read_text().splitlines()}
    before = out.read_bytes()
    export(shell, str(session), "claude", out)
    assert uuid.UUID(name).version == 5
    assert out.read_bytes() == before
