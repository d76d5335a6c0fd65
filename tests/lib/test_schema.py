"""What a model gets wrong is told in words it can act on; what it plainly means is accepted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.lib import schema
from sagent.lib.json import JsonObject, json_freeze, json_freeze_object
from sagent.lib.schema import coerce, violations
from tests.depth import deep

SCHEMA = json_freeze_object(
    {
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1},
            "count": {"type": "integer", "minimum": 1, "maximum": 9},
            "ratio": {"type": "number"},
            "deep": {"type": "boolean"},
            "mode": {"type": "string", "enum": ["a", "b", "c"]},
            "either": {"type": ["integer", "null"]},
            "edits": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/edit"}},
            "tree": {"$ref": "#/$defs/tree"},
            "any": {"anyOf": [{"type": "integer"}, {"type": "object", "required": ["x"]}]},
            "sums": {"type": "object", "additionalProperties": {"type": "integer"}},
            "all": {"allOf": [{"$ref": "#/$defs/edit"}]},
            "names": {"type": "array", "minItems": 1, "items": {"type": "string"}},
            "counts": {"type": "array", "items": {"type": "integer"}},
            "tag": {"type": "string", "pattern": "^v[0-9]+$"},
        },
        "required": ["path"],
        "additionalProperties": False,
        "$defs": {
            "edit": {"type": "object", "properties": {"old": {"type": "string"}}, "required": ["old"]},
            "tree": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}},
        },
    }
)


def check(**arguments: object) -> list[str]:
    return violations(SCHEMA, json_freeze({"path": "p", **arguments}))


def mend(**arguments: object) -> object:
    result = coerce(SCHEMA, json_freeze({"path": "p", **arguments}))
    assert isinstance(result, JsonObject)
    return {key: item for key, item in result.items() if key != "path"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"count": "many"}, ['count must be integer, not "many"']),
        ({"count": 0}, ["count must be at least 1, not 0"]),
        ({"count": 10}, ["count must be at most 9, not 10"]),
        ({"count": True}, ["count must be integer, not true"]),
        ({"deep": 1}, ["deep must be boolean, not 1"]),
        ({"mode": "z"}, ['mode must be one of "a", "b", "c", not "z"']),
        ({"edits": []}, ["edits must have at least 1 items, not 0"]),
        ({"edits": [{"old": "x"}, {}]}, ["edits[1].old is required"]),
        ({"edits": [{"old": 3}]}, ["edits[0].old must be string, not 3"]),
        ({"tree": {"kids": [{"kids": [7]}]}}, ["tree.kids[0].kids[0] must be object, not 7"]),
        ({"any": {}}, ["any.x is required"]),
        ({"any": "s"}, ['any must be integer or object, not "s"']),
        ({"tag": "1"}, ["tag must match '^v[0-9]+$', not \"1\""]),
        ({"path": ""}, ["path must have at least 1 characters, not 0"]),
        ({"either": "x"}, ['either must be integer or null, not "x"']),
        ({"count": 3, "deep": True, "mode": "b", "either": None, "any": 3, "tag": "v1", "ratio": 1}, []),
    ],
)
def test_violations_name_place_and_value(arguments: dict[str, object], said: list[str]) -> None:
    assert check(**arguments) == said


def test_wrong_parameters_say_accepted_ones() -> None:
    said = violations(SCHEMA, json_freeze({"pth": "x"}))
    assert said[0] == "path is required"
    assert said[1].startswith("pth is not a parameter") and "path, count, ratio" in said[1]


def test_long_values_are_quoted_briefly() -> None:
    (said,) = check(count="x" * 10_000)
    assert len(said) < 200


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ({"count": "5"}, {"count": 5}),
        ({"count": 5.0}, {"count": 5}),
        ({"count": "5.0"}, {"count": 5}),
        ({"ratio": "2.5"}, {"ratio": 2.5}),
        ({"deep": "True"}, {"deep": True}),
        ({"edits": '[{"old": "x"}]'}, {"edits": (JsonObject({"old": "x"}),)}),
        ({"edits": ['{"old": "x"}']}, {"edits": (JsonObject({"old": "x"}),)}),
        ({"any": "7"}, {"any": 7}),
        ({"edits": {"old": "x"}}, {"edits": (JsonObject({"old": "x"}),)}),
        ({"names": "a.txt", "counts": 3}, {"names": ("a.txt",), "counts": (3,)}),
        ({"names": "a, b", "counts": "many"}, {"names": "a, b", "counts": "many"}),
        ({"names": '["a'}, {"names": '["a'}),
        ({"sums": {"a": "1"}}, {"sums": JsonObject({"a": 1})}),
        ({"all": '{"old": 1}'}, {"all": JsonObject({"old": "1"})}),
        ({"tag": 7}, {"tag": "7"}),
        ({"tag": {"a": ["é"]}}, {"tag": '{\n  "a": [\n    "é"\n  ]\n}'}),
        ({"mode": "", "count": "", "edits": [], "names": "", "ratio": {}}, {}),
        ({"count": 0, "deep": False, "any": ""}, {"count": 0, "deep": False}),
        ({"count": None, "either": None}, {"either": None}),
        ({"count": "five", "deep": "maybe", "edits": "[oops"}, {"count": "five", "deep": "maybe", "edits": "[oops"}),
        ({"mode": "true"}, {"mode": "true"}),
        ({"mode": "B"}, {"mode": "b"}),
        ({"unknown": None}, {"unknown": None}),
    ],
)
def test_plain_meaning_is_coerced(arguments: dict[str, object], meant: dict[str, object]) -> None:
    mended = mend(**arguments)
    assert mended == meant
    assert repr(mended) == repr(meant), "5.0 is not 5 in JSON"


def test_null_for_required_is_told() -> None:
    mended = coerce(SCHEMA, json_freeze({"path": None}))
    assert violations(SCHEMA, mended) == ["path must be string, not null"]


def test_one_of_and_all_of_are_checked() -> None:
    one = json_freeze_object({"oneOf": [{"minimum": 1}, {"maximum": 5}]})
    assert violations(one, 0) == []
    assert "exactly one" in violations(one, 3)[0]
    every = json_freeze_object({"allOf": [{"minimum": 1}, {"maximum": 5}]})
    assert violations(every, 7) == ["the value must be at most 5, not 7"]


def test_empty_or_own_reference_accepts_any() -> None:
    assert violations(json_freeze_object({"$ref": "#/$defs/none"}), 1) == []
    assert violations(json_freeze_object({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}), 1) == []


TEXT = st.text('ab15.{}[]" ', max_size=5)
SCALAR = st.none() | st.booleans() | st.integers(-20, 20) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*map(str, SCHEMA["properties"]), "other"]), JSON, max_size=5))  # pyright: ignore[reportArgumentType]
def test_coercion_keeps_valid_values(arguments: dict[str, object]) -> None:
    value = json_freeze(arguments)
    mended = coerce(SCHEMA, value)
    if not violations(SCHEMA, value):
        assert mended == value
    assert coerce(SCHEMA, mended) == mended


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_recursive_alternatives_terminate(monkeypatch: pytest.MonkeyPatch, keyword: str) -> None:
    """Each is twice as many at the next level: a server's schema could hold up all agents of the process for ever."""
    monkeypatch.setattr(schema, "_MAX_STEPS", deep(3_000, schema._MAX_STEPS))
    endless = json_freeze_object({keyword: [{"$ref": "#"}, {"$ref": "#"}]})
    assert coerce(endless, "3") == "3"
    assert "nested too deeply" in " ".join(violations(endless, "3"))
