"""Every row of providers.toml: where it is, what it wants, how it is told an effort, and a whole talk through it."""

# Parts of recordings, JSON and SDK objects are read as what they must be; a wrong one fails the test.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false, reportIndexIssue=false, reportOptionalIterable=false, reportOptionalSubscript=false

import json
import re
from itertools import pairwise

import pytest

from sagent.errors import ConfigError, UsageError
from sagent.lib.json import json_freeze_object
from sagent.messages import Image, Message, Private, Text, Thinking, ToolCall, ToolResult, assistant, user
from sagent.model import EFFORTS, Reply, Request, ToolSpec
from sagent.providers import built_in, provider_named, read_rows
from sagent.providers.families.chat.efforts import effort_members, knob_of
from sagent.providers.families.chat.events import ChatReplyReader
from sagent.providers.rows import row_for_url
from sagent.providers.wire.faults import Origin
from sagent.testing.script import Call, Turn
from sagent.testing.server import FakeProviderServer

CHAT = sorted(name for name, row in built_in().items() if row.family == "chat" and not row.plugin)
READ = ToolSpec("read", "Read.", json_freeze_object({"type": "object", "properties": {}}))
PIXEL = Image("image/png", b"\x89PNG")
SIGNED = Private("anthropic", json_freeze_object({"signature": "sig"}))


