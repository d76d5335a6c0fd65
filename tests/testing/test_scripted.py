"""ScriptedModel: what each sort of line comes to, and what it refuses."""

import asyncio
import math
from typing import Any

import pytest

from sagent.errors import ModelError
from sagent.lib.json import json_freeze_object
from sagent.messages import Image, Message, Text, Thinking, ToolResult, user
from sagent.model import Billed, Reply, Request, RequestDigest, TextPart, ThinkingPart, ToolSpec
from sagent.testing import ScriptedModel, check_pairing
from sagent.testing.model_suite import ask, collect, failure
from sagent.usage import Charge, Usage
from tests.messages import call

CALL = call("a", "Read", path="x")
BILLED = Billed((Charge("scripted", Usage(input=5)),))
CUT = ModelError("cut", "as scripted", provider="scripted")
HM = Thinking("hm")
PIXEL = Image("image/png", b"x")


def texts(*pieces: str) -> list[TextPart]:
    return [TextPart(piece) for piece in pieces]


@pytest.mark.parametrize(
    ("line", "deltas", "parts", "stop"),
    [
        ("hi", [TextPart("hi")], [Text("hi")], "end"),
        ("", [], [], "end"),
        (("Hel", 0, "", "lo"), texts("Hel", "lo"), [Text("Hello")], "end"),
        (("a", Text("b"), "c"), texts("a", "b", "c"), [Text("a"), Text("b"), Text("c")], "end"),
        ((HM, "so", CALL), [ThinkingPart("hm"), TextPart("so")], [HM, Text("so"), CALL], "tool_use"),
        (CALL, [], [CALL], "tool_use"),
        (("a", BILLED, ("b", ("c",))), [*texts("a"), BILLED, *texts("b", "c")], [Text("abc")], "end"),
        (Message("assistant", (Text("x"),), stop="max_tokens"), [TextPart("x")], [Text("x")], "max_tokens"),
        (("a", Message("assistant", (PIXEL,), stop="refusal")), texts("a"), [Text("a"), PIXEL], "refusal"),
        (Message("assistant"), [], [], "end"),
    ],
)
async def test_line_is_streamed_item_by_item(line, deltas, parts, stop):
    model = ScriptedModel(line)
    said, reply = await collect(model, ask())
    assert said == deltas
    assert reply.message == Message("assistant", tuple(parts), model="scripted/scripted", stop=stop)


async def test_usage_is_estimated_unless_given():
    usage = Usage(input=1, cache_read=2, output=3)
    whole = Reply(Message("assistant"), usage, (Charge("x", usage), Charge("y", usage)), RequestDigest("0", 0, "x"))
    model = ScriptedModel("estimated", ("given", usage), ("never mind", whole, "not said"), whole)
    (_, estimated), (_, given), (deltas, last), (_, plain) = [await collect(model, ask()) for _ in range(4)]
    assert 0 < estimated.usage.total_input <= model.max_input_tokens(ask())
    assert estimated.charges == (Charge("scripted", estimated.usage),)
    assert (given.usage, given.charges) == (usage, (Charge("scripted", usage),))
    assert deltas == [TextPart("never mind")]
    assert last is plain is whole


@pytest.mark.parametrize(
    "line", [CUT, ("ab", "cd", CUT, "never"), 0, (0, BILLED, 0)], ids=["at once", "late", "0", "billed"]
)
async def test_errors_in_place_and_silence_is_cut(line):
    model = ScriptedModel(line, "next")
    text, error = await failure(model, ask())
    assert text == ("abcd" if isinstance(line, tuple) and "ab" in line else "")
    assert error.kind == "cut"
    assert (await collect(model, ask()))[1].message.content == "next"


async def test_hanging_line_can_be_cancelled():
    model = ScriptedModel(("partial", math.inf), "next")
    heard = asyncio.Event()

    async def listen() -> None:
        async for _ in model.stream(ask()):
            heard.set()

    listener = asyncio.create_task(listen())
    await heard.wait()
    listener.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listener
    assert (await collect(model, ask()))[1].message.content == "next"


async def test_functions_get_request_and_may_wait():
    gate = asyncio.Event()

    async def patient(request: Request):
        await gate.wait()
        return ("so: ", lambda again: again.messages[0].content + request.system)

    model = ScriptedModel(lambda request: request.messages[-1].content.upper(), patient)
    assert (await collect(model, ask(user("hi"))))[1].message.content == "HI"
    reply = asyncio.create_task(collect(model, ask(user("ho"))))
    await asyncio.sleep(0)
    gate.set()
    assert (await reply)[1].message.content == "so: ho" + ask().system


async def test_requests_are_kept_as_sent():
    history = [user("one")]
    model = ScriptedModel("a", "b", provider="p", model_id="m")
    _, first = await collect(model, Request("c", history))
    history += [first.message, user("two")]
    _, second = await collect(model, Request("c", history))
    assert [len(request.messages) for request in model.requests] == [1, 3]
    assert second.message.model == "p/m"
    assert second.digest.sha256 != first.digest.sha256


def test_tools_and_system_weigh_too():
    model = ScriptedModel()
    bare = Request("c", [user("hi")])
    tool = ToolSpec("Read", "d" * 100, json_freeze_object({"type": "object"}))
    assert model.max_input_tokens(Request("c", [user("hi")], system="s" * 100)) >= model.max_input_tokens(bare) + 100
    assert model.max_input_tokens(Request("c", [user("hi")], tools=(tool,))) >= model.max_input_tokens(bare) + 100


async def test_used_up_script_says_so():
    model = ScriptedModel("only")
    await collect(model, ask())
    with pytest.raises(AssertionError, match="the script has 1 lines, and this is request 2"):
        await collect(model, ask())


def test_calls_and_results_must_pair_up():
    calls = Message("assistant", (CALL, call("b", "Read")))
    a, b = ToolResult("a", ()), ToolResult("b", ())
    check_pairing([user("hi"), calls, Message("user", (b, a, Text("and"))), calls, Message("user", (a, b))])
    for wrong in (
        [calls],
        [calls, user("hi")],
        [calls, Message("user", (a,))],
        [calls, Message("user", (a, b, a))],
        [calls, user("wait"), Message("user", (a, b))],
        [user("hi"), Message("user", (a,))],
        [Message("assistant", (CALL, CALL)), Message("user", (a,))],
    ):
        with pytest.raises(AssertionError, match=r"message \d|the history ends"):
            check_pairing(wrong)


@pytest.mark.parametrize("line", [["Hi.", "Ho."], None, lambda request: None])
async def test_invalid_line_is_named(line: Any) -> None:
    with pytest.raises(TypeError, match=r"is no line of a script: give lines one by one, as in ScriptedModel\(\*"):
        await collect(ScriptedModel(line), ask())
