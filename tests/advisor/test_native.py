"""The advisor that Anthropic's API asks by itself, over real HTTP: what is asked for, what is read, what is billed."""

import json
from decimal import Decimal

import pytest

from sagent.advisor.advisory import Mode, Setup
from sagent.advisor.extension import advise
from sagent.advisor.rules import Rules
from sagent.agent import Agent, Resources
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.events import Advice, Advised, Notice
from sagent.model import Model
from sagent.peer import Switch
from sagent.providers import Anthropic, OpenAI
from sagent.testing.server import Call, Fail, FakeProviderServer, Raw, Received, Step, Turn

ADVICE = {"type": "advisor_result", "text": "VERDICT: adjust\nNEXT: look at the lock"}


def asked(content: object = ADVICE, *, advisor: str = "claude-opus-4-6", said: str = "I looked.") -> Raw:
    """A reply in which the API has asked its advisor once, as it was recorded from the API."""
    refused = isinstance(content, dict) and content.get("type") == "advisor_tool_result_error"
    own = {"type": "message", "input_tokens": 100, "output_tokens": 5}
    other = {"type": "advisor_message", "model": advisor, "input_tokens": 900, "output_tokens": 300}
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-6",
        "content": [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "advisor", "input": {}},
            {"type": "advisor_tool_result", "tool_use_id": "srvtoolu_1", "content": content},
            {"type": "text", "text": said},
        ],
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": 250,
            "output_tokens": 25,
            "iterations": [
                own,
                *([] if refused else [other]),
                {"type": "message", "input_tokens": 150, "output_tokens": 20},
            ],
        },
    }
    return Raw(headers=(("content-type", "application/json"),), body=json.dumps(body).encode())


class Rig:
    """An Anthropic executor with one advisor, and what it told."""

    def __init__(
        self,
        server: FakeProviderServer,
        *,
        mode: Mode = "native",
        advisor: str = "anthropic/claude-opus-4-6",
        cap: Decimal | None = None,
    ) -> None:
        self.anthropic = Anthropic.from_key("k", base_url=server.url)
        self.openai = OpenAI.from_key("k", base_url=f"{server.url}/v1")
        self.ledger = Ledger(cap, PriceBook())
        self.advice: list[Advice] = []
        self.notices: list[str] = []
        self.agent = Agent(
            self.anthropic.model("claude-sonnet-4-6"),
            resources=Resources(
                ledger=self.ledger,
                resolve=self.resolve,
                advisory=advise([advisor], Setup(mode=mode, rules=Rules(triggers=()))),
            ),
        )
        self.agent.listen(self.hear)

    def resolve(self, name: str) -> Model:
        provider, _, model = name.partition("/")
        return (self.anthropic if provider == "anthropic" else self.openai).model(model)

    def hear(self, event: object) -> None:
        if isinstance(event, Advised):
            self.advice.append(event.advice)
        elif isinstance(event, Notice):
            self.notices.append(event.text)

    async def aclose(self) -> None:
        await self.agent.aclose()
        await self.anthropic.aclose()
        await self.openai.aclose()


def tools_of(request: Received) -> list[object]:
    tools = request.json.get("tools")
    assert isinstance(tools, list)
    return [tool.get("type") or tool.get("name") for tool in tools if isinstance(tool, dict)]


async def test_native_advisor_is_sent_and_billed() -> None:
    async with FakeProviderServer([asked(), asked(said="Again.")], strict=False) as server:
        rig = Rig(server)
        result = await rig.agent.run("go")
        first = server.requests[0]
        assert tools_of(first) == ["advisor_20260301"]
        assert first.json["tools"][0] == {  # pyright: ignore[reportIndexIssue,reportOptionalSubscript,reportArgumentType]
            "type": "advisor_20260301",
            "name": "advisor",
            "model": "claude-opus-4-6",
            "max_uses": 5,
            "max_tokens": 2048,
            "caching": {"type": "ephemeral", "ttl": "5m"},
            "cache_control": {"type": "ephemeral"},
        }
        assert first.headers["anthropic-beta"] == "advisor-tool-2026-03-01"
        assert [(one.status, one.verdict, one.next, one.trigger) for one in rig.advice] == [
            ("answered", "adjust", "look at the lock", "asked")
        ]
        assert rig.advice[0].model == "anthropic/claude-opus-4-6"
        cost = rig.ledger.cost()
        own = rig.ledger.prices.price("anthropic", "claude-sonnet-4-6", usage=rig.ledger.usage()["root", "executor"])
        assert cost.executor == own
        assert cost.advisor == cost.by_role["advisor:advisor"] == rig.advice[0].usd == Decimal("0.012")
        assert (result.usage.total_input, result.usage.output) == (250, 25)
        assert result.advisors["advisor"].usage.output == 300
        assert rig.agent.status().context_tokens < 900

        await rig.agent.run("and again")
        assert server.requests[1].json["messages"][1]["content"][1]["content"] == ADVICE  # pyright: ignore[reportIndexIssue,reportOptionalSubscript,reportArgumentType,reportCallIssue]
        await rig.aclose()


@pytest.mark.parametrize(
    ("content", "status", "text", "reason"),
    [
        ({**ADVICE, "stop_reason": "max_tokens"}, "cut", ADVICE["text"], ""),
        (
            {"type": "advisor_redacted_result", "encrypted_content": "x"},
            "answered",
            "(The advice came encrypted: only the executor can read it.)",
            "",
        ),
        ({"type": "advisor_tool_result_error", "error_code": "overloaded"}, "failed", "", "overloaded"),
    ],
)
async def test_native_advice_has_its_status(content: object, status: str, text: str, reason: str) -> None:
    async with FakeProviderServer([asked(content)], strict=False) as server:
        rig = Rig(server)
        assert (await rig.agent.run("go")).content == "I looked."
        assert [(one.status, one.text, one.reason) for one in rig.advice] == [(status, text, reason)]
        await rig.aclose()


