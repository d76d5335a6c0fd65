"""The promises of a Model as tests, for whoever writes one. Needs pytest and pytest-asyncio.

An adapter, against a provider on loopback:

    class TestMyModel(ServedModelSuite):
        @pytest.fixture
        def open_model(self) -> OpenModel:
            @contextlib.asynccontextmanager
            async def opened(url: str) -> AsyncGenerator[Model]:
                async with contextlib.aclosing(MyProvider.from_key("k", base_url=url)) as provider:
                    yield provider.model("some-model")
            return opened

Any other Model: subclass ModelSuite and override `make_model`, which gives a model that answers with the steps of a
script (`sagent.testing.script`), in order. `pytest.register_assert_rewrite("sagent.testing.model_suite")` in a conftest
makes failures explain themselves.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from itertools import pairwise
from typing import Literal, TypeAlias, cast

import pytest

from sagent.errors import ModelError, ModelErrorKind
from sagent.lib.json import EMPTY, as_array, as_object, json_freeze_object, sha256_hex
from sagent.messages import (
    WITHDRAWN,
    Image,
    Message,
    Part,
    Private,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    user,
)
from sagent.model import Billed, Delta, Model, Reply, Request, TextPart, ThinkingPart, ToolSpec
from sagent.testing.script import Call, Cut, ErrorEvent, Fail, Raw, Stall, Step, Turn
from sagent.testing.server import FakeProviderServer
from sagent.usage import Usage

MakeModel: TypeAlias = Callable[[Sequence[Step]], AbstractAsyncContextManager[Model]]
OpenModel: TypeAlias = Callable[[str], AbstractAsyncContextManager[Model]]

_TURNS = ("messages", "input", "contents")  # the member that holds them, in one family or another
_SYSTEM = ("system", "instructions", "systemInstruction")
TIMEOUT_SECONDS = 60.0  # after which a hanging model fails its test
_READ = ToolSpec(
    "Read",
    "Read a file. Größe in µm — ok?",
    json_freeze_object(
        {
            "type": "object",
            "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
            "required": ["path"],
        }
    ),
)
_HALVES, _WHOLE = "b\ud83d\ude00\ud83d\ude80 c\ud83d\ude00", "b😀🚀 c😀"  # emoji as two halves each, and whole
_SPOKEN = 'Grüße, 世界 🌍.\n\tA "quoted" line\u2028and\r\nanother \\ one.'
_FIRST = json_freeze_object({"path": "ä b.py", "deep": {"x": [1, None, 2.5]}})
_CALLS = (Call("Read", _FIRST), Call("Read", {}), Call("Read", ""))
_PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000"
    "050001a5f645400000000049454e44ae426082"
)


def _call(call_id: str, private: Private | None = None) -> ToolCall:
    return ToolCall(call_id, "Read", json_freeze_object({"path": "a"}), private=private)


def _result(call_id: str) -> ToolResult:
    return ToolResult(call_id, (Text("ok"),))


def _said(*parts: Part) -> Message:
    return Message("assistant", parts, model="elsewhere/other")


_ELSEWHERE = Private("elsewhere", json_freeze_object({"signature": "x", "id": "rs_1"}))
_HISTORIES = {
    "open": (
        user("hi"),
        _said(Text("Let me"), _call("a"), _call("b")),
        Message("user", (_result("a"),)),
        user("stop!"),
    ),
    "orphan": (user("hi"), assistant("Hello."), Message("user", (_result("gone"), Text("and?")))),
    "odd ids": (
        user("hi"),
        _said(_call("functions.Read:0 ü"), _call(""), _call("x" * 80)),
        Message("user", (_result("functions.Read:0 ü"), _result(""), _result("x" * 80))),
    ),
    "same ids": (
        *(user("hi"), _said(_call("1")), Message("user", (_result("1"),))),
        *(_said(_call("1")), Message("user", (_result("1"),))),
    ),
    "foreign": (
        user("hi"),
        _said(
            Thinking("", _ELSEWHERE), Thinking("Hm.", _ELSEWHERE), Text("On it.", _ELSEWHERE), _call("a", _ELSEWHERE)
        ),
        Message("user", (_result("a"),)),
    ),
    "empty": (user("hi"), _said(), user("hello?"), _said(Text("")), _said(Thinking("Hm.")), user(" ")),
}
"""What abort, crash, switch and servers leave; keyed by what is wrong with it."""


def ask(*messages: Message, conversation: str = "suite", max_output: int | None = 500) -> Request:
    """Return a request as an agent makes it: a system prompt, a tool, a history."""
    return Request(conversation, messages or (user("hi"),), "You are terse. ✓", (_READ,), max_output)


async def collect(model: Model, request: Request) -> tuple[list[Delta], Reply]:
    """Collect a call's output. Fails unless that is deltas and then exactly one reply."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        said = [item async for item in model.stream(request)]
    assert said, "the stream ended without a reply"
    *deltas, reply = said
    assert isinstance(reply, Reply), f"the last item is {reply!r}, not a Reply"
    assert all(isinstance(delta, TextPart | ThinkingPart | Billed) for delta in deltas), deltas
    return cast("list[Delta]", deltas), reply


