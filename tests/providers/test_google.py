"""generateContent: what goes out, and chunks that recordings do not show."""

# Parts of recordings, JSON and SDK objects are read as what they must be; a wrong one fails the test.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

import json
from datetime import datetime, timedelta
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis.strategies import DataObject, builds, data, just, lists, one_of, sampled_from, tuples

from sagent.context.calls import says_nothing
from sagent.cost.prices import PriceBook
from sagent.errors import ModelError, UsageError
from sagent.lib.json import as_object, json_freeze_object, json_thaw
from sagent.messages import Document, Image, Message, Opaque, Private, Text, Thinking, ToolCall, ToolResult, user
from sagent.model import (
    Billed,
    Delta,
    Effort,
    ModelInfo,
    ModelLimits,
    Reply,
    Request,
    TextPart,
    ThinkingPart,
    ToolSpec,
)
from sagent.providers import Google, infer, provider_named
from sagent.providers.families.google.events import GenerateReplyReader
from sagent.providers.families.google.provider import FOREIGN, generation, model_url, recent, thinking_config
from sagent.providers.limits import limits_of
from sagent.providers.wire.exchange import Call
from sagent.providers.wire.faults import Origin
from sagent.testing.families.google import GOOGLE
from sagent.testing.model_suite import OpenModel, ServedModelSuite
from sagent.testing.script import Call as AskFor
from sagent.testing.script import Cut, Listed, Raw, Received, Step, Turn, Wire
from sagent.testing.server import FakeProviderServer
from sagent.usage import Usage
from tests.depth import deep
from tests.providers.test_model_suites import opening

PDF = Document("application/pdf", b"%PDF", "a.pdf")
PIXEL = Image("image/png", b"PNG")
TOOLS = (
    ToolSpec("A", "a", json_freeze_object({"type": "object", "additionalProperties": False, "$defs": {}})),
    ToolSpec("B", "b", json_freeze_object({})),
)
NEW, OLD = "gemini-3.1-pro-preview", "gemini-2.5-flash"


def prepared(*messages: Message, model: str = NEW, **more: object) -> Call:
    request = Request("c", messages or (user("hi"),), **more)
    return Google.from_key("k" * 8).model(model).prepare(request)


def body_of(*messages: Message, **more: object) -> dict:
    return json.loads(prepared(*messages, **more).body.data)


def contents_of(*messages: Message, **more: object) -> list[list[dict]]:
    return [content["parts"] for content in body_of(*messages, **more)["contents"]]


def drafted(*chunks: dict, model: str = NEW) -> tuple[GenerateReplyReader, list[Delta]]:
    reader, out = GenerateReplyReader(Origin("google", model)), []
    for chunk in chunks:
        reader.feed(chunk, out)
    return reader, out


def said(*parts: dict, **more: object) -> dict:
    """A chunk of one candidate."""
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **more}], "responseId": "r1"}


def call(name: str, signature: str = "", **more: object) -> dict:
    return {"functionCall": {"name": name, **more}, **({"thoughtSignature": signature} if signature else {})}


def read_back(*chunks: dict, model: str = NEW) -> list[dict]:
    """The parts of a reply as they go out again."""
    reader, _ = drafted(*chunks, said(finishReason="STOP"), model=model)
    history = [user("hi"), reader.message()]
    return contents_of(*history, Message("user", tuple(ToolResult(c.id, ()) for c in history[1].calls)), model=model)[1]


# Requests


def test_google_members_in_cacheable_order() -> None:
    options = json_freeze_object({"tools": [{"googleSearch": {}}], "safetySettings": [], "toolConfig": {"x": 1}})
    body = body_of(system="Be terse.", tools=TOOLS, max_output=9, options=options)
    assert list(body) == ["tools", "systemInstruction", "contents", "safetySettings", "toolConfig", "generationConfig"]
    assert list(body_of()) == ["contents", "generationConfig"]
    assert body["tools"][0]["functionDeclarations"][0] == {
        "name": "A",
        "description": "a",
        "parametersJsonSchema": {"type": "object", "additionalProperties": False, "$defs": {}},
    }
    assert body["tools"][1] == {"googleSearch": {}}
    assert body["systemInstruction"] == {"parts": [{"text": "Be terse."}]}


def test_generation_options_join_ours() -> None:
    options = json_freeze_object({"generationConfig": {"temperature": 0, "maxOutputTokens": 5}})
    config = body_of(options=options, max_output=9, effort="low")["generationConfig"]
    assert (config["temperature"], config["maxOutputTokens"]) == (0, 5)
    assert config["thinkingConfig"] == {"includeThoughts": True, "thinkingLevel": "LOW"}


