"""Events of hooks that plugins declare and fire: real programs, hooks that are commands, a scripted model."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from sagent.lib.json import as_array
from sagent.plugins.hooks import EVENTS
from sagent.testing.server import Call, Turn
from tests.cli.program import CHECKOUT, Shell
from tests.depth import later

DEPLOYING = '''
from sagent.plugin import HookEvent, Part, Plugin, ToolEntry
from sagent.tools import tool

def deploy(builder):
    @tool(name="Deploy")
    async def found(place: str) -> str:
        """Deploy.

        Args:
            place: where
        """
        said = await builder.fire("DeployFinished", place, {"place": place, "agent": "forged"})
        return f"<{said.decision}|{said.reason}|{said.context}>"

    return found

async def add(builder):
    before = await builder.fire("DeployPlanned")
    builder.sections.append(lambda: f"Planned: <{before.decision}|{before.context}>.")

    async def close():
        await builder.fire("DeployPlanned")

    builder.stack.push_async_callback(close)

plugin = Plugin(
    "deploying",
    hook_events=(
        HookEvent("DeployFinished", "a deployment has ended", "where", ("staging", "production"),
                  ("refuse", "ask", "add"), prints=True),
        HookEvent("DeployPlanned", "a deployment is planned", can=("add",)),
    ),
    tools=(ToolEntry("Deploy", ":deploy", ("default",)),),
    parts=(Part(":add", ("hooks",)),),
)
'''
HOOK = "[[hooks.DeployFinished]]\ncommand = '{}'\n"
ADDS = '{"hookSpecificOutput": {"additionalContext": "noted"}}'


@pytest.fixture
def config(shell: Shell) -> Path:
    """Return the person's file of settings, beside which the plugin lies."""
    place = Path(shell.environment["HOME"]) / ".config/sagent/plugins"
    place.mkdir(parents=True)
    (place / "deploying.py").write_text(DEPLOYING)
    return place.parent / "config.toml"


def deploy(shell: Shell, place: str = "staging") -> tuple[str, str]:
    """Have the model deploy, and return what the tool was answered and what the person was told."""
    shell.serve([Turn(calls=(Call("Deploy", {"place": place}),)), Turn(text="Fine.")])
    done = shell.run("--sandbox", "off", "--permission-mode", "full", "hello")
    assert (done.code, done.out) == (0, "Fine.\n"), done.err
    return str(as_array(asked(shell)["messages"])[-1]), done.err


def asked(shell: Shell, request: int = -1) -> Mapping[str, object]:
    """Return what the provider was asked."""
    assert shell.server is not None
    return shell.server.requests[request].json


@pytest.mark.plugin("authoring")
def test_plugin_event_accepted_and_shown(shell: Shell, config: Path) -> None:
    config.write_text(HOOK.format("true"))
    assert "DeployFinished: true" in shell.run("config", "show", model="").out
    shell.serve([])
    assert "DeployFinished: true" in shell.run("/hooks").out
    assert "DeployFinished, DeployPlanned" in shell.run("plugin", "list", model="").out
    config.write_text("")
    assert "DeployFinished" in shell.run("/hooks").err


@pytest.mark.parametrize(
    ("text", "hint", "words"),
    [
        ("[[hooks.DeployFinishd]]\ncommand = 'true'\n", "Did you mean DeployFinished?", ()),
        (HOOK.format("true") + "matcher = 'stagng'\n", "Did you mean staging?", ()),
        ("[[hooks.DeployPlanned]]\nmatcher = 'x'\ncommand = 'true'\n", "is about nothing", ()),
        (HOOK.format("true"), "DeployFinished", ("--no-plugins",)),
    ],
)
def test_unknown_event_or_value_explained(
    shell: Shell, config: Path, text: str, hint: str, words: tuple[str, ...]
) -> None:
    config.write_text(text)
    shell.serve([Turn(text="Fine.")])
    assert hint in shell.run(*words, "hello").err


