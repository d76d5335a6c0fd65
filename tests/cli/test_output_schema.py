"""--output-schema: an answer that conforms to a JSON Schema, or an exit code that says it does not."""

import json
from pathlib import Path

import pytest

from sagent.cli.answer_schema import read_schema
from sagent.errors import UsageError
from sagent.testing.script import Call, Turn
from tests.cli.program import Shell

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"name": {"type": "string"}, "size": {"type": "integer", "minimum": 1}},
    "required": ["name", "size"],
    "additionalProperties": False,
}
FITS, MISFIT = '{"name": "röd", "size": 3}', '{"name": "x", "size": 0}'


def schema_file(shell: Shell, schema: object = SCHEMA) -> str:
    (shell.cwd / "schema.json").write_text(schema if isinstance(schema, str) else json.dumps(schema))
    return "schema.json"


def test_schema_data_in_json_and_alone_in_text(shell: Shell) -> None:
    shell.serve([Turn(text=f"Here it is:\n```json\n{FITS}\n```")] * 2)
    done = shell.run("what is it?", "--json", "--output-schema", schema_file(shell))
    assert done.code == 0
    assert done.json["data"] == {"name": "röd", "size": 3}
    assert json.loads(str(done.json["result"])) == done.json["data"]
    text = shell.run("what is it?", "--output-schema", "schema.json")
    assert (text.code, text.out) == (0, FITS + "\n")


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_schema_in_other_encodings(shell: Shell, codec: str) -> None:
    shell.serve([Turn(text=FITS)])
    (shell.cwd / "s.json").write_bytes(
        json.dumps({**SCHEMA, "title": "Gr\u00f6\u00dfe"}, ensure_ascii=False).encode(codec)
    )
    assert shell.run("what is it?", "--output-schema", "s.json").out == FITS + "\n"


def test_provider_gets_schema_beside_tools(shell: Shell) -> None:
    server = shell.serve([Turn(calls=(Call("Glob", {"pattern": "*"}),)), Turn(text=FITS)])
    done = shell.run("what is it?", "--json", "--output-schema", schema_file(shell))
    assert done.json["data"] == {"name": "röd", "size": 3}
    assert [json.dumps(sent.json).count('"json_schema"') for sent in server.requests] == [1, 1]


def test_nonconforming_answer_mended_once(shell: Shell) -> None:
    server = shell.serve([Turn(text=MISFIT), Turn(text=FITS)])
    assert shell.run("what?", "--output-schema", schema_file(shell)).out == FITS + "\n"
    assert "size must be at least 1" in json.dumps(server.requests[1].json)


@pytest.mark.costly
@pytest.mark.parametrize("wrong", [MISFIT, "I cannot say.", '{"name": "x"}', '{"name": "x", "size": 1, "y": 2}', "[]"])
def test_wrong_data_has_exit_code_6(wrong: str, shell: Shell) -> None:
    shell.serve([Turn(text=wrong)] * 2)
    done = shell.run("what?", "--json", "--output-schema", schema_file(shell))
    assert done.code == 6
    assert '"kind":"invalid_output"' in done.out.replace(" ", "")
    assert "data" not in done.json


def test_every_prompt_is_answered_by_schema(shell: Shell) -> None:
    shell.serve([Turn(text=FITS), Turn(text="[]"), Turn(text="[]")])
    flags = ("--input-format", "stream-json", "--output-format", "stream-json", "--output-schema", schema_file(shell))
    done = shell.run(*flags, stdin='{"prompt": "a"}\n{"prompt": "b"}\n')
    results = [line for line in done.lines if line["type"] == "result"]
    assert ["data" in result for result in results] == [True, False]
    assert done.code == 6


@pytest.mark.parametrize("schema", [{"type": "array", "items": {"type": "integer"}}, {"enum": ["yes", "no"]}])
def test_answer_need_not_be_an_object(schema: object, shell: Shell) -> None:
    answer = [1, 2] if "items" in str(schema) else "yes"
    shell.serve([Turn(text=json.dumps({"value": answer}))])
    assert shell.run("what?", "--json", "--output-schema", schema_file(shell, schema)).json["data"] == answer


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("{", "that is not JSON"),
        ([], "a JSON Schema is needed"),
        ({"type": "objct"}, "unknown type 'objct'"),
        ({"not": {}}, "'not' is not supported"),
        ({"properties": {"a": {"uniqueItems": True}}}, "'uniqueItems' (at properties.a)"),
        ({"anyOf": [{"$ref": "https://x.example/s.json"}]}, "refers to another document"),
        ({"items": [{"type": "string"}]}, "items is not a schema"),
        ({"pattern": "("}, "pattern '('"),
    ],
)
def test_uncheckable_schema_is_refused_first(schema: object, says: str, shell: Shell) -> None:
    server = shell.serve([Turn(text=FITS)])
    done = shell.run("what?", "--output-schema", schema_file(shell, schema))
    assert (done.code, server.requests) == (2, [])
    assert says in done.err


def test_property_may_be_named_like_keyword(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"not": {"type": "string"}, "if": True}, "$defs": {"uniqueItems": {}}}
    (tmp_path / "s.json").write_text(json.dumps(schema))
    assert read_schema(tmp_path / "s.json") == schema
    with pytest.raises(UsageError, match=r"--output-schema .*nothing\.json: "):
        read_schema(tmp_path / "nothing.json")
    (tmp_path / "s.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(UsageError, match=r"--output-schema .*s\.json: it is not UTF-8 text$"):
        read_schema(tmp_path / "s.json")