def test_gemini_model_in_url_key_in_header() -> None:
    call = prepared(model=OLD)
    root = "https://generativelanguage.googleapis.com"
    assert call.url == f"{root}/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    assert call.headers["x-goog-api-key"] == "k" * 8
    assert "authorization" not in call.headers
    assert b"gemini-2.5" not in call.body.data


@pytest.mark.parametrize(
    ("base", "model", "url"),
    [
        ("https://x.example/", "gemini-flash-latest", "https://x.example/v1beta/models/gemini-flash-latest"),
        ("https://x.example/v1", "a", "https://x.example/v1/models/a"),
        ("https://x.example/google/v1beta/models", "a", "https://x.example/google/v1beta/models/a"),
        ("https://x.example", "tunedModels/a b?", "https://x.example/v1beta/tunedModels/a%20b%3F"),
    ],
)
def test_gemini_model_urls(base: str, model: str, url: str) -> None:
    assert model_url(base, model) == url


def test_gemini_keys_and_urls_from_environment() -> None:
    keys = {"GEMINI_API_KEY": "g" * 8, "GOOGLE_API_KEY": "o" * 8}
    bases = {"GEMINI_BASE_URL": "https://g.example", "GOOGLE_GEMINI_BASE_URL": "https://o.example"}
    for make in (Google.from_env, lambda **more: provider_named("google", **more)):
        both = make(environ={**keys, **bases})
        assert (both.access.key, both.access.variable) == ("o" * 8, "GOOGLE_API_KEY")
        assert both.access.base_url == "https://o.example"
        one = make(environ={"GEMINI_API_KEY": "g" * 8, "GEMINI_BASE_URL": "https://g.example"})
        assert (one.access.key, one.access.variable) == ("g" * 8, "GEMINI_API_KEY")
        assert one.headers() == {"x-goog-api-key": "g" * 8}
        assert one.access.base_url == "https://g.example"
        with pytest.raises(UsageError, match="set GOOGLE_API_KEY or GEMINI_API_KEY"):
            make(environ={})
        assert make(environ=keys, auth="bearer").headers() == {"authorization": f"Bearer {'o' * 8}"}
    assert infer("gemini-3.8-flash") == infer("gemma-4-31b-it") == "google"


def test_gemini_result_follows_its_call() -> None:
    reader, _ = drafted(
        said(call("A", "c2ln", id="own-1", args={"x": 1}), call("A"), call("B")), said(finishReason="STOP")
    )
    reply = reader.message()
    assert [c.id for c in reply.calls] == ["own-1", "nameless_r1_1", "nameless_r1_2"]
    late = [ToolResult(c.id, (Text(f"to {number}"),), is_error=number == 2) for number, c in enumerate(reply.calls)]
    _, calls, answers = contents_of(user("hi"), reply, Message("user", (*reversed(late), Text("and?"))))
    assert [part["functionCall"].get("id") for part in calls] == ["own-1", None, None]
    assert answers == [
        {"functionResponse": {"id": "own-1", "name": "A", "response": {"output": "to 0"}}},
        {"functionResponse": {"name": "A", "response": {"output": "to 1"}}},
        {"functionResponse": {"name": "B", "response": {"error": "to 2"}}},
        {"text": "and?"},
    ]


def test_signatures_return_on_their_part() -> None:
    sent = [
        {"text": "Hm.", "thought": True, "thoughtSignature": "AA=="},
        {"text": "One."},
        {"text": "Two.", "thoughtSignature": "BB=="},
        {"text": "Three."},
        {"functionCall": {"id": "1", "name": "A", "args": {}}, "thoughtSignature": "CC=="},
        {"functionCall": {"id": "2", "name": "B", "args": {"x": [1, None]}}},
        {"text": "", "thoughtSignature": "DD=="},
    ]
    assert read_back(*(said(part) for part in sent)) == sent
    assert read_back(said(*sent), model=OLD) == sent


def test_unsigned_thoughts_do_not_return() -> None:
    assert read_back(said({"text": "Hm.", "thought": True}), said({"text": " "}), said({"text": "Yes."})) == [
        {"text": " Yes."}
    ]
    blank = read_back(said({"text": "Yes."}), said({"text": "\n", "thoughtSignature": "AA=="}))
    assert blank == [{"text": "Yes.\n"}, {"text": "", "thoughtSignature": "AA=="}]


