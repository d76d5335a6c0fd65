"""Whatever one family's models can say, every other family accepts; and back at home nothing of one's own is missing.

Replies are made as they come over the wire and read by each family's own reader, so that the histories here are those
that can occur: thinking with signatures, calls in parallel, with ids that repeat or are missing, without results, cut
off by an interrupt, blocks of server tools, images, refusals, blank text. Each is then sent to every family.
"""

# Parts of recordings, JSON and SDK objects are read as what they must be; a wrong one fails the test.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false, reportIndexIssue=false, reportReturnType=false

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_handover import check_anthropic, check_chat

from sagent.lib.json import json_freeze_object
from sagent.messages import Document, Image, Message, Part, Text, ToolResult, user
from sagent.model import Request, ToolSpec
from sagent.providers import provider_named
from sagent.providers.families.anthropic.events import MessagesReplyReader
from sagent.providers.families.chat.events import ChatReplyReader
from sagent.providers.families.google.events import GenerateReplyReader
from sagent.providers.families.google.provider import FOREIGN
from sagent.providers.families.responses.events import ResponsesReplyReader
from sagent.providers.wire.faults import Origin
from sagent.testing.families import FAMILIES
from sagent.testing.script import Received
from tests.deleted import deleted
from tests.depth import deep, later
from tests.plugins.clouds.converse_judge import judge
from tests.providers.sdk_types import sdk_adapters

READ = ToolSpec("read", "Read.", json_freeze_object({"type": "object"}))
PIXEL, PAPER = Image("image/png", b"\x89PNG"), Document("application/pdf", b"%PDF-1.4 /Type /Page ", "a.pdf")
TARGETS = {  # provider, model: the strict reading of its requests
    ("anthropic", "claude-sonnet-4-6"): "anthropic",
    ("openai", "gpt-5.6-terra"): "responses",
    ("openai", "gpt-4.1"): "responses",
    ("moonshot", "kimi-k2.6"): "chat",
    ("deepseek", "deepseek-v4-flash"): "chat",
    ("mistral", "mistral-large-4"): "chat",
    ("openrouter", "x/y"): "chat",
    ("google", "gemini-3.1-pro-preview"): "google",
    ("google", "gemini-2.5-flash"): "google",
    **({} if deleted("clouds") else {("bedrock", "us.amazon.nova-pro-v1:0"): "converse"}),
}
Raw = dict[str, object]

texts = st.sampled_from(["Hello.", "", " \n", "Größe 🌍", "x" * 300])
arguments = st.sampled_from([{"path": "a"}, {}, {"n": 1.0, "deep": [{"x": None}]}])
stops = st.sampled_from(["end", "interrupted", ""])  # "": as the reader has it


def blocks(*kinds: st.SearchStrategy[list[Raw]]) -> st.SearchStrategy[list[Raw]]:
    """Some blocks of a reply, in any order; a kind may bring several that belong together."""
    return st.lists(st.one_of(*kinds), max_size=5).map(lambda groups: [block for group in groups for block in group])


# ---------------------------------------------------------------------------------------------------------------------
# Anthropic


@st.composite
def claude_blocks(draw: st.DrawFn) -> list[Raw]:
    number = draw(st.integers(0, 10**6))
    used = f"srvtoolu_{number}"
    use = {"type": "server_tool_use", "id": used, "name": "web_search", "input": {"query": "q"}}
    found = {"type": "web_search_result", "title": "T", "url": "https://a", "encrypted_content": "E"}
    cited = [{"type": "web_search_result_location", "cited_text": "c", "url": "https://a", "encrypted_index": "I"}]
    ran = {"type": "code_execution_result", "stdout": "42", "stderr": "", "return_code": 0, "content": []}
    run = {"type": "code_execution_tool_result", "tool_use_id": used, "content": ran}
    return draw(
        st.one_of(
            texts.map(lambda text: [{"type": "text", "text": text}]),
            st.just([{"type": "text", "text": "Cited.", "citations": cited}]),
            st.just([{"type": "thinking", "thinking": f"Hm {number}.", "signature": f"sig{number}"}]),
            st.just([{"type": "redacted_thinking", "data": f"red{number}"}]),
            st.builds(
                lambda call_id, given: [{"type": "tool_use", "id": call_id, "name": "read", "input": given}],
                st.sampled_from(["toolu_a", "toolu_b", f"toolu_{number}"]),
                arguments,
            ),
            st.just([use, {"type": "web_search_tool_result", "tool_use_id": used, "content": [found]}]),
            st.just([{**use, "name": "code_execution", "input": {"code": "6*7"}}, run]),
            st.just([use]),  # paused, or broken off
        )
    )


