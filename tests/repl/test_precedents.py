"""What else a rule would have allowed so far, which a person reads before they allow it for longer than once."""

from pathlib import Path

import pytest
from samples import PNG

from sagent.agent import Agent, Resources
from sagent.lib.json import JsonObject, json_freeze_object
from sagent.messages import Image, Message, Text, ToolCall
from sagent.repl.terminal.precedents import MAX_SEARCHED_CALLS, also_allowed, rules_text
from sagent.session.folds import points
from sagent.session.log import Log, MemoryLog
from sagent.session.store import Session
from sagent.testing import ScriptedModel
from sagent.tool import RunContext
from sagent.tools.bash import Bash
from tests.depth import later


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall("c", name, json_freeze_object(arguments))


def bash(command: str, call_id: str = "c", **more: object) -> ToolCall:
    return ToolCall(call_id, "Bash", json_freeze_object({"command": command, **more}))


class Silent:
    """Stands for Bash where there are many calls."""

    name, description, parameters = "Bash", "", json_freeze_object({"type": "object"})

    async def __call__(self, arguments: JsonObject, run: RunContext) -> str:
        return ""


async def agent_with_calls(log: Log) -> Agent:
    """One that called, as did another below it that has ended, and whose conversation holds the last call alone."""
    expert = Agent(ScriptedModel((bash("true below"),), "it is so"), tools=[Bash()])
    asked = ToolCall("e", "expert", json_freeze_object({"prompt": "why?"}))
    model = ScriptedModel((bash("true early"),), (asked,), "done", (bash("true late"),), "done again")
    tools = [Bash(), expert.as_tool("expert", "Knows.")]
    agent = Agent(model, tools=tools, resources=Resources(log=log))
    await agent.run("first")
    agent.rewind(points(log.entries())[0].entry)
    await agent.run("second")
    return agent


@pytest.mark.parametrize("kept", [True, False])
async def test_precedents_count_ended_agents(tmp_path: Path, kept: bool) -> None:
    with Session.create(tmp_path, tmp_path) as session:
        agent = await agent_with_calls(session.log() if kept else MemoryLog())
        assert [one.arguments.get("command") for message in agent.messages for one in message.calls] == ["true late"]
        text = rules_text(["Bash(true:*)"], bash("true now", "now"), agent, tmp_path)
        assert text == "Bash(true:*) · also matches true early, true below, true late of this session's calls"
        await agent.aclose()


async def test_edited_call_is_no_precedent_of_itself(tmp_path: Path) -> None:
    agent = await agent_with_calls(MemoryLog())
    text = rules_text(["Bash(true:*)"], bash("true late, edited"), agent, tmp_path)
    assert text == "Bash(true:*) · also matches true early, true below of this session's calls"


async def test_unreadable_log_is_said_with_rules(tmp_path: Path) -> None:
    with Session.create(tmp_path, tmp_path) as session:
        agent = await agent_with_calls(session.log())
        file = session.path / "root.jsonl"
        file.write_bytes(file.read_bytes().replace(b"true early", b"true_early"))
        text = rules_text(["Bash(true:*)"], bash("true now", "now"), agent, tmp_path)
        assert text == "Bash(true:*) · what else they match is unknown: the session's log could not be read"


@later
async def test_precedents_look_at_last_calls(tmp_path: Path) -> None:
    calls = tuple(bash(f"true {number}", f"c{number}") for number in range(MAX_SEARCHED_CALLS))
    agent = Agent(ScriptedModel((bash("false 0"),), calls, "done"), tools=[Silent()])
    await agent.run("go")
    text = rules_text(["Bash(false:*)"], bash("false now", "now"), agent, tmp_path)
    assert text == "Bash(false:*)"


async def test_odd_calls_keep_question_possible(tmp_path: Path) -> None:
    broken = (
        call("Read", file_path="~a\0b"),
        call("Read", file_path="~\ud800/x"),
        call("Grep", path=["x"]),
        call("Bash", command=7, needs={"write": "x"}),
        call("WebFetch", url="https://[::1"),
        call("Write", file_path=None),
    )
    calls = tuple(ToolCall(f"c{number}", one.name, one.arguments) for number, one in enumerate(broken))
    with Session.create(tmp_path, tmp_path) as session:
        model = ScriptedModel((bash("true early"),), calls, "done")
        agent = Agent(model, tools=[Silent()], resources=Resources(log=session.log()))
        await agent.run(Message("user", (Text("What is this?"), Image("image/png", PNG))))
        text = rules_text(["Bash(true:*)"], bash("true now", "now"), agent, tmp_path)
        assert text == "Bash(true:*) · also matches true early of this session's calls"
        for rule in ("Read(/a)", "Edit(/a)", "Network(example.org)", "Unsandboxed(make)"):
            text = rules_text([rule], bash("make"), agent, tmp_path)
            assert text == rule
        await agent.aclose()


