"""What servers ask a person: forms field by field, pages to open, and what they get where nobody answers."""

import asyncio
import json
from pathlib import Path

import pytest

from sagent.plugins.mcp.form import LEAVE_OUT, read_fields
from tests.depth import later
from tests.plugins.mcp.odd import Odd, do
from tests.waiting import until

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2},
        "age": {"type": "integer", "minimum": 18, "default": 30},
        "size": {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Medium"], "default": "m"},
        "colour": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
        "extras": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]}},
        "news": {"type": "boolean", "default": False},
        "mail": {"type": "string", "format": "email"},
    },
    "required": ["name", "age", "colour", "mail"],
}
ASK = "text = json.dumps(ask('elicitation/create', message={message!r}, requestedSchema={schema!r}).get('result'))"


def asking(schema: object = FORM, message: str = "Who are you?") -> str:
    return ASK.format(message=message, schema=schema)


async def answered(odd: Odd, schema: object, *answers: str | None, message: str = "Who are you?") -> object:
    """What a server receives when the person says this."""
    odd.answers = [*answers]
    async with odd.opened() as servers:
        said = json.loads(await do(servers, asking(schema, message)))
    assert odd.answers == []
    return said


async def test_form_asks_until_answers_valid(tmp_path: Path) -> None:
    odd = Odd(tmp_path)
    answers = ("Answer", "x", "Zoë", "17", "30", "Small", "green", "A\nB", "Yes", "nobody", "z@example.org")
    said = await answered(odd, FORM, *answers)
    content = {"name": "Zoë", "age": 30, "size": "s", "colour": "g", "extras": ["a", "b"], "news": True}
    assert said == {"action": "accept", "content": {**content, "mail": "z@example.org"}}
    assert all(question.agent == "The MCP server odd" for question in odd.asked)
    first, _, again = odd.asked[:3]
    assert "Who are you?" in first.text
    assert first.options == ("Answer", "Decline")  # what is suggested would leave required fields empty
    assert again.text.startswith("That is not valid: ") and "at least 2 characters" in again.text
    assert [question.multiple for question in odd.asked].count(True) == 1
    assert ("Small", "Medium", LEAVE_OUT) in [question.options for question in odd.asked]


@later
async def test_defaults_are_filled_in_by_us(tmp_path: Path) -> None:
    several = {"type": "array", "items": {"type": "string", "enum": ["p", "q"]}, "default": ["q"]}
    fields = {"a": {"type": "string", "default": "x"}, "b": {"type": "number", "default": 1.5}, "c": several}
    schema = {"type": "object", "properties": fields, "required": ["a"]}
    said = await answered(odd := Odd(tmp_path), schema, "Use the suggested values")
    assert said == {"action": "accept", "content": {"a": "x", "b": 1.5, "c": ["q"]}}
    assert "a = x, b = 1.5, c = q" in odd.asked[0].text


@later
@pytest.mark.parametrize(
    ("answers", "action"),
    [
        ((None,), "cancel"),
        (("Decline",), "decline"),
        (("Answer", None), "cancel"),
        (("Answer", "x", "x", "x"), "cancel"),
    ],
)
async def test_person_can_leave_form(tmp_path: Path, answers: tuple[str | None, ...], action: str) -> None:
    assert await answered(Odd(tmp_path), FORM, *answers) == {"action": action}


async def test_unattended_question_declined(tmp_path: Path) -> None:
    odd = Odd(tmp_path)
    async with odd.opened(person=False) as servers:
        assert json.loads(await do(servers, asking())) == {"action": "decline"}
        page = "ask('elicitation/create', mode='url', message='m', url='https://example.org/', elicitationId='1')"
        assert "decline" in await do(servers, f"text = {page}")