async def test_pair_refused_by_api_is_asked_by_us() -> None:
    refusal = Fail(400, message="tools.0: claude-x cannot be an advisor for claude-sonnet-4-6")

    def play(request: Received) -> Step:
        if "advisor_20260301" in str(request.json.get("tools")):
            return refusal
        if request.json.get("model") == "claude-opus-4-6":
            return Turn(text="VERDICT: proceed")
        done = len(request.json["messages"]) > 1  # pyright: ignore[reportArgumentType]
        return Turn(text="done") if done else Turn(calls=(Call("advisor"),))

    async with FakeProviderServer(play, strict=False) as server:
        rig = Rig(server)
        assert (await rig.agent.run("go")).content == "done"
        assert [tools_of(request) for request in server.requests if request.json["model"] != "claude-opus-4-6"] == [
            ["advisor_20260301"],
            ["advisor"],
            ["advisor"],
        ]
        assert [one.verdict for one in rig.advice] == ["proceed"]
        assert "from now on sagent asks it" in rig.notices[0]
        assert "cannot be an advisor" in rig.notices[0]
        await rig.aclose()


@pytest.mark.parametrize(
    ("mode", "advisor", "native"),
    [
        ("auto", "anthropic/claude-opus-4-6", True),
        ("auto", "anthropic/claude-opus-5", False),  # its advice would come back encrypted
        ("auto", "anthropic/claude-fable-5", False),
        ("native", "anthropic/claude-opus-5", True),
        ("client", "anthropic/claude-opus-4-6", False),
        ("native", "openai/gpt-5.2", False),
        ("native", "anthropic/claude-opus-4-6,tools=Read", False),
        ("native", "anthropic/claude-opus-4-6,max_calls=1", False),
    ],
)
async def test_native_tool_only_where_it_can(mode: Mode, advisor: str, native: bool) -> None:
    async with FakeProviderServer([Turn(text="hello")], strict=False) as server:
        rig = Rig(server, mode=mode, advisor=advisor)
        await rig.agent.run("go")
        assert tools_of(server.requests[0]) == ["advisor_20260301" if native else "advisor"]
        await rig.aclose()


async def test_muted_native_advisor_keeps_header() -> None:
    async with FakeProviderServer([asked(), Turn(text="alone"), Turn(text="back")], strict=False) as server:
        rig = Rig(server)
        await rig.agent.run("go")
        rig.agent.apply(Switch(advisor="off"))
        await rig.agent.run("go on")
        assert tools_of(server.requests[1]) == ["advisor"]
        assert server.requests[1].headers["anthropic-beta"] == "advisor-tool-2026-03-01"
        rig.agent.apply(Switch(advisor="on"))
        await rig.agent.run("go on")
        assert tools_of(server.requests[2]) == ["advisor_20260301"]
        await rig.aclose()


async def test_advice_moves_to_other_family_as_text() -> None:
    async with FakeProviderServer([asked(), Turn(text="hello from the other side")], strict=True) as server:
        rig = Rig(server)
        await rig.agent.run("go")
        rig.agent.apply(Switch(model="openai/gpt-5.2"))
        assert (await rig.agent.run("and you?")).content == "hello from the other side"
        assert "look at the lock" in json.dumps(server.requests[1].json["input"])
        assert "advisor" in json.dumps(server.requests[1].json["tools"])
        await rig.aclose()


@pytest.mark.parametrize(
    ("cap", "size", "uses"),
    [("0.10", 9, None), ("0.50", 9, 1), ("3.00", 9, 5), ("0.50", 30_000, None), ("1", 30_000, 1), ("1", 100_000, None)],
)
async def test_native_asks_limited_by_half_the_cap(cap: str, size: int, uses: int | None) -> None:
    async with FakeProviderServer([Turn(text="done")], strict=False) as server:
        rig = Rig(server, cap=Decimal(cap))
        assert (await rig.agent.run("word " * (size // 5))).content == "done"
        tools = server.requests[0].json["tools"]
        assert isinstance(tools, list)
        (tool,) = (tool for tool in tools if isinstance(tool, dict) and tool["name"] == "advisor")
        assert tool.get("max_uses") == uses
        await rig.aclose()


async def test_cap_covers_native_consultations() -> None:
    async with FakeProviderServer([asked()], strict=False) as server:
        rig = Rig(server, cap=Decimal(2))
        await rig.agent.run("go")
        assert rig.ledger.cost().total == Decimal("0.013125")
        await rig.aclose()


async def test_held_covers_rereading_after_advice() -> None:
    """As it was recorded: the API lists, and bills, a round of the executor's before and after each consultation."""
    size, held = 100_000, list[Decimal]()

    def play(_: Received) -> Step:
        held.append(rig.ledger.held)
        return asked()

    async with FakeProviderServer(play, strict=False) as server:
        rig = Rig(server, cap=Decimal(20))
        await rig.agent.run("word " * (size // 5))
        executor = rig.ledger.prices.ceiling("anthropic", "claude-sonnet-4-6")
        advisor = rig.ledger.prices.ceiling("anthropic", "claude-opus-4-6")
        assert executor is not None
        assert advisor is not None
        limit = server.requests[0].json["max_tokens"]
        assert isinstance(limit, int)
        assert held[0] >= executor.cost(size, limit) + 5 * (executor.cost(size, 0) + advisor.cost(size, 2_048))
        await rig.aclose()
