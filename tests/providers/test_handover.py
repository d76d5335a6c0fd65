"""Any history becomes one that the strictest reading of each family's rules accepts; what is closed stays closed."""

import json
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.codec import decode_message, encode_message
from sagent.lib.json import JsonObject, canonical_bytes, json_freeze_object, json_load
from sagent.messages import (
    Document,
    Image,
    Message,
    Opaque,
    Private,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    user,
)
from sagent.model import Request, ToolSpec
from sagent.providers import Anthropic, Moonshot, OpenAI, OpenAICompatible, provider_named
from sagent.providers.handover import CONTINUE, EMPTY, INTERRUPTED, Handover, ModelTurn, Rules, UserTurn
from tests.depth import deep

SIGNED = Private("anthropic", json_freeze_object({"signature": "sig"}))
FOREIGN = Private("elsewhere", json_freeze_object({"id": "rs_1"}))
READ = ToolSpec("Read", "Read.", json_freeze_object({"type": "object"}))
MARKER = b',"cache_control":{"type":"ephemeral"}'

ids = st.sampled_from(["a", "b", "toolu_1", "call:1 ü", "", "x" * 80, "functions.Read:0"])
texts = st.sampled_from(["hello", "", " \n", "Größe 🌍", "\ud800"])
shown = st.one_of(
    texts.map(Text),
    st.just(Image("image/png", b"\x89PNG")),
    st.just(Image("image/tiff", b"II*")),
    st.just(Document("application/pdf", b"%PDF-1.4 /Type /Page ", "a.pdf")),
    st.just(Document("text/plain", b"words")),
)
results = st.builds(ToolResult, ids, st.lists(shown, max_size=2).map(tuple), st.booleans())
calls = st.builds(
    ToolCall,
    ids,
    st.sampled_from(["Read", "odd name!", ""]),
    st.sampled_from([JsonObject({"path": "a"}), JsonObject()]),
    st.sampled_from([None, "{not json"]),
    st.sampled_from([None, FOREIGN]),
    st.booleans(),
)
said = st.one_of(
    texts.map(Text),
    calls,
    st.builds(Thinking, texts, st.sampled_from([None, SIGNED, FOREIGN])),
    st.builds(
        Opaque,
        texts,
        st.sampled_from(
            [
                FOREIGN,
                Private(
                    "anthropic", json_freeze_object({"type": "server_tool_use", "id": "s1", "name": "web", "input": {}})
                ),
                Private(
                    "anthropic", json_freeze_object({"type": "web_tool_result", "tool_use_id": "s1", "content": []})
                ),
            ]
        ),
    ),
    st.just(Image("image/png", b"x")),
)
stops = st.sampled_from([None, "end", "tool_use", "pause", "interrupted", "max_tokens"])
messages = st.one_of(
    st.builds(
        Message,
        st.just("user"),
        st.lists(st.one_of(shown, results), max_size=4).map(tuple),
        st.sampled_from(["", "job:3"]),
    ),
    st.builds(
        Message,
        st.just("assistant"),
        st.lists(said, max_size=4).map(tuple),
        model=st.sampled_from(["anthropic/a", "openai/b", ""]),
        stop=stops,
    ),
)
histories = st.lists(messages, max_size=9)


def body_of(provider: object, history: list[Message], conversation: str = "c") -> bytes:
    request = Request(conversation, history, "Be terse.", (READ,), 100)
    return provider.model("claude-sonnet-4-6").prepare(request).body.data  # pyright: ignore[reportAttributeAccessIssue]


