"""`sagent slack` as a process: to a Slack and a provider on loopback, until a signal."""

import asyncio
import signal
import subprocess
from pathlib import Path

from sagent.testing.script import Call
from sagent.testing.server import Turn
from tests.cli.program import PROGRAM, Shell
from tests.depth import later
from tests.plugins.slack.slack_api import CHANNEL, fake_slack

RULES = f"""
[channels.{CHANNEL}]
users = ["U1"]
approvers = ["U1"]
mode = "ask"
model = "anthropic/claude-sonnet-4-6"
"""


@later
async def test_thread_session_opens_in_terminal(shell: Shell) -> None:
    (shell.cwd / "rules.toml").write_text(RULES)
    shell.serve(
        [Turn(calls=(Call("Bash", {"command": "echo hi > made.txt"}),)), Turn(text="Made."), Turn(text="Again.")]
    )
    async with fake_slack() as slack:
        shell.environment |= {
            "SLACK_APP_TOKEN": "xapp-1", "SLACK_BOT_TOKEN": "xoxb-1", "SLACK_API_URL": f"{slack.url}/api/",
        }  # fmt: skip
        program = [*PROGRAM, "slack", "rules.toml", "--sandbox", "off"]
        child = subprocess.Popen(program, cwd=shell.cwd, env=shell.environment, stderr=subprocess.PIPE, text=True)
        await slack.say("<@UBOT> make it", "1.0")
        try:
            await slack.press("Once")
            await slack.until(lambda: any("Made." in text and "$" in text for text in slack.texts()))
            child.send_signal(signal.SIGTERM)
        except BaseException:
            child.kill()
            raise
        finally:
            _, said = await asyncio.to_thread(child.communicate)
    assert child.returncode == 143, said
    assert (shell.cwd / "made.txt").read_text() == "hi\n"
    session = Path(shell.environment["HOME"]) / f".local/state/sagent/chat/slack/threads/{CHANNEL}-1.0"
    done = shell.run("--session", str(session), "and again")
    assert (done.code, done.out) == (0, "Again.\n"), done.err


def test_missing_setup_named(shell: Shell) -> None:
    (shell.cwd / "rules.toml").write_text(RULES)
    done = shell.run("slack", "rules.toml", model="")
    assert (done.code, "SLACK_APP_TOKEN" in done.err) == (2, True)
    done = shell.run("slack", "rules.toml", "--permission-mode", "full", model="")
    assert (done.code, "RULES say that" in done.err) == (2, True)
    shell.environment |= {"SLACK_APP_TOKEN": "x", "SLACK_BOT_TOKEN": "x"}
    done = shell.run("slack", "none.toml", model="")
    assert done.code == 2
    assert "none.toml" in done.err