def claude_reply(content: list[Raw], stop: str) -> Message:
    reader = MessagesReplyReader(Origin("anthropic", "claude-sonnet-4-6"))
    called = any(block["type"] == "tool_use" for block in content)
    reason = {"interrupted": "max_tokens", "": "pause_turn"}.get(stop, "tool_use" if called else "end_turn")
    reader.whole({"type": "message", "id": "m", "content": content, "stop_reason": reason}, [])
    return reader.message()


def claude_keeps(content: list[Raw]) -> list[Raw]:
    """What must come back: all but blank text, thinking at the end, and server tools' uses that have no result."""
    answered = {block.get("tool_use_id") for block in content}
    kept = [
        block
        for block in content
        if not (block["type"] == "text" and not str(block["text"]).strip())
        and not (block["type"] == "server_tool_use" and block["id"] not in answered)
    ]
    while kept and kept[-1]["type"] in ("thinking", "redacted_thinking"):
        kept.pop()
    return kept


def claude_sends(body: Mapping[str, list]) -> list[Raw]:
    said = [block for turn in body["messages"] if turn["role"] == "assistant" for block in turn["content"]]
    return [without(block, "cache_control") for block in said]


# ---------------------------------------------------------------------------------------------------------------------
# OpenAI Responses


@st.composite
def gpt_items(draw: st.DrawFn) -> list[Raw]:
    number = draw(st.integers(0, 10**9))
    part = {"type": "output_text", "text": draw(texts), "annotations": []}
    call = {"type": "function_call", "id": f"fc_{number}", "name": "read", "arguments": '{"path": "a"}'}
    search = {"type": "web_search_call", "id": f"ws_{number}", "status": "completed", "action": {"type": "search"}}
    summary = [{"type": "summary_text", "text": "Hm."}]
    thought = {"type": "reasoning", "id": f"rs_{number}", "summary": summary, "encrypted_content": f"gAA{number}"}
    said = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "phase": "commentary"}
    return draw(
        st.sampled_from(
            [
                [{**said, "content": [part]}],
                [{**said, "content": [{"type": "refusal", "refusal": "No."}]}],
                [thought],
                [{**thought, "encrypted_content": None}],  # which nobody has kept
                [{**call, "call_id": f"call_{number}"}],
                [{**call, "call_id": "call_same"}],
                [search],
            ]
        )
    )


def gpt_reply(output: list[Raw], stop: str) -> Message:
    reader = ResponsesReplyReader(Origin("openai", "gpt-5.6-terra"), "responses:openai")
    status = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}} if not stop else {}
    reader.whole({"id": "r", "status": "completed", "output": output, **status}, [])
    return reader.message()


def gpt_keeps(output: list[Raw]) -> list[Raw]:
    kept = [
        item
        for item in output
        if not (item["type"] == "reasoning" and not item["encrypted_content"])
        and not (item["type"] == "message" and not str(item["content"][0].get("text", "No.")).strip())
    ]
    while kept and kept[-1]["type"] == "reasoning":
        kept.pop()
    return kept


def gpt_sends(body: Mapping[str, list]) -> list[Raw]:
    return body["input"]


# ---------------------------------------------------------------------------------------------------------------------
# Google


@st.composite
def gemini_parts(draw: st.DrawFn) -> list[Raw]:
    number = draw(st.integers(0, 10**6))
    signature = f"c2ln{number:08d}"
    call = {"functionCall": {"name": "read", "args": draw(arguments)}, "thoughtSignature": signature}
    own = {"functionCall": {"id": draw(st.sampled_from(["own-a", f"own-{number}"])), "name": "read", "args": {}}}
    ran = [
        {"executableCode": {"language": "PYTHON", "code": "6*7"}, "thoughtSignature": signature},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42"}},
    ]
    return draw(
        st.sampled_from(
            [
                [{"text": f"Said {number}.", "thoughtSignature": signature}],
                [{"text": " "}],
                [{"text": "", "thoughtSignature": signature}],
                [{"text": "Hm.", "thought": True}],
                [{"text": "Hm.", "thought": True, "thoughtSignature": signature}],
                [call],
                [own],
                ran,
            ]
        )
    )