def test_foreign_call_is_signed_for_gemini_3() -> None:
    elsewhere = Private("anthropic", json_freeze_object({"signature": "x", "thoughtSignature": "x"}))
    parts = (Text("On it.", elsewhere), ToolCall("a", "A", private=elsewhere), ToolCall("b", "A"))
    history = [user("hi"), Message("assistant", parts, model="anthropic/x", stop="tool_use")]
    _, spoken, _ = contents_of(*history)
    assert [part.get("thoughtSignature") for part in spoken] == [None, FOREIGN, None]
    for model in (OLD, "gemma-4-31b-it"):
        _, spoken, _ = contents_of(*history, model=model)
        assert not any("thoughtSignature" in part for part in spoken)


def test_signatures_survive_generation_switch() -> None:
    provider = Google.from_key("k" * 8)
    reader, _ = drafted(said(call("A", "AA==")), said(finishReason="STOP"))
    history = [user("hi"), reader.message()]
    bodies = [json.loads(provider.model(model).prepare(Request("c", history)).body.data) for model in (NEW, OLD, NEW)]
    assert [body["contents"] for body in bodies[1:]] == [body["contents"] for body in bodies[:1]] * 2


def test_media_in_messages_and_results() -> None:
    spoken = Message("assistant", (ToolCall("1", "A"), ToolCall("2", "B")), stop="tool_use")
    answers = (
        ToolResult("1", (Text("see"), PIXEL, Document("text/csv", b"a,b", "t.csv"))),
        ToolResult("2", (PDF,)),
        Image("image/gif", b"GIF"),
        PDF,
    )
    history = [user("hi", PIXEL), spoken, Message("user", answers)]
    picture = {"inlineData": {"mimeType": "image/png", "data": "UE5H"}}
    paper = {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}}
    first, _, new = contents_of(*history)
    assert first == [{"text": "hi"}, picture]
    assert [part["functionResponse"].get("parts") for part in new[:2]] == [[picture], [paper]]
    assert new[0]["functionResponse"]["response"] == {"output": "see\n[t.csv]\na,b"}
    assert "image/gif" in new[2]["text"]
    assert new[3] == paper
    _, _, old = contents_of(*history, model=OLD)
    assert all("parts" not in part["functionResponse"] for part in old[:2])
    assert old[2:6] == [{"text": "[from the result of A]"}, picture, {"text": "[from the result of B]"}, paper]


def test_google_weight_bounds_text_and_media() -> None:
    model = Google.from_key("k" * 8).model(NEW)
    picture = model.max_input_tokens(Request("a", [user("hi", Image("image/png", b"x" * 300_000))]))
    assert 5_000 < picture < 6_000
    text = Request("b", [user("世" * 1000)], "system", TOOLS)
    assert len(model.prepare(text).body.data) <= model.max_input_tokens(text)
    unseen = model.max_input_tokens(Request("d", [user("hi", Image("image/gif", b"x" * 300_000))]))
    assert unseen < 1_000


@settings(max_examples=deep(32, 80), deadline=None)
@given(data())
def test_every_history_is_accepted(data: DataObject) -> None:
    texts = sampled_from(["", " ", "hello", "\ud800"])
    private = sampled_from(
        [
            None,
            Private("anthropic", json_freeze_object({"signature": "x"})),
            Private("google", json_freeze_object({"thoughtSignature": "AA=="})),
        ]
    )
    ids = sampled_from(["", "a", "b", "nameless_r_0", "x" * 90, "functions.A:0 ü"])
    own = Private("google", json_freeze_object({"executableCode": {"language": "PYTHON", "code": "1"}}))
    spoken = one_of(
        builds(Text, texts, private),
        builds(Thinking, texts, private),
        builds(ToolCall, ids, sampled_from(["A", "", "b.c"]), private=private),
        builds(Opaque, texts, sampled_from([own, Private("anthropic", json_freeze_object({}))])),
    )
    heard = one_of(
        builds(Text, texts), builds(ToolResult, ids, tuples(builds(Text, texts))), sampled_from([PIXEL, PDF])
    )
    stops = sampled_from(["end", "tool_use", "interrupted", None])
    turn = one_of(
        builds(
            Message,
            just("assistant"),
            lists(spoken, max_size=4).map(tuple),
            stop=stops,
            model=sampled_from(["google/x", "x/y"]),
        ),
        builds(Message, just("user"), lists(heard, max_size=4).map(tuple)),
    )
    history = data.draw(lists(turn, max_size=7))
    for model in (NEW, OLD):
        sent = Google.from_key("k" * 8).model(model).prepare(Request("c", history, "s", TOOLS, 9))
        path = urlsplit(sent.url).path
        body = json.loads(sent.body.data)
        received = Received("POST", path, "alt=sse", sent.headers, sent.body.data, body, 0.0, 1, "google")
        assert list(GOOGLE.complaints(received)) == []