async def failure(model: Model, request: Request) -> tuple[str, ModelError]:
    """Return the text that came before a call failed, and the error. Anything but a ModelError passes through."""
    text = ""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        try:
            async for item in model.stream(request):
                assert not isinstance(item, Reply), f"a reply came where an error belongs: {item.message}"
                text += item.text if isinstance(item, TextPart) else ""
        except ModelError as error:
            return text, error
    raise AssertionError("the stream ended without a reply and without an error")


def texts(deltas: Iterable[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextPart))


@pytest.mark.asyncio
class ModelSuite:
    """The promises of every Model. Override `make_model`, and `billed` if a wire lacks one of its buckets.

    `filters` is False if nothing withholds a reply for its content, as with weights of one's own.
    """

    billed = Usage(input=10, cache_read=200, cache_write=30, output=50, reasoning=7)
    filters = True

    @pytest.fixture
    def make_model(self) -> MakeModel:
        """Return a function that makes a model that answers with a script."""
        raise NotImplementedError("override the fixture make_model")

    # A reply

    @pytest.mark.parametrize("pieces", [0, 1, 7])
    async def test_deltas_come_first_and_say_what_the_reply_says(self, make_model: MakeModel, pieces: int) -> None:
        """Text and thinking are streamed as they come; the reply has the same once more, in one piece each."""
        turn = Turn(_SPOKEN, thinking="Let me see …", pieces=pieces)
        async with make_model([turn]) as model:
            deltas, reply = await collect(model, ask())
            assert texts(deltas) == reply.message.content == _SPOKEN
            thinking = "".join(delta.text for delta in deltas if isinstance(delta, ThinkingPart))
            assert thinking == turn.thinking
            assert [part.text for part in reply.message.parts if isinstance(part, Thinking)] == [thinking]
            assert (reply.message.role, reply.message.stop) == ("assistant", "end")
            assert reply.message.model == f"{model.provider}/{model.id}"

    async def test_calls_come_with_their_arguments_in_order(self, make_model: MakeModel) -> None:
        """Parallel calls are kept apart; no arguments are an empty object."""
        async with make_model([Turn("Reading.", calls=_CALLS, pieces=2)]) as model:
            _, reply = await collect(model, ask())
        calls = reply.message.calls
        assert [call.arguments for call in calls] == [_FIRST, EMPTY, EMPTY]
        assert [(call.name, call.malformed, call.whole) for call in calls] == [("Read", None, True)] * 3
        assert (reply.message.content, reply.message.stop) == ("Reading.", "tool_use")

    @pytest.mark.parametrize("arguments", ["", "{}", '{"path": "b'])
    @pytest.mark.parametrize("stop", ["max_tokens", "content_filter"])
    async def test_cut_calls_are_not_whole(self, make_model: MakeModel, stop: str, arguments: str) -> None:
        """The agent never makes cut calls. In a reply cut at its limit, the calls before the last one are whole."""
        if stop == "content_filter" and not self.filters:
            pytest.skip("nothing withholds a reply of this model")
        calls = (Call("Read", _FIRST), Call("Read", arguments, cut=True))
        async with make_model([Turn("Reading.", calls=calls, stop=stop)]) as model:
            _, reply = await collect(model, ask())
        assert reply.message.stop == stop or reply.message.stop in WITHDRAWN
        assert [call.whole for call in reply.message.calls] == [stop == "max_tokens", False]

    @pytest.mark.parametrize("arguments", ['{"path": "a', "[1]", "path=a.py", '{"path": NaN}'])
    async def test_arguments_that_are_no_object_are_kept_as_they_came(
        self, make_model: MakeModel, arguments: str
    ) -> None:
        """Malformed arguments are neither lost, fixed nor fatal: the agent answers the model with them."""
        calls = (Call("Read", arguments), Call("Read", {"path": "b"}))
        async with make_model([Turn(calls=calls)]) as model:
            _, reply = await collect(model, ask())
        broken, sound = reply.message.calls
        assert (broken.malformed, broken.arguments) == (arguments, EMPTY)
        assert (sound.malformed, sound.arguments) == (None, json_freeze_object({"path": "b"}))

    @pytest.mark.parametrize("stop", ["end", "max_tokens"])
    async def test_the_reply_says_why_it_ended(self, make_model: MakeModel, stop: Literal["end", "max_tokens"]) -> None:
        async with make_model([Turn("x", stop=stop)]) as model:
            _, reply = await collect(model, ask())
        assert reply.message.stop == stop

    async def test_usage_is_in_disjoint_buckets_and_the_charges_sum_to_it(self, make_model: MakeModel) -> None:
        """Cached tokens are counted once, reasoning inside the output; the last Billed is not above the bill."""
        usage = self.billed
        async with make_model([Turn("x", thinking="y", usage=usage)]) as model:
            deltas, reply = await collect(model, ask())
        assert reply.usage == usage
        assert sum((charge.usage for charge in reply.charges), Usage()) == usage
        assert all(charge.model for charge in reply.charges)
        for delta in deltas:
            if isinstance(delta, Billed):
                billed = sum((charge.usage for charge in delta.charges), Usage())
                assert (billed.total_input, billed.output) <= (usage.total_input, usage.output)

    # A failure

    @pytest.mark.parametrize(
        ("step", "kind"),
        [
            (Fail(400), "invalid_request"),
            (Fail(401), "auth"),
            (Fail(403), "permission"),
            (Fail(404), "not_found"),
            (Fail(429), "rate_limit"),
            (Fail(500), "server"),
            (Fail(529, type="overloaded_error", message="Overloaded"), "overloaded"),
            (Raw(502, body=b"<html><body>Bad Gateway</body></html>"), "server"),
        ],
        ids=lambda value: str(getattr(value, "status", value)),
    )
    async def test_an_error_status_is_a_model_error_of_its_kind(
        self, make_model: MakeModel, step: Fail | Raw, kind: ModelErrorKind
    ) -> None:
        """Check that the error names provider, model and status. Retrying is the agent's business: the next call
        gets the next step."""
        async with make_model([step, Turn("next")]) as model:
            text, error = await failure(model, ask())
            assert (text, error.kind, error.status) == ("", kind, step.status)
            assert (error.provider, error.model) == (model.provider, model.id)
            _, reply = await collect(model, ask())
            assert reply.message.content == "next"

    async def test_the_wait_that_a_provider_asks_for_is_told(self, make_model: MakeModel) -> None:
        async with make_model([Fail(429, headers={"retry-after": "7"})]) as model:
            _, error = await failure(model, ask())
        assert (error.kind, error.retry_after, error.retryable) == ("rate_limit", 7.0, True)

    async def test_an_error_inside_a_stream_is_one_of_its_kind(self, make_model: MakeModel) -> None:
        step = ErrorEvent(Turn("abcdefgh", pieces=1), after_events=6)
        async with make_model([step, Turn("next")]) as model:
            text, error = await failure(model, ask())
            assert (error.kind, error.provider, error.model) == ("overloaded", model.provider, model.id)
            assert text
            assert "abcdefgh".startswith(text)
            assert (await collect(model, ask()))[1].message.content == "next"

    @pytest.mark.parametrize("how", ["close", "clean", "reset"])
    @pytest.mark.parametrize("after", [-1, 0, 6])
    async def test_a_stream_without_its_end_is_an_error(
        self, make_model: MakeModel, how: Literal["close", "clean", "reset"], after: int
    ) -> None:
        async with make_model([Cut(Turn("abcdefgh", pieces=1), after, how), Turn("next")]) as model:
            text, error = await failure(model, ask())
            assert error.kind in ("cut", "network")
            assert error.kind == "cut" or how != "clean" or after < 0
            assert error.retryable
            assert (error.provider, error.model) == (model.provider, model.id)
            assert "abcdefgh".startswith(text)
            assert (await collect(model, ask()))[1].message.content == "next"

    # Stopping, and several at once

    async def test_closing_the_stream_early_stops_the_call(self, make_model: MakeModel) -> None:
        """The call's connection is closed, and the model serves the next call."""
        async with make_model([Stall(Turn("abcdefgh", pieces=1), after_events=6), Turn("next")]) as model:
            async with asyncio.timeout(TIMEOUT_SECONDS), aclosing(_generator(model)) as stream:
                while not isinstance(await anext(stream), TextPart):
                    pass
            await self.check_let_go()
            assert (await collect(model, ask()))[1].message.content == "next"

    async def test_cancelling_the_reader_stops_the_call(self, make_model: MakeModel) -> None:
        async with make_model([Stall(Turn("abcdefgh", pieces=1), after_events=6), Turn("next")]) as model:
            begun = asyncio.Event()

            async def read() -> None:
                async with aclosing(_generator(model)) as stream:
                    async for _ in stream:
                        begun.set()

            reader = asyncio.create_task(read())
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await begun.wait()
                reader.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await reader
            await self.check_let_go()
            assert (await collect(model, ask()))[1].message.content == "next"

    async def check_let_go(self) -> None:
        """Check that the connection of the last call, which was given up, is gone; where there is one to see."""

    async def test_streams_at_the_same_time_do_not_mix(self, make_model: MakeModel) -> None:
        words = ["a" * 40, "b" * 40, "c" * 40]
        async with make_model([Turn(word, pieces=1, gap=0.001) for word in words]) as model:
            calls = (collect(model, ask(conversation=f"suite-{number}")) for number in range(len(words)))
            results = await asyncio.gather(*calls)
        assert [texts(deltas) for deltas, _ in results] == [reply.message.content for _, reply in results]
        assert sorted(reply.message.content for _, reply in results) == words

    # Histories

    async def test_a_history_with_calls_and_results_goes_out_again(self, make_model: MakeModel) -> None:
        """Check that the model's words come back to it, thinking and parallel calls included, with results of every
        sort."""
        script = [Turn("On it.", thinking="Hm.", calls=_CALLS), Turn(calls=_CALLS[:1]), Turn("done")]
        async with make_model(script) as model:
            history = [user("fix it", Image("image/png", _PIXEL))]
            for turn in script:
                _, reply = await collect(model, ask(*history))
                assert len(reply.message.calls) == len(turn.calls)
                history += [reply.message, answer(reply.message)] if reply.message.calls else [reply.message]
        assert history[-1].content == "done"

    async def test_weigh_is_a_bound_and_grows_with_the_history(self, make_model: MakeModel) -> None:
        """No server counts more tokens than it was sent bytes."""
        history: list[Message] = []
        weights: list[int] = []
        async with make_model([Turn("ok ✓ " * 30, calls=_CALLS[:1])] * 4) as model:
            for number in range(4):
                history.append(user(f'{number}: 世界 🌍 "\\\n' * 20))
                request = ask(*history)
                weights.append(model.max_input_tokens(request))
                _, reply = await collect(model, request)
                assert reply.usage.total_input <= weights[-1]
                bodies = self.bodies()
                assert not bodies or len(bodies[-1]) <= weights[-1], (
                    "a body has more bytes than max_input_tokens() says"
                )
                history += (reply.message, answer(reply.message))
        assert weights == sorted(set(weights)), f"the weights do not grow: {weights}"

    async def test_the_digest_is_of_the_bytes_sent(self, make_model: MakeModel) -> None:
        """Check that the same request sent again is the same bytes, and that another one is not."""
        request = ask(user("hi"))
        async with make_model([Turn("a"), Turn("b"), Turn("c")]) as model:
            first, again, other = [
                (await collect(model, one))[1].digest
                for one in (request, request, ask(user("ho"), conversation="another"))
            ]
        assert first == again
        assert first.sha256 != other.sha256
        for body, digest in zip(self.bodies(), (first, again, other), strict=False):
            assert (digest.sha256, digest.size) == (sha256_hex(body), len(body))

    async def test_a_request_begins_with_the_one_before(self, make_model: MakeModel) -> None:
        """Tools, system prompt and messages, byte for byte; only what marks a cached prefix may move.

        Providers charge a tenth for a prefix they have seen. Nothing is checked if the bodies cannot be seen.
        """
        script = [Turn("On it.", thinking="Hm.", calls=_CALLS)] * 3 + [Turn("done")]
        async with make_model(script) as model:
            history = [user("fix it")]
            for number, _ in enumerate(script):
                _, reply = await collect(model, ask(*history, max_output=500 - number))
                history += [reply.message, answer(reply.message)]
        bodies = self.bodies()
        for first, second in pairwise(bodies):
            head = min((first.partition(b'"%b":[' % name.encode())[0] for name in _TURNS), key=len)
            assert head != first, "the body has no messages"
            assert second.startswith(head), "what stands before the messages has changed"
            before, after = prefix(first), prefix(second)
            assert after[: len(before)] == before, "the request does not begin with the one before"

    def bodies(self) -> Sequence[bytes]:
        """Return the bodies of the requests made so far, where they can be seen."""
        return ()


