"""What local models write: calls in every format, thinking, and that it does not matter in what pieces it comes."""

import json
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sagent.lib.json import EMPTY, json_freeze_object, valid_text
from sagent.messages import Part, Text, Thinking, ToolCall
from sagent.model import TextPart, ThinkingPart, ToolSpec
from sagent.plugins.local import answer
from sagent.plugins.textcalls import reader as text
from sagent.plugins.textcalls.marks import SHOWN_TOKENS, THOUGHTS, TOKENS
from sagent.plugins.textcalls.reader import MarkReader

READ = ToolSpec(
    "Read",
    "Read a file.",
    json_freeze_object(
        {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "lines": {"type": ["integer", "null"]},
                "deep": {"type": "object"},
                "all": {"type": "boolean"},
            },
        }
    ),
)


def read(pieces: Sequence[str], *, tools: tuple[ToolSpec, ...] = (READ,), **how) -> tuple[tuple[Part, ...], str, str]:
    """The parts of an answer that comes in pieces, and the text and the thinking that were told on the way."""
    reader = MarkReader(tools, "call", **how)
    deltas = [delta for piece in pieces for delta in reader.feed(piece)] + reader.finish()
    told = ["".join(delta.text for delta in deltas if isinstance(delta, kind)) for kind in (TextPart, ThinkingPart)]
    return reader.parts(), *told  # pyright: ignore[reportReturnType]


def calls(text: str, **how) -> list[tuple[str, object]]:
    """The calls of an answer: each one's name, and its arguments, or what stands in their place."""
    found = [part for part in read([text], **how)[0] if isinstance(part, ToolCall)]
    return [(call.name, dict(call.arguments) if call.malformed is None else call.malformed) for call in found]


CALL = ("Read", {"path": "a b.py"})
JSON = '{"name": "Read", "arguments": {"path": "a b.py"}}'
LLAMA = '{"name": "Read", "parameters": {"path": "a b.py"}}'

QWEN = (
    "<tool_call><function=Read><parameter=lines>\n7\n</parameter><parameter=all>True</parameter><parameter=deep>"
    '{"x": [1]}</parameter><parameter=path>\n7\n\n</parameter></function></tool_call>'
)