# Efforts


@pytest.mark.parametrize(
    ("model", "effort", "config", "noted"),
    [
        ("gemini-3.1-pro-preview", None, {"includeThoughts": True}, False),
        ("gemini-3.1-pro-preview", "medium", {"includeThoughts": True, "thinkingLevel": "MEDIUM"}, False),
        ("gemini-3.1-pro-preview", "none", {"includeThoughts": True, "thinkingLevel": "LOW"}, True),
        ("gemini-3.1-pro-preview", "max", {"includeThoughts": True, "thinkingLevel": "HIGH"}, True),
        ("gemini-3-pro-preview", "medium", {"includeThoughts": True, "thinkingLevel": "LOW"}, True),
        ("gemini-3-flash-preview", "none", {"includeThoughts": True, "thinkingLevel": "MINIMAL"}, True),
        ("gemini-3.5-flash", "minimal", {"includeThoughts": True, "thinkingLevel": "MINIMAL"}, False),
        ("gemini-3.8-flash", "minimal", {"includeThoughts": True, "thinkingLevel": "LOW"}, True),
        ("gemini-flash-latest", "low", {"includeThoughts": True, "thinkingLevel": "LOW"}, False),
        ("gemini-flash-lite-latest", "minimal", {"includeThoughts": True, "thinkingLevel": "MINIMAL"}, False),
        ("gemini-4-argon", "high", {"includeThoughts": True, "thinkingLevel": "HIGH"}, False),
        ("gemma-4-31b-it", "low", {"includeThoughts": True, "thinkingLevel": "MINIMAL"}, True),
        ("models/gemini-2.5-flash", "none", {"includeThoughts": False, "thinkingBudget": 0}, False),
        ("gemini-2.5-flash", "max", {"includeThoughts": True, "thinkingBudget": 24_576}, True),
        ("gemini-2.5-flash-lite", "minimal", {"includeThoughts": True, "thinkingBudget": 512}, False),
        ("gemini-2.5-pro", "none", {"includeThoughts": True, "thinkingBudget": 128}, True),
        ("gemini-2.5-pro", "max", {"includeThoughts": True, "thinkingBudget": 32_768}, False),
        ("gemini-2.0-flash", "high", {}, True),
        ("gemini-2.0-flash", None, {}, False),
        ("gemini-exp-1206", "low", {}, True),
        ("gemini-2.5-flash-image", None, {}, False),
        ("gemma-3-27b-it", "none", {}, False),
        ("tunedModels/x", "low", {}, True),
    ],
)
def test_gemini_effort_parameters(model: str, effort: Effort | None, config: dict, noted: bool) -> None:
    found, notes = thinking_config(model, effort)
    assert found == config
    assert bool(notes) == noted
    assert all(model in note for note in notes)


def test_generations() -> None:
    assert generation("models/gemini-3.1-pro-preview") == ("pro", (3, 1))
    assert generation("gemini-4-argon") == ("pro", (4, 0))
    assert generation("gpt-5") == ("", (0, 0))
    assert [recent(name) for name in ("gemini-2.5-pro", "gemini-3-pro", "gemini-pro-latest", "gemma-4-31b-it")] == [
        *(False, True, True, False)
    ]


def test_output_limit_is_held_and_said() -> None:
    assert body_of()["generationConfig"]["maxOutputTokens"] == 32_000
    assert body_of(effort="high")["generationConfig"]["maxOutputTokens"] == 64_000
    clamped = prepared(max_output=10**6)
    assert json.loads(clamped.body.data)["generationConfig"]["maxOutputTokens"] == 65_536
    assert "at most 65536" in clamped.notes[0]
    assert "maxOutputTokens" not in body_of(model="unheard-of")["generationConfig"]


# Replies


def test_gemini_streams_texts_and_thoughts() -> None:
    reader, out = drafted(
        said({"text": "Hm", "thought": True}),
        said({"text": "m.", "thought": True}),
        said({"text": "Yes"}),
        said({"text": ", sir."}, finishReason="STOP"),
    )
    assert out == [ThinkingPart("Hm"), ThinkingPart("m."), TextPart("Yes"), TextPart(", sir.")]
    assert reader.message().parts == (Thinking("Hmm."), Text("Yes, sir."))
    assert (reader.complete, reader.message().stop, reader.response_id) == (True, "end", "r1")