def check_anthropic(body: dict) -> None:
    """The rules of the Messages API that histories break, as its 400s state them."""
    turns = body["messages"]
    assert turns, "at least one message is required"
    assert turns[0]["role"] == "user"
    seen: set[str] = set()
    for at, turn in enumerate(turns):
        assert at == 0 or turn["role"] != turns[at - 1]["role"], "roles must alternate"
        blocks = turn["content"]
        assert blocks, "all messages must have non-empty content"
        for block in blocks:
            if block["type"] == "text":
                assert block["text"].strip(), "text content blocks must contain non-whitespace text"
        if turn["role"] == "assistant":
            assert blocks[-1]["type"] not in ("thinking", "redacted_thinking"), "the final block cannot be thinking"
            asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
            for block in blocks:
                if block["type"] == "tool_use":
                    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block["id"])
                    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", block["name"])
                    assert isinstance(block["input"], dict)
                    assert block["id"] not in seen, "tool_use ids must be unique"
                    seen.add(block["id"])
                assert block["type"] != "thinking" or block["signature"]
                assert block["type"] not in ("image", "document", "tool_result")
            uses = {block["id"] for block in blocks if block["type"] == "server_tool_use"}
            done = {block["tool_use_id"] for block in blocks if block["type"].endswith("_tool_result")}
            if at < len(turns) - 1 and not asked:
                assert uses <= done, "server tool use without its result"
            answered = turns[at + 1]["content"] if at + 1 < len(turns) else []
            got = [block["tool_use_id"] for block in answered if block["type"] == "tool_result"]
            assert sorted(got) == sorted(asked), "each tool_use must have its tool_result in the next message, once"
        else:
            kinds = [block["type"] == "tool_result" for block in blocks]
            assert kinds == sorted(kinds, reverse=True), "tool results come first"
            if at == 0:
                assert not any(kinds)
            for block in blocks:
                if block["type"] == "tool_result":
                    assert block["content"], "tool_result content must not be empty"
    # A turn that ends the request must be the user's, unless the provider paused it.
    markers = json.dumps(body).count('"cache_control"')
    assert markers <= 4


def check_chat(body: dict, longest: int = 40) -> None:
    turns = body["messages"]
    assert turns[0]["role"] == "system"
    turns = turns[1:]
    assert turns
    assert turns[0]["role"] == "user"
    waiting: list[str] = []
    seen: set[str] = set()
    before = ""
    for turn in turns:
        role = turn["role"]
        if role == "tool":
            assert waiting, "messages with role 'tool' must follow a message with 'tool_calls'"
            assert turn["tool_call_id"] == waiting.pop(0)
            assert isinstance(turn["content"], str)
            assert turn["content"].strip()
        else:
            assert not waiting, "tool_call_ids did not have response messages"
            assert role != before, "user and assistant must alternate"
            if role == "assistant":
                assert turn["content"] or turn.get("tool_calls")
                for call in turn.get("tool_calls", ()):
                    assert 0 < len(call["id"]) <= longest
                    assert call["id"] not in seen
                    seen.add(call["id"])
                    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["function"]["name"])
                    assert isinstance(json.loads(call["function"]["arguments"]), dict)
                    waiting.append(call["id"])
            else:
                content = turn["content"]
                assert content
                for block in content if isinstance(content, list) else ():
                    assert block["type"] in ("text", "image_url", "file")
                    assert block["type"] != "text" or block["text"].strip()
        before = role
    assert not waiting
    assert turns[-1]["role"] in ("user", "tool")


@settings(max_examples=deep(100, 250), deadline=None)
@given(histories)
def test_anthropic_accepts_every_history(history: list[Message]) -> None:
    check_anthropic(json.loads(body_of(Anthropic.from_key("k" * 8), history)))


@settings(max_examples=deep(100, 250), deadline=None)
@given(histories)
def test_chat_accepts_every_history(history: list[Message]) -> None:
    check_chat(json.loads(body_of(Moonshot.from_key("k" * 8), history)))