@pytest.mark.asyncio
class ServedModelSuite(ModelSuite):
    """The promises of an adapter in addition, seen from a server that refuses what the real one refuses.

    Override `open_model`.
    """

    server: FakeProviderServer

    @pytest.fixture
    def open_model(self) -> OpenModel:
        """Return a function that opens a model at a base URL."""
        raise NotImplementedError("override the fixture open_model")

    @pytest.fixture
    def make_model(self, open_model: OpenModel) -> MakeModel:
        """Return the model that asks a server that speaks the script."""

        @asynccontextmanager
        async def made(script: Sequence[Step]) -> AsyncGenerator[Model]:
            async with FakeProviderServer(script) as self.server, open_model(self.server.url) as model:
                yield model

        return made

    def bodies(self) -> Sequence[bytes]:
        return [request.body for request in self.server.requests]

    async def check_let_go(self) -> None:
        """Check that the server sees its client hang up."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not self.server.abandoned:  # noqa: ASYNC110 -- a list that the server keeps
                await asyncio.sleep(0.001)

    @pytest.mark.parametrize("pieces", [0, 1, 2, 3])
    async def test_each_delta_is_valid_text(self, make_model: MakeModel, pieces: int) -> None:
        """An emoji split over two pieces is shown whole, in thinking and in arguments too."""
        calls = (Call("Read", f'{{"path": "{_HALVES}"}}'),)
        async with make_model([Turn(_HALVES, thinking=_HALVES, calls=calls, pieces=pieces)]) as model:
            deltas, reply = await collect(model, ask())
        thinking = "".join(delta.text for delta in deltas if isinstance(delta, ThinkingPart))
        assert texts(deltas) == thinking == reply.message.content == _WHOLE
        assert [delta.text.encode() for delta in deltas if isinstance(delta, TextPart | ThinkingPart)]
        assert [part.text for part in reply.message.parts if isinstance(part, Thinking)] == [_WHOLE]
        assert reply.message.calls[0].arguments["path"] == _WHOLE

    async def test_a_connection_is_used_again(self, make_model: MakeModel) -> None:
        """The calls share one connection: a new one costs two or three round trips."""
        async with make_model([Turn("a"), Turn("b"), Fail(429), Turn("c")]) as model:
            await collect(model, ask())
            await collect(model, ask())
            await failure(model, ask())
            await collect(model, ask())
            assert {request.connection for request in self.server.requests} == {1}

    async def test_the_output_limit_reaches_the_provider(self, open_model: OpenModel) -> None:
        """The server bills the whole limit, and one token for each byte of the request: budgets rely on it."""
        async with FakeProviderServer([Turn("x")], bill="worst") as server, open_model(server.url) as model:
            request = ask(max_output=77)
            _, reply = await collect(model, request)
            assert server.billed == [Usage(input=len(server.requests[0].body), output=77)]
            assert reply.usage == server.billed[0]
            assert reply.usage.total_input <= model.max_input_tokens(request)

    @pytest.mark.parametrize("name", list(_HISTORIES))
    async def test_no_history_makes_an_invalid_request(self, make_model: MakeModel, name: str) -> None:
        """After an interrupt, a crash, a compaction or a switch of models the next request is still well-formed."""
        async with make_model([Turn("fine")]) as model:
            _, reply = await collect(model, ask(*_HISTORIES[name]))
        assert reply.message.content == "fine"


def answer(message: Message) -> Message:
    """Results for all calls of a message, of every sort in turn; a plain message where there are none."""
    sorts: Sequence[tuple[tuple[Text | Image, ...], bool]] = (
        ((Text("one\ntwo ✓"),), False),
        ((Image("image/png", _PIXEL), Text("a picture")), False),
        ((), True),
    )
    results = [ToolResult(call.id, *sorts[number % 3]) for number, call in enumerate(message.calls)]
    return Message("user", tuple(results)) if results else user("go on")


def prefix(body: bytes) -> list[str]:
    """Return the tools, system prompt and messages of a body, one string each, without the marks of a cached prefix."""
    fields = as_object(json.loads(body))
    return [
        json.dumps([_unmarked(fields.get(name)) for name in ("tools", "toolConfig", *_SYSTEM)]),
        *(json.dumps(_unmarked(turn)) for name in _TURNS for turn in as_array(fields.get(name))),
    ]


def _unmarked(value: object) -> object:
    if isinstance(value, list):
        return [_unmarked(item) for item in cast("list[object]", value) if "cachePoint" not in as_object(item)]
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return {key: _unmarked(item) for key, item in fields.items() if key != "cache_control"}
    return value


def _generator(model: Model) -> "AsyncGenerator[Delta | Reply]":
    """Return a stream as what can be closed early."""
    return cast("AsyncGenerator[Delta | Reply]", model.stream(ask()))