def test_gemini_arguments_in_pieces() -> None:
    def more(*pieces: dict, **rest: object) -> dict:
        return said({"functionCall": {"partialArgs": list(pieces), **rest}})

    reader, _ = drafted(
        said(call("A", "AA==", willContinue=True)),
        more({"jsonPath": "$.path", "stringValue": "a.", "willContinue": True}, willContinue=True),
        more({"jsonPath": "$.path", "stringValue": "py"}, willContinue=True),
        more({"jsonPath": "$.deep.list[0].x", "numberValue": 1}, willContinue=True),
        more({"jsonPath": "$.deep.list[1]", "boolValue": True}, willContinue=True),
        more({"jsonPath": "$.none", "nullValue": None}, willContinue=True),
        said({"functionCall": {}}),
        said(call("B"), finishReason="STOP"),
    )
    first, second = reader.message().calls
    assert json_thaw(first.arguments) == {"path": "a.py", "deep": {"list": [{"x": 1}, True]}, "none": None}
    assert (second.name, second.arguments, reader.message().stop) == ("B", {}, "tool_use")


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("STOP", "end"),
        ("MAX_TOKENS", "max_tokens"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("BLOCKLIST", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("SPII", "content_filter"),
        ("MODEL_ARMOR", "content_filter"),
        ("CONTINUATION", "max_tokens"),
        ("OTHER", "error"),
        ("TOO_MANY_TOOL_CALLS", "error"),
        ("SOMETHING_NEW", "error"),
    ],
)
def test_finish_reasons(reason: str, stop: str) -> None:
    reader, _ = drafted(said({"text": "x"}), said(finishReason=reason, finishMessage="because"))
    assert (reader.complete, reader.message().stop) == (True, stop)
    assert reader.notes() == (
        (f"the provider stopped the answer: {reason}: because",) if stop in ("content_filter", "error") else ()
    )


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "OTHER", "UNEXPECTED_TOOL_CALL"])
def test_spoiled_reply_is_retried_and_billed(reason: str) -> None:
    out: list[Delta] = []
    reader = GenerateReplyReader(Origin("google", NEW))
    broken = {**said(finishReason=reason, finishMessage="print(x"), "usageMetadata": {"promptTokenCount": 7}}
    with pytest.raises(ModelError, match=rf"{reason}: print\(x") as caught:
        reader.feed(broken, out)
    assert (caught.value.kind, caught.value.retryable) == ("protocol", True)
    assert [delta.charges[0].usage for delta in out if isinstance(delta, Billed)] == [Usage(input=7)]


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [{"text": ""}],
        [{"text": "Hm.", "thought": True}],
        [{"text": " \n"}, {"text": "", "thoughtSignature": "AA=="}],
    ],
)
def test_wordless_reply_says_nothing(parts: list[dict]) -> None:
    """Gemini's known habit, most often after results; an agent would end its turn with nothing."""
    reader = GenerateReplyReader(Origin("google", NEW))
    reader.feed({**said(*parts, finishReason="STOP"), "usageMetadata": {"promptTokenCount": 7}}, [])
    assert says_nothing(reader.message())
    assert reader.usage() == Usage(input=7)


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "SAFETY"])
@pytest.mark.parametrize("before", [[], [{"text": "Hm.", "thought": True}]])
def test_lone_signature_of_cut_reply_is_kept(before: list[dict], reason: str) -> None:
    reader, _ = drafted(said(*before, {"text": "", "thoughtSignature": "AA=="}, finishReason=reason))
    own = reader.message().parts[-1]
    assert isinstance(own, Opaque) and own.private is not None
    assert own.private.data == {"text": "", "thoughtSignature": "AA=="}


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ({"text": "x"}, "STOP"),
        ({"functionCall": {"name": "A"}}, "STOP"),
        ({"codeExecutionResult": {"outcome": "OUTCOME_OK"}}, "STOP"),
        ({"text": ""}, "MAX_TOKENS"),
        ({"text": "Hm.", "thought": True}, "MAX_TOKENS"),
    ],
)
def test_reply_of_actions_or_at_limit_is_complete(part: dict, reason: str) -> None:
    assert drafted(said(part, finishReason=reason))[0].complete