NEEDS = ["network:example.org", "read:/else/data"]
EARLIER = [
    bash("git push b"),
    bash("git push c"),
    bash("git push b"),
    bash("curl x", needs=NEEDS),
    call("Write", file_path="/here/src/a.py", content="x"),
    call("Read", file_path="src/a.py"),
    call("Grep", pattern="secret", path="/else/data"),
    call("Glob", pattern="*.py"),
    call("List", path="/here/src"),
    call("WebFetch", url="https://example.org/page"),
    call("WebSearch", query="sagent"),
    call("mcp__hub__list"),
]


@pytest.mark.parametrize(
    ("rule", "asked", "others"),
    [
        ("Bash(git push:*)", bash("git push b"), ["git push c"]),
        ("Bash(make)", bash("make"), []),
        ("Bash", bash("make"), ["git push b", "git push c", "curl x"]),
        ("Edit(/here/src/**)", call("Edit", file_path="/here/src/b.py"), ["Write /here/src/a.py"]),
        ("Read(/here/**)", call("Read", file_path="/here/b"), ["Read src/a.py", "Glob *.py", "List /here/src"]),
        ("Read(/else/**)", call("Read", file_path="/else/b"), ["curl x", "Grep secret"]),
        (
            "Network(example.org)",
            call("WebFetch", url="https://example.org/"),
            ["curl x", "WebFetch https://example.org/page"],
        ),
        ("Network(*.example.org)", bash("curl y", needs=["network:www.example.org"]), []),
        ("Network(hub.example)", call("WebSearch", query="else"), ["WebSearch sagent"]),
        ("mcp__hub__list", call("mcp__hub__list", page=2), ["mcp__hub__list"]),
    ],
)
def test_rule_names_matching_calls(rule: str, asked: ToolCall, others: list[str]) -> None:
    assert also_allowed([rule], asked, EARLIER, Path("/here")) == others


@pytest.mark.parametrize(
    ("rule", "earlier", "counts"),
    [
        ("Bash(git push:*)", bash("CI=1 timeout 5 git push b"), True),
        ("Bash(git push:*)", call("mcp__ci__run", command="git push b"), False),
        ("Edit(/here/a.txt)", bash("make > a.txt"), True),
        ("Edit(/here/a.txt)", bash("make < a.txt"), False),
        ("Read(/here/.env)", bash("make < ./.env"), True),
        ("Edit(/here/a\nb)", call("Write", file_path="$'a\\nb'"), True),
        ("Network(example.org)", call("WebFetch", url="https://example.org:8443/"), False),
        ("Network(example.org:8443)", call("WebFetch", url="https://Example.org:8443/"), True),
        ("Network([::1]:80)", call("WebFetch", url="http://[0:0::1]:80/"), True),
        ("Network(*.example.org)", call("WebFetch", url="https://a.example.org/"), True),
        ("Network(www.example.org)", bash("curl", needs="network:*.example.org"), False),
        ("Network(www.example.org)", bash("curl", needs="network:WWW.example.org"), True),
    ],
)
def test_rule_names_only_calls_it_allows(rule: str, earlier: ToolCall, counts: bool) -> None:
    assert bool(also_allowed([rule], bash("else"), [earlier], Path("/here"))) is counts


def test_paths_are_compared_resolved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    earlier = [call("Write", file_path="a.txt"), call("Write", file_path="b.txt")]
    rule = f"Edit({tmp_path.resolve()}/real/a.txt)"
    assert also_allowed([rule], bash("else"), earlier, tmp_path / "link") == ["Write a.txt"]


def test_calls_with_same_start_are_counted() -> None:
    earlier = [bash(f"git push {'o' * 60} {number}") for number in range(5)] + [bash("git push \u0430bc")]
    others = also_allowed(["Bash(git push:*)"], bash("git push x"), earlier, Path("/here"))
    assert len(others) == 6
    assert others[-1] == "git push а⟨U+0430⟩bc"