def closed_part(body: bytes) -> bytes:
    """The body without breakpoints, up to the last turn and its end."""
    plain = body.replace(MARKER, b"")
    turns = json.loads(plain)["messages"]
    last = json.dumps(turns[-1], ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    at = plain.rfind(last)
    assert at > 0
    return plain[:at]


@pytest.mark.costly
@settings(max_examples=deep(60, 150), deadline=None)
@given(histories, messages)
@pytest.mark.parametrize("kind", [Anthropic, Moonshot])
def test_closed_turns_never_change(kind: type, history: list[Message], further: Message) -> None:
    provider = kind.from_key("k" * 8)
    before = body_of(provider, history)
    after = body_of(provider, [*history, further])
    if isinstance(provider, Moonshot):  # results are messages of their own: the last turn may be several
        plain = before.split(b'],"model"')[0]
        turns = json.loads(before)["messages"]
        while turns and turns[-1]["role"] in ("user", "tool"):
            turns.pop()
        kept = len(turns)
        assert json.loads(after)["messages"][:kept] == turns
        assert plain[:20] == after[:20]
    else:
        assert after.replace(MARKER, b"").startswith(closed_part(before))


@settings(max_examples=deep(40, 100), deadline=None)
@given(histories)
@pytest.mark.parametrize("kind", [Anthropic, Moonshot, OpenAI])
def test_kept_body_equals_fresh_body(kind: type, history: list[Message]) -> None:
    kept, fresh = kind.from_key("k" * 8), kind.from_key("k" * 8)
    for length in range(len(history) + 1):
        grown = body_of(kept, history[:length])
    assert grown == body_of(fresh, history)


@settings(max_examples=deep(15, 60), deadline=None)
@given(histories)
def test_request_starts_with_earlier_one(history: list[Message]) -> None:
    """In a conversation as agents have it, where each request ends with the user's turn."""
    provider = Anthropic.from_key("k" * 8)
    talk: list[Message] = []
    bodies: list[bytes] = []
    for message in history:
        call = ToolCall("same", "Read")
        talk.append(
            Message("user", (*((ToolResult("same", (Text("ok"),)),) if talk else ()), Text("go on"), *message.parts))
        )
        bodies.append(body_of(provider, talk).replace(MARKER, b""))
        talk.append(Message("assistant", (Text("yes"), call), model="anthropic/a", stop="tool_use"))
    for before, after in pairwise(bodies):
        end = before.rindex(b'],"model"')
        assert after.startswith(before[:end])


def fed(*history: Message, rules: Rules | None = None) -> list:
    handover = Handover(rules or Rules("anthropic"))
    return [turn for message in history for turn in handover.feed(message)] + [handover.open()]


def test_results_in_call_order_and_once() -> None:
    calls = (ToolCall("1", "A"), ToolCall("2", "B"))
    turns = fed(
        user("hi"),
        Message("assistant", calls),
        Message("user", (Text("wait"), ToolResult("2", (Text("b"),)), ToolResult("9", (Text("lost"),)))),
        Message("user", (ToolResult("1", (Text("a"),)), ToolResult("1", (Text("again"),)))),
    )
    last = turns[-1]
    assert isinstance(last, UserTurn)
    assert [(answer.call_id, answer.content[0]) for answer in last.answers] == [("1", Text("a")), ("2", Text("b"))]
    assert last.parts == (Text("wait"),)


def test_missing_result_is_interrupted() -> None:
    history = [user("hi"), Message("assistant", (ToolCall("1", "A"),)), user("stop"), assistant("ok")]
    turns = fed(*history)
    assert isinstance(turns[2], UserTurn)
    assert turns[2].answers[0].content == (Text(INTERRUPTED),)
    assert turns[2].answers[0].is_error
    later = fed(*history, Message("user", (ToolResult("1", (Text("late"),)),)))
    assert later[:4] == turns[:4]
    assert later[-1] == UserTurn((), (Text(EMPTY),))


def test_same_id_calls_answered_in_order() -> None:
    turns = fed(
        user("hi"),
        Message("assistant", (ToolCall("", "A"), ToolCall("", "B"))),
        Message("user", (ToolResult("", (Text("a"),)), ToolResult("", (Text("b"),)))),
    )
    answers = turns[-1].answers
    assert [(answer.name, answer.content[0].text) for answer in answers] == [("A", "a"), ("B", "b")]
    assert len({answer.call_id for answer in answers}) == 2


def test_paused_turn_continues_same_turn() -> None:
    use = Opaque("", Private("anthropic", json_freeze_object({"type": "server_tool_use", "id": "s1"})))
    done = Opaque("found", Private("anthropic", json_freeze_object({"type": "web_tool_result", "tool_use_id": "s1"})))
    paused = Message("assistant", (Text("a"), use), stop="pause")
    assert fed(user("hi"), paused) == [UserTurn((), (Text("hi"),)), ModelTurn((Text("a"), use))]
    on = fed(user("hi"), paused, Message("assistant", (done, Text("b")), stop="end"), user("thanks"))
    assert on[1] == ModelTurn((Text("a"), use, done, Text("b")))
    assert fed(user("hi"), paused, user("stop"))[1] == ModelTurn((Text("a"),))


def test_final_thinking_is_left_out() -> None:
    """A reply must not end in thinking (Anthropic: 400), and one that holds nothing else is no turn at all."""
    call = ToolCall("a", "Read")
    wants = Message("assistant", (Thinking("hm", SIGNED), call, Thinking("so", SIGNED)), stop="tool_use")
    assert fed(user("hi"), wants)[1] == ModelTurn((Thinking("hm", SIGNED), call))
    alone = Message("assistant", (Thinking("hm", SIGNED), Thinking("so", SIGNED)), stop="interrupted")
    assert fed(user("hi"), alone, user("go on")) == [UserTurn((), (Text("hi"), Text("go on")))]


def test_thinking_before_lost_tool_is_left_out() -> None:
    use = Opaque("", Private("anthropic", json_freeze_object({"type": "server_tool_use", "id": "s1"})))
    cut = Message("assistant", (Text("a"), Thinking("hm", SIGNED), use), stop="interrupted")
    assert fed(user("hi"), cut)[1] == ModelTurn((Text("a"),))


def test_private_data_stays_in_its_family() -> None:
    reply = Message("assistant", (Thinking("hm", SIGNED), Opaque("advice", SIGNED), Text("x", SIGNED)))
    assert fed(user("hi"), reply)[1] == ModelTurn(reply.parts)  # pyright: ignore[reportArgumentType]
    assert fed(user("hi"), reply, rules=Rules("chat:x"))[1] == ModelTurn((Text("advice"), Text("x")))


def test_own_ids_go_back_as_they_came() -> None:
    own = Message("assistant", (ToolCall("functions.Read:0", "Read"),), model="moonshot/kimi")
    rules = Rules("chat:moonshot", 40, "moonshot/")
    assert fed(user("hi"), own, rules=rules)[1].parts[0].id == "functions.Read:0"
    assert fed(user("hi"), own)[1].parts[0].id == "functions_Read_0"


def test_message_sender_is_told() -> None:
    assert fed(user("done", sender="job:3"))[-1].parts == (Text("[from job:3]\ndone"),)


def test_final_assistant_is_asked_to_go_on() -> None:
    assert fed(user("hi"), assistant("Hello."))[-1] == UserTurn((), (Text(CONTINUE),))


def test_answers_in_a_row_stay_apart() -> None:
    turns = fed(user("hi"), assistant("a"), assistant("b"))
    assert [type(turn) for turn in turns] == [UserTurn, ModelTurn, UserTurn, ModelTurn, UserTurn]


def test_result_media_go_in_next_chat_message() -> None:
    history = [
        user("look"),
        Message("assistant", (ToolCall("1", "Read"),)),
        Message("user", (ToolResult("1", (Text("a png"), Image("image/png", b"x"))), Text("well?"))),
    ]
    body = json.loads(body_of(OpenAICompatible.from_key("", base_url="http://localhost:1"), history))
    tool, after = body["messages"][-2:]
    assert tool == {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "a png"}]}
    assert [block["type"] for block in after["content"]] == ["text", "image_url", "text"]