def test_call_of_unoffered_tool_is_a_call() -> None:
    reader, _ = drafted(said(call("Z"), finishReason="UNEXPECTED_TOOL_CALL"))
    assert (reader.message().stop, [c.name for c in reader.message().calls]) == ("tool_use", ["Z"])


@pytest.mark.parametrize("reason", ["PROHIBITED_CONTENT", "JAILBREAK"])
def test_blocked_prompt_is_content_filter(reason: str) -> None:
    reader, _ = drafted({"promptFeedback": {"blockReason": reason}, "usageMetadata": {"promptTokenCount": 3}})
    assert (reader.complete, reader.message().stop, reader.message().parts) == (True, "content_filter", ())
    assert reader.notes() == (f"the provider blocked the prompt: {reason}",)
    assert not drafted({"promptFeedback": {"safetyRatings": []}})[0].complete


def test_google_parts_are_kept_and_returned() -> None:
    own = [
        {"executableCode": {"language": "PYTHON", "code": "print(6*7)\n", "id": "x"}, "thoughtSignature": "AA=="},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42\n", "id": "x"}},
        {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["q"]}, "id": "y"}},
        {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "response": {"found": "it"}, "id": "y"}},
        {"inlineData": {"mimeType": "image/png", "data": "UE5H"}},
        {"somethingNew": {"a": 1}},
    ]
    sent = [{"text": "Look:"}, *own, {"text": "Done."}]
    assert read_back(*(said(part) for part in sent)) == sent
    reader, _ = drafted(said(*sent, {}), said(finishReason="STOP"))
    shown = [part.text for part in reader.message().parts if isinstance(part, Opaque)]
    assert shown == [
        "```python\nprint(6*7)\n```",
        "[code execution: ok]\n42",
        "",
        '{"found":"it"}',
        "[image/png]",
        "",
    ]


def test_grounding_is_kept_and_not_returned() -> None:
    grounded = {"webSearchQueries": ["q"], "groundingChunks": [{"web": {"uri": "https://a.example"}}]}
    chunks = [
        said({"text": "Bern"}, groundingMetadata={}),
        said({"text": ".", "thoughtSignature": "AA=="}, groundingMetadata=grounded),
        said({"text": ""}, finishReason="STOP"),
    ]
    last = drafted(*chunks)[0].message().parts[-1]
    assert isinstance(last, Text)
    assert as_object(last.private and last.private.data)["groundingMetadata"] == json_freeze_object(grounded)
    assert read_back(*chunks) == [{"text": "Bern"}, {"text": ".", "thoughtSignature": "AA=="}]


@pytest.mark.parametrize(
    ("model", "queries", "searches"),
    [(NEW, ["a", "b", ""], 2), (OLD, ["a", "b"], 1), ("gemini-2.5-pro", [], 0), (NEW, [], 0)],
)
def test_searches_billed_by_query_or_request(model: str, queries: list[str], searches: int) -> None:
    grounded = said({"text": "x"}, finishReason="STOP", groundingMetadata={"webSearchQueries": queries})
    reader, _ = drafted({**grounded, "usageMetadata": {"promptTokenCount": 3}}, model=model)
    usage = reader.usage()
    assert usage == Usage(input=3, fees={"web_search": searches} if searches else {})
    assert reader.charges()[0].usage == usage


def test_map_source_is_its_own_fee() -> None:
    chunk = said({"text": "x"}, groundingMetadata={"groundingChunks": [{"maps": {"uri": "u"}}, {"web": {}}]})
    reader, _ = drafted({**chunk, "usageMetadata": {"promptTokenCount": 3}})
    assert reader.usage() == Usage(input=3, fees={"map_search": 1})


def test_last_usage_count_wins() -> None:
    first = {"promptTokenCount": 100, "candidatesTokenCount": 1, "totalTokenCount": 101}
    last = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 60,
        "toolUsePromptTokenCount": 5,
        "candidatesTokenCount": 10,
        "thoughtsTokenCount": 20,
        "totalTokenCount": 135,
        "serviceTier": "flex",
    }
    reader, out = drafted(
        {**said({"text": "x"}), "usageMetadata": first}, {**said(finishReason="STOP"), "usageMetadata": last}
    )
    assert reader.usage() == Usage(input=45, cache_read=60, output=30, reasoning=20)
    assert reader.charges()[0].tier == "flex"
    assert [delta.charges[0].usage.output for delta in out if isinstance(delta, Billed)] == [1, 30]
    half = {"promptTokenCount": 100, "totalTokenCount": 107}  # the answer's own count is left out
    assert drafted({**said({"text": "x"}), "usageMetadata": half})[0].usage() == Usage(input=100, output=7)
    for told, tier in (
        ("ON_DEMAND", ""),
        ("ON_DEMAND_PRIORITY", "priority"),
        ("PROVISIONED_THROUGHPUT", "provisioned_throughput"),
    ):
        reader, _ = drafted({"usageMetadata": {"promptTokenCount": 1, "trafficType": told}})
        assert reader.charges()[0].tier == tier
    assert drafted({"usageMetadata": {"trafficType": "ON_DEMAND"}})[0].usage() is None