@pytest.mark.parametrize(
    ("name", "address", "key"),
    [
        ("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
        ("dashscope", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"),
        ("minimax", "https://api.minimax.io/v1", "MINIMAX_API_KEY"),
        ("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
        ("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        ("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        ("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
        ("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
        ("zai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
        ("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
        ("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
        ("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
        pytest.param(
            *("bedrock-mantle", "https://bedrock-mantle.us-east-1.api.aws/v1", "AWS_BEARER_TOKEN_BEDROCK"),
            marks=pytest.mark.plugin("clouds"),
        ),
        ("huggingface", "https://router.huggingface.co/v1", "HF_TOKEN"),
        ("ollama", "http://127.0.0.1:11434/v1", ""),
        ("lmstudio", "http://127.0.0.1:1234/v1", ""),
        ("vllm", "http://127.0.0.1:8000/v1", ""),
    ],
)
def test_provider_addresses_and_keys(name: str, address: str, key: str) -> None:
    """A server on this machine wants none, and takes one that was set up."""
    environ = {key: "k" * 8} if key else {}
    provider = provider_named(name, environ=environ)
    assert (provider.name, provider.access.base_url, provider.access.key) == (name, address, environ.get(key, ""))
    assert built_in()[name].free == (not key)
    if key:
        with pytest.raises(UsageError, match=f"set {key}"):
            provider_named(name, environ={})
    else:
        own = provider_named(name, environ={built_in()[name].key: "k" * 8})
        assert own.headers() == {"authorization": f"Bearer {'k' * 8}"}


@pytest.mark.parametrize(
    ("row", "model", "effort", "sent", "noted"),
    [
        ("moonshot", "kimi-k2.6", "none", {"thinking": {"type": "disabled"}}, False),
        ("moonshot", "kimi-k2.6", "high", {"thinking": {"type": "enabled"}}, True),
        ("moonshot", "kimi-k3", "none", {"reasoning_effort": "low"}, True),
        ("moonshot", "kimi-k3", "max", {"reasoning_effort": "max"}, False),
        ("moonshot", "kimi-k2.7-code", "none", {}, True),
        ("moonshot", "moonshot-v1-8k", "high", {}, True),
        ("dashscope", "qwen3.6-plus", "none", {"enable_thinking": False}, False),
        ("dashscope", "qwen3.6-plus", "low", {"enable_thinking": True, "thinking_budget": 4096}, False),
        ("minimax", "MiniMax-M2.7", "none", {}, True),
        ("minimax", "MiniMax-M3", "none", {"thinking": {"type": "disabled"}}, False),
        ("minimax", "MiniMax-M3", "high", {"thinking": {"type": "adaptive"}}, True),
        ("deepseek", "deepseek-v4-pro", "none", {"thinking": {"type": "disabled"}}, False),
        ("deepseek", "deepseek-v4-pro", "max", {"thinking": {"type": "enabled"}, "reasoning_effort": "max"}, False),
        ("deepseek", "deepseek-v4-pro", "minimal", {"thinking": {"type": "enabled"}, "reasoning_effort": "low"}, True),
        ("openrouter", "x/y", "xhigh", {"reasoning": {"effort": "xhigh"}}, False),
        ("groq", "openai/gpt-oss-120b", "none", {"reasoning_effort": "low"}, True),
        ("groq", "qwen/qwen3-32b", "none", {"reasoning_effort": "none"}, False),
        ("groq", "qwen/qwen3-32b", "low", {"reasoning_effort": "default"}, True),
        ("groq", "llama-3.3-70b-versatile", "low", {}, True),
        ("mistral", "mistral-small-latest", "low", {"reasoning_effort": "none"}, True),
        ("mistral", "mistral-medium-3-5", "max", {"reasoning_effort": "high"}, True),
        ("mistral", "mistral-large-4", "medium", {"reasoning_effort": "medium"}, False),
        ("mistral", "magistral-medium-latest", "none", {}, True),
        ("mistral", "codestral-latest", "high", {}, True),
        ("xai", "grok-4.3", "none", {"reasoning_effort": "none"}, False),
        ("xai", "grok-4.5", "none", {"reasoning_effort": "low"}, True),
        ("xai", "grok-4.7", "max", {"reasoning_effort": "xhigh"}, True),
        ("xai", "grok-4-fast-reasoning", "high", {}, True),
        ("zai", "glm-4.6", "none", {"thinking": {"type": "disabled"}}, False),
        ("zai", "glm-5.2", "xhigh", {"thinking": {"type": "enabled"}, "reasoning_effort": "xhigh"}, False),
        ("zai", "glm-5.3-flash", "none", {"reasoning_effort": "low"}, True),
        ("together", "zai-org/GLM-5.3", "max", {"reasoning_effort": "max"}, False),
        ("together", "meta-llama/Llama-4", "high", {}, True),
        ("fireworks", "accounts/fireworks/models/kimi-k2p5", "none", {"reasoning_effort": "none"}, False),
        ("cerebras", "gpt-oss-120b", "minimal", {"reasoning_effort": "low"}, True),
        ("cerebras", "qwen-3.8-27b", "none", {"reasoning_effort": "none"}, False),
        ("huggingface", "Qwen/Qwen3", "low", {}, True),
        ("ollama", "qwen3:8b", "none", {"reasoning_effort": "none"}, False),
        ("ollama", "gpt-oss:20b", "xhigh", {"reasoning_effort": "high"}, True),
        ("lmstudio", "x", "low", {}, True),
        (
            "vllm",
            "x",
            "max",
            {"chat_template_kwargs": {"enable_thinking": True, "reasoning_effort": "high"}},
            True,
        ),
    ],
)
def test_row_effort_members(row: str, model: str, effort: str, sent: dict, noted: bool) -> None:
    members, notes = effort_members(model, built_in()[row].quirks, effort, with_tools=True)
    assert (dict(members), bool(notes)) == (sent, noted)
    assert all(model in note for note in notes)


@pytest.mark.parametrize("name", CHAT)
def test_no_effort_adds_no_member(name: str) -> None:
    quirks = built_in()[name].quirks
    for model in ("m", *(knob.of for knob in quirks.efforts)):
        assert effort_members(model, quirks, None, with_tools=False) == ({}, ())
        for effort in EFFORTS:
            json.dumps(dict(effort_members(model, quirks, effort, with_tools=False)[0]))


def test_longest_prefix_with_or_without_vendor() -> None:
    quirks = read_rows(
        {"a": {"effort": "reasoning", "efforts": [{"of": "x-", "style": "always"}, {"of": "x-2", "style": "level"}]}},
        "t",
    )["a"].quirks
    assert [knob_of(model, quirks).style for model in ("X-1", "v/x-2b", "y")] == ["always", "level", "reasoning"]


@pytest.mark.parametrize(
    "efforts",
    [[{"of": "x"}], [{"of": "x", "style": "sometimes"}], [{"of": "x", "style": "level", "levels": ["huge"]}], ["x"]],
)
def test_invalid_effort_knob_is_named(efforts: list) -> None:
    with pytest.raises(ConfigError, match=r"\[a\] effort"):
        read_rows({"a": {"efforts": efforts}}, "settings")


def moved_history() -> list[Message]:
    """What another family left: signed thoughts, calls in parallel, one without a result, an image, words after."""
    calls = (ToolCall("toolu_01-A", "read"), ToolCall("functions.read:1", "read"), ToolCall("toolu_01-A", "read"))
    return [
        user("look", PIXEL),
        Message("assistant", (Thinking("Hm.", SIGNED), Text("On it."), *calls), model="anthropic/x", stop="tool_use"),
        Message("user", (ToolResult("toolu_01-A", (Text("a"), PIXEL)), Text("wait"))),
        assistant("", model="anthropic/x", stop="interrupted"),
        user("go on"),
    ]


def accepted(row: str, messages: list[dict]) -> None:
    """What this provider is known to refuse."""
    quirks = built_in()[row].quirks
    ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert len(set(ids)) == len(ids)
    if row == "mistral":
        assert all(re.fullmatch("[a-zA-Z0-9]{9}", each) for each in ids)
        roles = [message["role"] for message in messages]
        assert ("tool", "user") not in pairwise(roles)
        assert roles[-1] in ("user", "tool")
    else:
        assert all(len(each) <= quirks.longest_id for each in ids)
    if not quirks.images:
        assert "image_url" not in json.dumps(messages)


@pytest.mark.parametrize("name", CHAT)
async def test_foreign_conversation_continues(name: str) -> None:
    """Its requests are accepted, grow by what is new, and carry back the reasoning that is wanted."""
    script = [Turn("Reading.", thinking="Let me see.", calls=(Call("read"), Call("read"))), Turn("Done.")]
    async with FakeProviderServer(script) as server:
        provider = provider_named(name, key="key-for-tests", base_url=f"{server.url}/v1")
        model, history = provider.model("m"), moved_history()
        for _ in script:
            request = Request("c", list(history), "Be terse.", (READ,), 100)
            replies = [item async for item in model.stream(request) if isinstance(item, Reply)]
            history.append(replies[0].message)
            results = [ToolResult(call.id, (Text("ok"),)) for call in replies[0].message.calls]
            history.append(Message("user", (*results, Text("and?"))))
        await provider.aclose()
    assert server.charges
    assert replies[0].message.content == "Done."
    asked = [request.json for request in server.requests if request.method == "POST"]
    first, second = (body["messages"] for body in asked)
    assert second[: len(first)] == first
    for messages in (first, second):
        accepted(name, messages)
    quirks = built_in()[name].quirks
    reply = second[len(first)]
    told = {field: reply[field] for field in reply if field.startswith("reasoning")}
    wanted = quirks.reasoning_back in ("reasoning_content", "same")
    assert told == ({"reasoning_content": "Let me see."} if wanted else {})
    assert asked[0].get("stream_options") == ({"include_usage": True} if quirks.stream_usage else None)
    assert asked[0][quirks.max_tokens] == 100
    assert quirks.body.items() <= asked[0].items()


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("name", ["vllm", "ollama", "openai-compatible"])
def test_reasoning_returns_under_its_name(field: str, name: str) -> None:
    reader = ChatReplyReader(Origin(name, "m"), f"chat:{name}")
    call = {"index": 0, "id": "c1", "function": {"name": "read", "arguments": "{}"}}
    choice = {"index": 0, "delta": {field: "hm", "tool_calls": [call]}, "finish_reason": "tool_calls"}
    reader.feed({"choices": [choice]}, [])
    model = provider_named(name, base_url="http://127.0.0.1:4711/v1", environ={}).model("m")
    sent = json.loads(model.prepare(Request("c", [user("hi"), reader.message()])).body.data)["messages"][1]
    assert {name: value for name, value in sent.items() if name.startswith("reasoning")} == {field: "hm"}


def test_double_reasoning_returns_twice() -> None:
    """At a gateway of which we know nothing: the signatures of Gemini's calls are in the details."""
    signed = {"type": "reasoning.encrypted", "id": "c1", "data": "xx"}
    reader = ChatReplyReader(Origin("openai-compatible", "m"), "chat:openai-compatible")
    call = {"index": 0, "id": "c1", "function": {"name": "read", "arguments": "{}"}}
    delta = {"reasoning": "hm", "reasoning_details": [signed], "tool_calls": [call]}
    reader.feed({"choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]}, [])
    model = provider_named("openai-compatible", base_url="http://127.0.0.1:4711/v1", environ={}).model("m")
    sent = json.loads(model.prepare(Request("c", [user("hi"), reader.message()])).body.data)["messages"][1]
    assert {name: value for name, value in sent.items() if name.startswith("reasoning")} == {
        "reasoning": "hm",
        "reasoning_details": [signed],
    }


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.moonshot.ai/anything", "moonshot"),
        ("https://api.openai.com/v1", "openai"),
        ("http://localhost:11434/v1", "ollama"),
        ("http://127.0.0.1:8000", "vllm"),
        ("http://127.0.0.1:4711/v1", None),
        ("https://models.example/v1", None),
        ("", None),
    ],
)
def test_known_address_gets_its_row(url: str, name: str | None) -> None:
    """Quirks of a known provider hold for a generic one at its address; on this machine the port tells them apart."""
    row = row_for_url(url)
    assert (row and row.name) == name


def test_own_row_takes_every_quirk() -> None:
    table = {
        "base_url": "https://models.example/v1",
        "free": True,
        "effort": "level",
        "efforts": [{"of": "big-", "style": "level", "levels": ["low", "max"]}],
        "id_length": 9,
        "bridge": "Yes.",
    }
    row = read_rows({"mine": table}, "settings")["mine"]
    assert (row.free, row.quirks.id_length, row.quirks.bridge) == (True, 9, "Yes.")
    provider = provider_named("mine", key="k" * 8, rows={"mine": row})
    call = provider.model("big-1").prepare(Request("c", [user("hi")], effort="medium"))
    assert json.loads(call.body.data)["reasoning_effort"] == "low"
    assert call.notes