def test_matching_hooks_asked_and_joined(shell: Shell, config: Path) -> None:
    config.write_text(
        "".join(
            (
                HOOK.format("cat > told.json; echo seen"),
                HOOK.format("echo not on a Friday >&2; exit 2") + "matcher = 'production'\n",
                f"[[hooks.DeployFinished]]\ncommand = '''echo '{ADDS}' '''\n",
            )
        )
    )
    assert "<||seen\\n\\nnoted>" in deploy(shell)[0]
    told = json.loads((shell.cwd / "told.json").read_text())
    assert (told["hook_event_name"], told["place"], told["agent"]) == ("DeployFinished", "staging", "root")
    assert told["cwd"] == str(shell.cwd)
    assert "<deny|not on a Friday|seen\\n\\nnoted>" in deploy(shell, "production")[0]


@later
@pytest.mark.parametrize(
    ("command", "timeout", "why"),
    [("sleep 60", 0.2, "did not answer within 0.2 s"), ("echo broken >&2; exit 3", 60, "exit code 3: broken")],
)
def test_hanging_or_failing_hook_reported(shell: Shell, config: Path, command: str, timeout: float, why: str) -> None:
    config.write_text(HOOK.format(command) + f"timeout = {timeout}\n" + HOOK.format("echo seen"))
    answered, told = deploy(shell)
    assert "<||seen>" in answered
    assert why in told and "continues without it" in told


def test_events_only_during_session(shell: Shell, config: Path) -> None:
    config.write_text(f"[[hooks.DeployPlanned]]\ncommand = '''cat >> told.json; echo '{ADDS}' '''\n")
    told = deploy(shell)[1]
    assert "Planned: <|noted>" in str(asked(shell, 0)["system"])
    assert (shell.cwd / "told.json").read_text().count("DeployPlanned") == 1
    assert "No hook of DeployPlanned" in told and "session has ended" in told


def test_refusal_without_effect_shown(shell: Shell, config: Path) -> None:
    config.write_text("[[hooks.DeployPlanned]]\ncommand = 'echo no >&2; exit 2'\n")
    assert "DeployPlanned objects: no" in deploy(shell)[1]
    assert "Planned: <|>" in str(asked(shell, 0)["system"])


@later
@pytest.mark.parametrize(("name", "why"), [("Nothing", "declared by no plugin"), ("Stop", "fired by sagent itself")])
def test_another_event_is_not_fired(shell: Shell, config: Path, name: str, why: str) -> None:
    plugin = config.parent / "plugins/deploying.py"
    plugin.write_text(DEPLOYING.replace('fire("DeployFinished"', f'fire("{name}"'))
    config.write_text(HOOK.format("true"))
    assert why in deploy(shell)[0]


def test_no_hooks_empty_answer(shell: Shell, config: Path) -> None:
    assert "<||>" in deploy(shell)[0]


@pytest.mark.plugin("authoring")
@pytest.mark.plugin("imports")
def test_folder_hooks_on_event(shell: Shell, config: Path) -> None:
    folder = shell.cwd / "folder"
    (folder / "hooks").mkdir(parents=True)
    rows = {"DeployFinished": [{"matcher": "staging", "hooks": [{"type": "command", "command": "echo from a folder"}]}]}
    (folder / "hooks/hooks.json").write_text(json.dumps({"hooks": rows}))
    assert shell.run("plugin", "add", str(folder), "--yes", model="").code == 0
    assert "<||from a folder>" in deploy(shell)[0]


@later
@pytest.mark.parametrize(
    ("name", "why"),
    [("deploy-finished", "the first a capital"), ("Stop", "The hook event Stop of the plugin deploying")],
)
def test_bad_or_taken_event_name_left_out(shell: Shell, config: Path, name: str, why: str) -> None:
    plugin = config.parent / "plugins/deploying.py"
    plugin.write_text(DEPLOYING.replace('HookEvent("DeployFinished"', f'HookEvent("{name}"'))
    shell.serve([Turn(text="Fine.")])
    assert why in shell.run("hello").err


def test_docs_list_core_events() -> None:
    text = (CHECKOUT / "docs/hooks.md").read_text()
    table = text.partition("| event | when |")[2].partition("\n\n")[0]
    assert [row.split("`")[1] for row in table.splitlines()[2:]] == [event.name for event in EVENTS]