def test_alias_is_billed_as_answering_model() -> None:
    chunk = {"usageMetadata": {"promptTokenCount": 1}, "modelVersion": "gemini-3.8-flash"}
    assert drafted(chunk, model="gemini-flash-latest")[0].charges()[0].model == "gemini-3.8-flash"
    assert drafted(chunk, model=NEW)[0].charges()[0].model == NEW


# On the wire


async def answered(*steps: Step, wire: Wire = Wire(), model: str = NEW) -> Reply | ModelError:  # noqa: B008 -- frozen
    async with FakeProviderServer(steps, wire=wire) as server:
        provider = Google.from_key("k" * 8, base_url=server.url)
        try:
            *_, last = [item async for item in provider.model(model).stream(Request("c", [user("hi")]))]
        except ModelError as error:
            return error
        finally:
            await provider.aclose()
    assert isinstance(last, Reply)
    return last


def raw(body: object, status: int = 200) -> Raw:
    return Raw(status, (("content-type", "application/json"),), json.dumps(body).encode())


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
async def test_newlines_and_cuts_change_nothing(newline: str) -> None:
    turn = Turn("Grüße 🌍", thinking="Hm.", calls=(AskFor("A", {"x": 1}),), pieces=2)
    plain = await answered(turn)
    assert isinstance(plain, Reply)
    for chunks in ("whole", "bytes", 7):
        found = await answered(turn, wire=Wire(chunks, newline, "keep-alive"))
        assert isinstance(found, Reply)
        assert (found.message, found.usage) == (plain.message, plain.usage)