def gemini_reply(parts: list[Raw], stop: str) -> Message:
    reader = GenerateReplyReader(Origin("google", "gemini-3.1-pro-preview"))
    said = any(str(part.get("text", "x")).strip() and not part.get("thought") for part in parts)
    reason = "STOP" if stop and said else "MAX_TOKENS"  # an end without a word is an error
    content = {"role": "model", "parts": parts}
    reader.whole({"responseId": "r", "candidates": [{"content": content, "finishReason": reason}]}, [])
    return reader.message()


def gemini_keeps(parts: list[Raw]) -> list[Raw]:
    kept = [part for part in parts if "thoughtSignature" in part or set(part) - {"text", "thought"}]
    while kept and kept[-1].get("thought"):
        kept.pop()
    return kept


def gemini_sends(body: Mapping[str, list]) -> list[Raw]:
    said = [part for content in body["contents"] if content["role"] == "model" for part in content["parts"]]
    return [part if part.get("thoughtSignature") != FOREIGN else without(part, "thoughtSignature") for part in said]


# ---------------------------------------------------------------------------------------------------------------------
# Chat Completions: Moonshot, which wants its reasoning back before calls


@st.composite
def kimi_fields(draw: st.DrawFn) -> list[Raw]:
    number = draw(st.integers(0, 10**6))
    ids = st.sampled_from(["read:0", f"functions.read:{number}", "", "x" * 90])
    call = {"id": draw(ids), "type": "function", "function": {"name": "read", "arguments": '{"path":"a"}'}}
    return draw(
        st.sampled_from([[{"content": f"Said {number}."}], [{"content": " "}], [{"reasoning_content": "Hm."}], [call]])
    )


def kimi_message(fields: list[Raw]) -> Raw:
    calls = [field for field in fields if "function" in field]
    rest = {name: value for field in fields if "function" not in field for name, value in field.items()}
    return {"role": "assistant", "content": None, **rest, **({"tool_calls": calls} if calls else {})}


def kimi_reply(fields: list[Raw], stop: str) -> Message:
    reader = ChatReplyReader(Origin("moonshot", "kimi-k2.6"), "chat:moonshot")
    reason = "length" if not stop else "stop"
    reader.whole({"id": "r", "choices": [{"message": kimi_message(fields), "finish_reason": reason}]}, [])
    return reader.message()


def kimi_keeps(fields: list[Raw]) -> list[Raw]:
    """The reasoning of a message with calls, and those ids of calls that came up first."""
    message = kimi_message(fields)
    calls = message.get("tool_calls", [])
    if not calls or "reasoning_content" not in message:
        return []
    return [{"reasoning_content": message["reasoning_content"], "calls": len(calls)}]


def kimi_sends(body: Mapping[str, list]) -> list[Raw]:
    return [
        {"reasoning_content": message["reasoning_content"], "calls": len(message["tool_calls"])}
        for message in body["messages"]
        if message.get("tool_calls")
    ]


Reader = Callable[[list[Raw], str], Message]
READERS: dict[str, tuple[st.SearchStrategy[list[Raw]], Reader]] = {
    "anthropic": (blocks(claude_blocks()), claude_reply),
    "openai": (blocks(gpt_items()), gpt_reply),
    "google": (blocks(gemini_parts()), gemini_reply),
    "moonshot": (blocks(kimi_fields()), kimi_reply),
}


def without(fields: Mapping[str, object], *names: str) -> Raw:
    return {name: value for name, value in fields.items() if name not in names}


@st.composite
def talks(draw: st.DrawFn, *families: str) -> tuple[list[Message], list[tuple[str, list[Raw], Message]]]:
    """A history of several families' replies, each followed by results for some of its calls and words, or by nothing;
    and the replies as they came."""
    history: list[Message] = [user("Begin.", *draw(st.sampled_from([(), (PIXEL,), (PAPER,)])))]
    said: list[tuple[str, list[Raw], Message]] = []
    for _ in range(draw(st.integers(1, 5))):
        family = draw(st.sampled_from(families or tuple(READERS)))
        strategy, read = READERS[family]
        raw, stop = draw(strategy), draw(stops)
        if family == "openai":
            seen = {item["id"] for _, items, _ in said for item in items if "id" in item}
            raw = [item for item in raw if item["id"] not in seen]
            raw = list({item["id"]: item for item in raw}.values())
        message = read(raw, stop)
        if stop == "interrupted":
            message = Message("assistant", message.parts, model=message.model, stop="interrupted")
        history.append(message)
        said.append((family, raw, message))
        match draw(st.sampled_from(["answered", "some", "none", "twice", "again"])):
            case "answered":
                history.append(answers(message.calls, Text("go on")))
            case "some":
                history.append(answers(message.calls[:1], Text(draw(texts))))
            case "twice":
                history.append(answers((*message.calls, *message.calls), PIXEL))
            case "none":
                history.append(user(draw(texts)))
            case _:
                pass  # another reply right after it
    return history, said