DEEPSEEK = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>Read\n```json\n"
    '{"path": "a b.py"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
)

SOLAR = '<|tool_call:begin|>1<|tool_call:name|>Read<|tool_call:args|>{"path": "a b.py"}<|tool_call:end|>'
KIMI = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.Read:0<|tool_call_argument_begin|>"
    '{"path": "a b.py"}<|tool_call_end|><|tool_calls_section_end|>'
)
STEP = (
    "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>"
    '<steptml:invoke name="Read"><steptml:parameter name="path">a b.py</steptml:parameter></steptml:invoke>'
    "<｜tool_call_end｜><｜tool_calls_end｜>"
)

DEEPSEEK_3_1 = (
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>Read<｜tool▁sep｜>{"path": "a b.py"}<｜tool▁call▁end｜>'
    "<｜tool▁call▁begin｜>Read<｜tool▁sep｜>{]<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)


@pytest.mark.parametrize(
    "written", [f"<tool_call>{JSON}</tool_call>", QWEN, DEEPSEEK, f"[TOOL_CALLS][{JSON}]", SOLAR, STEP]
)
def test_half_a_call_is_not_whole(written: str) -> None:
    (true,) = calls(written)
    for end in range(len(written)):
        cut = [part for part in read([written[:end]])[0] if isinstance(part, ToolCall)]
        assert all((call.name, dict(call.arguments)) == true if call.whole else not call.arguments for call in cut)


@pytest.mark.parametrize(
    ("given", "cuts"),
    [(None, False), ("###", True), (["</s>", "<|im_end|>"], False), (["</s>", "\n\n"], True), ("</tool_call>", False)],
)
def test_stop_strings_of_weights_may_cut(given: object, cuts: bool) -> None:
    assert answer._has_stop_sequence(SimpleNamespace(stop_strings=given)) == cuts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"<tool_call>\n{JSON}\n</tool_call>", [CALL]),
        (f"<tool_call>\n{JSON}\n</tool_call>\n<tool_call>\n{JSON}\n</tool_call>", [CALL, CALL]),
        (f"<tool_call>{JSON}\n{JSON}</tool_call>", [CALL, CALL]),
        (f"<tool_call>[{JSON}, {JSON}]</tool_call>", [CALL, CALL]),
        (f"<tool_call>```json\n{JSON}\n```</tool_call>", [CALL]),
        (f"<tool_call>\n{JSON}", [CALL]),  # no closing mark
        (f"<tool_call>\n{JSON}}}\n</tool_call>", [CALL]),  # a brace too many
        ('<tool_call>{"name": "Read", "arguments": {"path": "a b.py"}</tool_call>', [CALL]),  # one too few
        ('<tool_call>{"name": "Read"}</tool_call>', [("Read", {})]),
        ('<tool_call>{"name": "Read", "arguments": null}</tool_call>', [("Read", {})]),
        ('<tool_call>{"name": "Read", "arguments": ""}</tool_call>', [("Read", {})]),
        ('<tool_call>{"name": "Read", "arguments": "{\\"path\\": \\"a b.py\\"}"}</tool_call>', [CALL]),
        (f'<tool_call>{{"type": "function", "function": {JSON}}}</tool_call>', [CALL]),
        ('<tool_call>{"name": "Read", "arguments": {"path": "a\nb"}}</tool_call>', [("Read", {"path": "a\nb"})]),
        # Qwen3-Coder
        (
            "<tool_call>\n<function=Read>\n<parameter=path>\na b.py\n</parameter>\n</function>\n</tool_call>",
            [CALL],
        ),
        ("<function=Read><parameter=path>a b.py</parameter></function>\n</tool_call>", [CALL]),
        (
            QWEN,
            [("Read", {"lines": 7, "all": True, "deep": json_freeze_object({"x": [1]}), "path": "7\n"})],
        ),
        (
            "<tool_call><function=Read><parameter=lines>None</parameter><parameter=deep>no</parameter></function></tool_call>",
            [("Read", {"lines": None, "deep": "no"})],
        ),
        ("<tool_call><function=Read>\n</function></tool_call>", [("Read", {})]),
        ("<tool_call><function=Read><parameter=path>\na b", [("Read", "<parameter=path>\na b")]),  # cut
        ('<function=Read>{"path": "a b.py"}</function>', [CALL]),
        # GLM
        ("<tool_call>Read\n<arg_key>path</arg_key>\n<arg_value>a b.py</arg_value>\n</tool_call>", [CALL]),
        ("<tool_call>Read</tool_call>", [("Read", {})]),
        # Mistral
        (f"[TOOL_CALLS] [{JSON}, {JSON}]", [CALL, CALL]),
        ('[TOOL_CALLS]Read[ARGS]{"path": "a b.py"}[TOOL_CALLS]Read{"path": "a b.py"}', [CALL, CALL]),
        (
            '[TOOL_CALLS]Read[CALL_ID]a1b2c3d4e[ARGS]{"path": "[TOOL_CALLS]"}',
            [("Read", {"path": "[TOOL_CALLS]"})],
        ),
        ('[TOOL_CALLS]Read[ARGS]{"path": x}[TOOL_CALLS]Read[ARGS]{}', [("Read", '{"path": x}'), ("Read", {})]),
        # Gemma 4, FunctionGemma
        ('<|tool_call>call:Read{path:<|"|>a b.py<|"|>}<tool_call|>', [CALL]),
        (2 * '<|tool_call>call:Read{path:<|"|>a b.py<|"|>}<tool_call|>', [CALL, CALL]),
        ("<start_function_call>call:Read{path:<escape>a b.py<escape>}<end_function_call>", [CALL]),
        # LFM, Kimi, Solar, Step
        ('<|tool_call_start|>[Read(path="a b.py")]<|tool_call_end|>', [CALL]),
        (KIMI, [CALL]),
        (2 * SOLAR, [CALL, CALL]),
        (STEP, [CALL]),
        # Llama 3
        (f"<|python_tag|>{LLAMA}; {LLAMA}", [CALL, CALL]),
        ('<|python_tag|>brave.call(query="x")', []),
        # DeepSeek
        (
            DEEPSEEK,
            [CALL],
        ),
        (
            DEEPSEEK_3_1,
            [CALL, ("Read", "{]")],
        ),
        (f"<|tool_call|>[{JSON}]<|/tool_call|>", [CALL]),  # Phi
        (f"<|tool_call|>[{JSON}]", [CALL]),  # Granite
        (
            '<|START_ACTION|>[{"tool_name": "Read", "parameters": {"path": "a b.py"}}]<|END_ACTION|>',
            [CALL],
        ),
    ],
)
def test_calls_read_in_model_formats(text: str, expected: list[tuple[str, object]]) -> None:
    assert calls(text) == expected
    assert calls(f"<think>\nRead it.\n</think>\n\nOn it.\n{text}") == expected
    if expected:
        assert read([f"On it.\n{text}"])[1] == "On it."


@pytest.mark.parametrize(
    "arguments",
    ['{"path": "a', "[1, 2]", "path=a.py", '{"path": NaN}', '{"path": 1e999}', '{"a" 1}', "7", '"x"', "[" * 5000],
)
def test_non_object_arguments_kept(arguments: str) -> None:
    """And the call after them is read."""
    broken = f'<tool_call>\n{{"name": "Read", "arguments": {arguments}}}\n</tool_call>'
    sound = f"<tool_call>\n{JSON}\n</tool_call>"
    kept = arguments.strip('"') if arguments == '"x"' else arguments
    assert calls(f"{broken}\n{sound}") == [("Read", kept), CALL]


def test_nameless_call_still_a_call() -> None:
    """So that the model hears of it."""
    assert calls("<tool_call>\nread the file please\n</tool_call>") == [("", "read the file please")]


def test_closing_mark_in_string_ignored() -> None:
    arguments = {"path": '</tool_call> and <tool_call> \\" </tool_call>\n\n'}
    body = json.dumps({"name": "Read", "arguments": arguments})
    text = f"<tool_call>\n{body}\n</tool_call>"
    assert calls(text + text) == [("Read", arguments)] * 2


def test_endless_closing_marks_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small model may go on with one of them until its limit."""
    looked: list[str] = []
    inside = text._inside_string
    monkeypatch.setattr(text, "_inside_string", lambda so_far: (looked.append(so_far), inside(so_far))[1])
    reader = MarkReader((ToolSpec("f", "", EMPTY),), "s")
    reader.feed('<tool_call>{"a": "')
    for _ in range(50):
        reader.feed("</tool_call>")
    reader.finish()
    assert len(looked) <= 101


@pytest.mark.parametrize("piece", ["<arg_key>", "<arg_key>a</arg_key><arg_value>"])
def test_endless_keys_read_once(piece: str) -> None:
    """It took hours."""
    reader = MarkReader((ToolSpec("f", "", EMPTY),), "s")
    reader.feed(f"<tool_call>f{piece * 5_000}</tool_call>")
    reader.finish()
    (call,) = reader.parts()
    assert isinstance(call, ToolCall)
    assert call.malformed


def test_call_marks_without_tools_are_text() -> None:
    text = f"<tool_call>\n{JSON}\n</tool_call>"
    assert read([text], tools=())[1] == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LLAMA, [CALL]),
        (f"{LLAMA};{LLAMA}", [CALL, CALL]),
        (f" \n{JSON}", [CALL]),
        (f'{{"type": "function", {LLAMA[1:]}', [CALL]),
        (f"<think>\nhm\n</think>\n\n{LLAMA}", [CALL]),
        (f"I call {LLAMA}", []),
        ('{"name": "Nobody", "parameters": {}}', []),
        ('{"name": "Read", "pages": 3}', []),
        (f"{LLAMA}\nThat is what I would do.", [CALL]),
        ('{"name": "Read", "parameters": {"pa', []),
        ('{"x": 1}', []),
        ("", []),
    ],
)
def test_bare_json_may_be_call(text: str, expected: list[tuple[str, object]]) -> None:
    assert calls(text, bare=True) == expected
    assert calls(text, bare=False) == []
    if not expected:
        assert read([text], bare=True)[1] == text
    elif "That" in text:
        assert read([text], bare=True)[1] == "That is what I would do."


def test_thinking_only_at_start() -> None:
    parts, text, thinking = read(["<think>\n\nHm <think> hm.\n\n</think>\n\n  Yes: <think>x</think>\n"])
    assert (text, thinking) == ("Yes: <think>x</think>\n", "Hm <think> hm.")
    assert [type(part) for part in parts] == [Thinking, Text]
    assert parts[0].private is not None, "without it the handover would drop it"  # pyright: ignore[reportAttributeAccessIssue]
    for opening, closing in THOUGHTS.items():
        assert read([f"{opening}a{closing}b"])[1:] == ("b", "a")
        assert read([f"a{closing}b"], closing=closing)[1:] == ("b", "a")
        assert read(["never closed\n"], closing=closing)[1:] == ("", "never closed")
    assert read(["<think>\n\n</think>\n\nSo."])[0] == (Text("So."),)


def test_text_after_call_set_apart() -> None:
    parts, text, _ = read([f"One.\n<tool_call>{JSON}</tool_call>\nTwo."])
    assert text == "One.\n\nTwo."
    assert [type(part) for part in parts] == [Text, ToolCall, Text]


def test_marks_do_not_overlap() -> None:
    """What is held back in case a mark goes on relies on it: none holds the beginning of another inside."""
    for mark in (*THOUGHTS, *TOKENS):
        assert not any(other[0] in mark[1:] for other in SHOWN_TOKENS if other != mark)


FRAGMENTS = st.sampled_from(
    [
        *SHOWN_TOKENS,
        *(mark[:-1] for mark in sorted(SHOWN_TOKENS)),
        *(mark[1:] for mark in sorted(SHOWN_TOKENS)),
        JSON,
        LLAMA,
        JSON[:-2],
        JSON[:30],
        "Read>",
        "<parameter=path>\n",
        "</parameter>",
        "<arg_key>path</arg_key><arg_value>",
        "```json\n",
        "\n",
        " ",
        '"',
        "\\",
        "{",
        "}",
        ";",
        "[",
        "Grüße 世界 🌍",
        "text",
    ]
)