async def test_stream_as_json_array_is_read() -> None:
    usage = {"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2}}
    found = await answered(raw([said({"text": "a"}), {**said({"text": "b"}, finishReason="STOP"), **usage}]))
    assert isinstance(found, Reply)
    assert (found.message.content, found.usage) == ("ab", Usage(input=3, output=2))
    failed = await answered(raw([said({"text": "a"}), {"error": {"code": 503, "status": "UNAVAILABLE"}}]))
    assert (failed.kind, failed.status) == ("overloaded", 503)
    cut = await answered(raw([said({"text": "a"})]))
    assert (cut.kind, cut.retryable) == ("protocol", True)


async def test_whole_answer_for_stream_is_read() -> None:
    found = await answered(raw(said({"text": "a"})))
    assert (found.message.content, found.message.stop) == ("a", "end")
    empty = await answered(raw({"candidates": [], "usageMetadata": {"promptTokenCount": 3}}))
    assert (empty.kind, empty.retryable) == ("protocol", True)


@pytest.mark.parametrize("after", [0, 1, 4])
async def test_missing_finish_reason_is_cut(after: int) -> None:
    assert (await answered(Cut(Turn("abcdefgh", pieces=1), after, "clean"))).kind == "cut"


def refusal(code: int, status: str, message: str, *details: dict) -> Raw:
    return raw({"error": {"code": code, "status": status, "message": message, "details": list(details)}}, code)


def retry_info(delay: str) -> dict:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def quota(name: str) -> dict:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": name}]}


@pytest.mark.parametrize(
    ("step", "kind", "retry_after"),
    [
        (refusal(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."), "auth", None),
        (refusal(400, "INVALID_ARGUMENT", 'Unknown name "x"'), "invalid_request", None),
        (
            refusal(
                400,
                "INVALID_ARGUMENT",
                "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).",
            ),
            "context_overflow",
            None,
        ),
        (refusal(403, "PERMISSION_DENIED", "no"), "permission", None),
        (refusal(404, "NOT_FOUND", "models/x is not found for API version v1beta"), "not_found", None),
        (
            refusal(429, "RESOURCE_EXHAUSTED", "Quota exceeded", quota("RequestsPerMinute"), retry_info("3.5s")),
            "rate_limit",
            3.5,
        ),
        (refusal(429, "RESOURCE_EXHAUSTED", "Please retry in 36.02s."), "rate_limit", 36.02),
        (
            refusal(
                429, "RESOURCE_EXHAUSTED", "* Quota exceeded for metric: a.b/free_tier_requests, limit: 0, model: x"
            ),
            "payment",
            None,
        ),
        (refusal(500, "INTERNAL", "An internal error has occurred."), "server", None),
        (refusal(503, "UNAVAILABLE", "The service is currently unavailable.", retry_info("2s")), "overloaded", 2.0),
        (refusal(504, "DEADLINE_EXCEEDED", "Deadline expired"), "server", None),
    ],
)
async def test_google_errors_have_kind_and_wait(step: Raw, kind: str, retry_after: float | None) -> None:
    error = await answered(step)
    assert isinstance(error, ModelError)
    assert (error.kind, error.retry_after, error.status) == (kind, retry_after, step.status)


async def test_daily_quota_waits_until_refill() -> None:
    step = refusal(
        429,
        "RESOURCE_EXHAUSTED",
        "Quota exceeded",
        quota("GenerateRequestsPerDayPerProject-FreeTier"),
        retry_info("3s"),
    )
    error = await answered(step)
    assert isinstance(error, ModelError)
    assert error.retry_after is not None
    assert 3 <= error.retry_after <= 25 * 3600
    zone = ZoneInfo("America/Los_Angeles")
    there = datetime.now(zone) + timedelta(seconds=error.retry_after)
    assert error.retry_after == 3 or abs(there.timestamp() - there.replace(minute=0, second=0).timestamp()) < 60


async def test_error_in_stream_asks_for_its_wait() -> None:
    body = json.dumps(
        {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "x", "details": [retry_info("9s")]}}
    )
    step = Raw(
        200,
        (("content-type", "text/event-stream"),),
        f"data: {json.dumps(said({'text': 'a'}))}\n\ndata: {body}\n\n".encode(),
    )
    error = await answered(step)
    assert isinstance(error, ModelError)
    assert (error.kind, error.status, error.retry_after) == ("rate_limit", 429, 9.0)


async def test_listing_goes_over_pages(raw_server) -> None:
    def page(**body: object) -> list[bytes]:
        data = json.dumps(body).encode()
        return [b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(data), data)]

    model = {"name": "models/gemini-x", "displayName": "X", "inputTokenLimit": 9, "outputTokenLimit": 5}
    embedding = {"name": "models/e", "supportedGenerationMethods": ["embedContent"]}
    known = {"name": "models/gemini-2.5-pro", "supportedGenerationMethods": ["generateContent"]}
    async with raw_server(page(models=[model, embedding], nextPageToken="a b&"), page(models=[known])) as server:
        provider = Google.from_key("k" * 8, base_url=server.url)
        found = await provider.models()
        await provider.aclose()
    assert found == (
        ModelInfo("gemini-x", ModelLimits(9, 5), "X"),
        ModelInfo("gemini-2.5-pro", ModelLimits(1_048_576, 65_536)),
    )
    assert b"GET /v1beta/models?pageSize=1000&pageToken=a+b%26 " in server.requests[1]
    assert b"x-goog-api-key: kkkkkkkk" in server.requests[1]


async def test_fake_provider_lists_like_google() -> None:
    async with FakeProviderServer(models=[Listed("gemini-9", "Nine", 7, 3)]) as server:
        provider = Google.from_key("k" * 8, base_url=server.url)
        assert await provider.models() == (ModelInfo("gemini-9", ModelLimits(7, 3), "Nine"),)
        await provider.aclose()


@pytest.mark.parametrize(
    "model", ["gemini-2.5-flash", "gemini-3.1-pro-preview", "gemini-3.8-flash", "gemini-flash-latest"]
)
def test_gemini_models_have_price_and_size(model: str) -> None:
    assert PriceBook().price("google", model, Usage(input=1000, output=1000)) is not None
    assert limits_of("google", model) == ModelLimits(1_048_576, 65_536)


# The promises of every model


class _Served(ServedModelSuite):
    billed = Usage(input=10, cache_read=200, output=50, reasoning=7)  # the wire has no cache writes
    model_id = ""

    @pytest.fixture
    def open_model(self) -> OpenModel:
        return opening(lambda url: Google.from_key("key-for-tests", base_url=url), self.model_id)


class TestGemini3(_Served):
    model_id = "gemini-3.1-pro-preview"


class TestGemini25(_Served):
    model_id = "gemini-2.5-flash"
