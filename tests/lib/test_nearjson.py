"""JSON that is nearly JSON: what is mended, that it is named, and that nothing is ever completed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.lib.nearjson import CONTROL, FENCE, fences, read_near, values_among

LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
OBJECTS = st.dictionaries(st.text(max_size=5), st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3)))


@given(OBJECTS)
def test_sound_json_is_read_unchanged(value: dict[str, object]) -> None:
    read = read_near(json.dumps(value))
    assert (read.value, read.mends) == (value, ())


@given(
    OBJECTS,
    st.sampled_from(
        [
            "```json\n{}\n```",
            "```\n{}\n```",
            "~~~ json\n{}~~~",
            "````json\r\n{}\r\n````\n",
            "```json {} ```",
            "```{}```",
        ]
    ),
)
def test_closed_fence_is_removed_and_named(value: dict[str, object], fence: str) -> None:
    fence = fence.replace("~~~ json", "~~~json")
    read = read_near(fence.replace("{}", json.dumps(value)))
    assert (read.value, read.mends) == (value, (FENCE,))


@given(st.characters(max_codepoint=0x1F), st.text(alphabet="ab", max_size=3))
def test_raw_control_character_means_itself(control: str, around: str) -> None:
    text = f"{around}{control}{around}"
    read = read_near(f'{{"text": "{text}"}}')
    assert (read.value, read.mends) == ({"text": text}, (CONTROL,))


@given(OBJECTS, st.integers(min_value=0), st.sampled_from(["{}", "```json\n{}\n```"]))
def test_beginning_of_json_is_never_read(value: dict[str, object], length: int, form: str) -> None:
    text = form.replace("{}", json.dumps(value))
    with pytest.raises(ValueError):  # noqa: PT011 -- in the words of the JSON decoder
        read_near(text[: length % len(text)])


@given(OBJECTS, st.integers(min_value=1))
def test_nothing_is_found_in_cut_value(value: dict[str, object], length: int) -> None:
    """Objects inside it are whole, and yet they are not what was meant."""
    text = json.dumps({"first": {"inner": 1}, **value})
    assert list(values_among(f"Here it is: {text[: length % len(text)]}", 100)) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{'a': 1}",
        '{"a": 1,}',
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": 1} and more',
        '{"a": 1}{"b": 2}',
        '```json\n{"a": 1}',
        '```json\n{"a": 1}\n``',
        '```json\n{"a": 1\n```',
        'Here: ```json\n{"a": 1}\n```',
        "[" * 100_000,
    ],
)
def test_other_faults_are_not_mended(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- in the words of the JSON decoder
        read_near(text)


@pytest.mark.parametrize("unseen", ["\ufeff", "\xa0", "\u200b", "\u2060", " \u200b\r\n"])
def test_invisible_around_json_is_no_fault(unseen: str) -> None:
    assert read_near(f'{unseen}{{"a": 1}}{unseen}').value == {"a": 1}


def test_fence_and_line_break_are_named() -> None:
    read = read_near('```json\n{"code": "a\n```\nb"}\n```')
    assert (read.value, read.mends) == ({"code": "a\n```\nb"}, (FENCE, CONTROL))


def test_values_among_words_are_found() -> None:
    text = 'Use {x in sets}: {"a": [1]} or [2]; not {"b": tru'
    assert list(values_among(text, 100)) == [{"a": [1]}, [2]]
    assert fences("```json\n1\n``` and ```\n2\n```") == ["1", "2"]