def test_made_up_id_survives_resume() -> None:
    """A log mends what is no valid Unicode."""
    rules = Rules("chat:mistral", id_length=9)
    said = Message("assistant", (ToolCall("call-\ud800", "Read"),))
    again = decode_message(json_load(canonical_bytes(encode_message(said, None))), None)
    assert fed(user("hi"), said, rules=rules) == fed(user("hi"), again, rules=rules)


def test_own_long_ids_kept_others_cut() -> None:
    """OpenRouter's details name the call that they sign."""
    long = "tool_0_get_current_weather_PWzyW2sI3uKsGniIxpGn"
    history = [
        Message("assistant", (ToolCall(long, "Read"),), model="openrouter/google/gemini-3-pro", stop="tool_use"),
        Message("user", (ToolResult(long, (Text("ok"),)),)),
    ]
    for provider, wanted in (("openrouter", long), ("openai-compatible", long[:40])):
        model = provider_named(provider, key="k" * 8, base_url="http://127.0.0.1:4711/v1").model("m")
        sent = json.loads(model.prepare(Request("c", history)).body.data)["messages"]  # pyright: ignore[reportAttributeAccessIssue]
        assert [message["tool_calls"][0]["id"] for message in sent if "tool_calls" in message] == [wanted]
        assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == [wanted]


def test_renamed_uses_keep_their_results() -> None:
    use = Opaque("", Private("anthropic", json_freeze_object({"type": "server_tool_use", "id": "srvtoolu_1"})))
    found = {"type": "web_search_tool_result", "tool_use_id": "other", "content": ()}
    result = Opaque("", Private("anthropic", json_freeze_object(found)))
    turns = fed(user("hi"), Message("assistant", (use, result, Text("x"))))
    assert turns[1] == ModelTurn((use, result, Text("x")))