def answers(calls: Iterable[object], *more: Part) -> Message:
    results = [ToolResult(call.id, (Text("ok"), PIXEL)) for call in calls]
    return Message("user", (*results, *more))


def sent(provider: str, model: str, history: Sequence[Message]) -> tuple[dict, list[str]]:
    """The request, and what the strict server says against it."""
    call = (
        provider_named(provider, key="k" * 8)
        .model(model)
        .prepare(Request("c", list(history), "Be terse.", (READ,), 100))
    )
    body = json.loads(call.body.data)
    path, family = urlsplit(call.url).path, TARGETS[provider, model]
    received = Received("POST", path, "", call.headers, call.body.data, body, 0.0, 1, family)
    return body, list(FAMILIES[family].complaints(received))


@settings(max_examples=deep(32, 80), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(talks())
def test_families_accept_each_other(talk: tuple[list[Message], object]) -> None:
    history, _ = talk
    for (provider, model), family in TARGETS.items():
        body, complaints = sent(provider, model, history)
        assert complaints == [], (provider, model)
        if provider == "anthropic":
            check_anthropic(body)
        elif family == "chat":
            check_chat(body) if provider != "mistral" else check_mistral(body)


def check_mistral(body: Mapping[str, list]) -> None:
    roles = [message["role"] for message in body["messages"]]
    assert all(not (one == "tool" and other == "user") for one, other in pairwise(roles))
    ids = [call["id"] for message in body["messages"] for call in message.get("tool_calls", ())]
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", each) for each in ids)
    assert len(set(ids)) == len(ids)
    check_chat(body, 9)


HOMES = {
    "anthropic": ("claude-sonnet-4-6", claude_keeps, claude_sends),
    "openai": ("gpt-5.6-terra", gpt_keeps, gpt_sends),
    "google": ("gemini-3.1-pro-preview", gemini_keeps, gemini_sends),
    "moonshot": ("kimi-k2.6", kimi_keeps, kimi_sends),
}


@pytest.mark.parametrize("home", HOMES)
@settings(max_examples=deep(15, 60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_own_blocks_return_home_unchanged(home: str, data: st.DataObject) -> None:
    """Whoever spoke in between: every block of the family's own is there again as it came, in its order."""
    others = [family for family in READERS if family != home]
    history, said = data.draw(talks(home, home, *others))
    model, keeps, sends = HOMES[home]
    for provider, other in (("anthropic", "claude-sonnet-4-6"), ("openai", "gpt-5.6-terra"), (home, model)):
        body, _ = sent(provider, other, history)  # away and back: what is kept is kept per family
    out = [comparable(block) for block in sends(body)]
    place = 0
    for family, raw, message in said:
        if family != home:
            continue
        paused = message.stop == "pause"
        for block in keeps(raw):
            if paused and block.get("type") == "server_tool_use":
                continue
            wanted = comparable(block)
            assert wanted in out[place:], (wanted, out[place:])
            place += out[place:].index(wanted) + 1


def comparable(block: Raw) -> Raw:
    """Ids of calls that come up again are made anew: without them."""
    if block.get("type") == "tool_use":
        return without(block, "id")
    if block.get("type") == "function_call":
        return without(block, "call_id")
    if "functionCall" in block:
        return {**block, "functionCall": without(block["functionCall"], "id")}
    return block


@later
@settings(max_examples=deep(12, 15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(talks())
def test_sdk_types_accept_handover(talk: tuple[list[Message], object]) -> None:
    history, _ = talk
    adapters = sdk_adapters()
    for (provider, model), family in TARGETS.items():
        body, _ = sent(provider, model, history)
        if family == "converse":
            judge(f"/model/{model}/converse-stream", body)
            continue
        for message in body[
            "messages" if family in ("anthropic", "chat") else "input" if family == "responses" else "contents"
        ]:
            message = without(message, "reasoning_content", "reasoning_details")  # of Moonshot's and OpenRouter's own
            adapters[family](message)