@st.composite
def answers(draw: st.DrawFn) -> tuple[str, list[str]]:
    """An answer, and its pieces."""
    text = "".join(draw(st.lists(FRAGMENTS | st.text(max_size=3), max_size=12)))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=20)))
    return text, [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@given(answers(), st.booleans(), st.sampled_from(["", "</think>"]), st.booleans())
@example(('<tool_call>{"</tool_call>x', ['<tool_call>{"</tool_call>', "x"]), False, "", True)
def test_chunking_does_not_matter(answer: tuple[str, list[str]], bare: bool, closing: str, offered: bool) -> None:
    """And what was told on the way is what the parts say."""
    text, pieces = answer
    tools = (READ,) if offered else ()
    whole = read([text], bare=bare, closing=closing, tools=tools)
    assert read(pieces, bare=bare, closing=closing, tools=tools) == whole
    assert read(list(text), bare=bare, closing=closing, tools=tools) == whole
    parts, told, thought = whole
    assert "".join(part.text for part in parts if isinstance(part, Text)) == valid_text(told)
    assert "".join(part.text for part in parts if isinstance(part, Thinking)) == valid_text(thought)
    assert all(part.arguments == EMPTY or part.malformed is None for part in parts if isinstance(part, ToolCall))
    assert len({part.id for part in parts if isinstance(part, ToolCall)}) == sum(
        isinstance(part, ToolCall) for part in parts
    )


@given(st.text(st.characters(exclude_characters="<[", exclude_categories=["Cs"])))
def test_text_without_marks_unchanged(text: str) -> None:
    assert read([text])[1] == text


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>\n{JSON}\n</tool_call>",
        f"[TOOL_CALLS][{JSON}]",
        '[TOOL_CALLS]Read[ARGS]{"path": "a b.py"}',
        f"<|python_tag|>{LLAMA}",
        "<tool_call>Read\n<arg_key>path</arg_key>\n<arg_value>a b.py</arg_value>\n</tool_call>",
        "<tool_call>Read\n<arg_key>path</arg_key>\n<arg_value>a</tool_call>",
        "<function=Read><parameter=path>a b.py</parameter></function>",
        QWEN,
        DEEPSEEK,
        DEEPSEEK_3_1,
    ],
)
def test_cut_call_broken_not_shortened(text: str) -> None:
    """It has all of its arguments, or is malformed: never some of them, and never none."""
    whole = calls(text)
    for end in range(len(text)):
        assert all(isinstance(given, str) or (name, given) in whole for name, given in calls(text[:end]))