@later
async def test_unusable_form_declined(tmp_path: Path) -> None:
    deep = {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}
    odd = Odd(tmp_path)
    assert await answered(odd, deep) == {"action": "decline"}
    many = {"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(99)}}
    assert await answered(odd, many) == {"action": "decline"}
    field = {"type": "string", "title": "\x1b[2Jt", "description": "\x07", "enum": ["\x1b]0;x\x07", "b"]}
    await answered(odd, {"type": "object", "properties": {"a": field}}, None, message="\x1b[31mred\u202e")
    shown = "".join((odd.asked[-1].text, *odd.asked[-1].options))
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown


@later
async def test_endless_questions_declined(tmp_path: Path) -> None:
    odd = Odd(tmp_path)
    one = {"type": "object", "properties": {"a": {"type": "string"}}}
    code = f"said = [ask('elicitation/create', n, message='m', requestedSchema={one!r})['result'] for n in range(40)]"
    odd.answers = [None] * 30
    async with odd.opened() as servers:
        said = await do(servers, f"{code}\ntext = ' '.join(one['action'] for one in said)")
    assert said.split() == ["cancel"] * 30 + ["decline"] * 10


@later
async def test_questions_asked_one_at_a_time(tmp_path: Path) -> None:
    odd = Odd(tmp_path)
    one = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    odd.answers = ["first", "second"]
    code = "\n".join((
        "got = {}",
        f"def go(n): got[n] = ask('elicitation/create', n, message=n, requestedSchema={one!r})['result']",
        "both = [threading.Thread(target=go, args=[n]) for n in ('x', 'y')]",
        "[each.start() for each in both]; [each.join() for each in both]",
        "text = json.dumps(sorted(one['content']['a'] for one in got.values()))",
    ))  # fmt: skip
    async with odd.opened() as servers:
        assert json.loads(await do(servers, code)) == ["first", "second"]


async def test_page_opens_only_with_consent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    odd = Odd(tmp_path)
    url = "https://pay.example.org:8443/x?token=1"
    ask = (
        "text = json.dumps(ask('elicitation/create', mode='url', message='Pay', url={!r}, elicitationId='1')['result'])"
    )
    odd.answers = ["Decline", None, "I have opened it myself", "Open it in the browser"]
    async with odd.opened() as servers:
        said = [json.loads(await do(servers, ask.format(url)))["action"] for _ in range(3)]
        assert said == ["decline", "cancel", "accept"]
        assert opened == []
        await do(servers, ask.format(url))
        for bad in (
            "file:///etc/passwd",
            "javascript:alert(1)",
            "https://bank.example@evil.example/",
            "https:///x",
            "https://a`b.example/",
            "https://a.b:99999/",
        ):
            assert "decline" in await do(servers, ask.format(bad))
        odd.answers = [None]
        await do(servers, ask.format("https://b\u0430nk.example/"))  # with a Cyrillic letter
    assert opened == [url]
    assert "pay.example.org:8443" in odd.asked[0].text
    assert url in odd.asked[0].text
    assert "U+0430" in odd.asked[-1].text


@later
async def test_error_can_require_page(tmp_path: Path) -> None:
    odd = Odd(tmp_path)
    one = {"mode": "url", "message": "Log in", "url": "https://example.org/in", "elicitationId": "1"}
    error = {"code": -32042, "message": "a page first", "data": {"elicitations": [one]}}
    code = f"send({{'jsonrpc': '2.0', 'id': number, 'error': {error!r}}}); threading.Event().wait(1)"
    odd.answers = ["I have opened it myself", "Decline"]
    async with odd.opened() as servers:
        assert "call the tool again" in await do(servers, code)
        assert "did not agree" in await do(servers, code)


WANTS = """
form = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
want = {"method": "elicitation/create", "params": {"message": "m", "requestedSchema": form}}
given = params.get("inputResponses")
text = json.dumps([given, params.get("requestState")])
done = {"resultType": "complete", "content": [{"type": "text", "text": text}]}
result = done if given else {"resultType": "input_required", "inputRequests": {"k": want}, "requestState": "s1"}
"""


async def test_input_required_result_retried(tmp_path: Path) -> None:
    odd = Odd(tmp_path, discover="modern")
    odd.answers = ["mine", "Decline"]
    async with odd.opened() as servers:
        said = json.loads(await do(servers, WANTS))
        assert said == [{"k": {"action": "accept", "content": {"a": "mine"}}}, "s1"]
        assert json.loads(await do(servers, WANTS))[0] == {"k": {"action": "decline"}}


@later
async def test_endless_input_requests_stopped(tmp_path: Path) -> None:
    odd = Odd(tmp_path, discover="modern")
    async with odd.opened() as servers:
        said = await do(servers, "result = {'resultType': 'input_required', 'requestState': 'x'}")
        assert "InputRequiredRoundsExceededError" in said
        assert await do(servers, "result = {'resultType': 'complete', 'content': []}") == "(nothing)"
    assert odd.log.count('"server/discover"') == 1


async def test_question_ends_with_its_call(tmp_path: Path) -> None:
    odd = Odd(tmp_path)
    waiting, ended = asyncio.Event(), asyncio.Event()

    async def never(question: object) -> str | None:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return None

    async with odd.opened() as servers:
        elicitor = servers.links["odd"].elicitor
        elicitor._answer = never
        task = asyncio.create_task(do(servers, asking()))
        await waiting.wait()
        await do(servers, "import os; os._exit(1)")
        await until(ended.is_set, "the end of the question")
        assert "Whether" in await task


def test_optional_choice_can_be_left_out() -> None:
    several = {"type": "array", "items": {"type": "string", "enum": ["p", "q"]}, "minItems": 1}
    fields = read_fields({"properties": {"a": several}})
    assert fields is not None
    assert fields[0].options() == ("p", "q", LEAVE_OUT)
    assert fields[0].read(LEAVE_OUT) == (None, "")
    assert fields[0].read("q\np") == (["q", "p"], "")


def test_foreign_pattern_not_matched() -> None:
    fields = read_fields({"properties": {"a": {"type": "string", "pattern": "(a+)+$"}}, "required": ["a"]})
    assert fields is not None
    assert fields[0].read("a" * 60 + "!") == ("a" * 60 + "!", "")
