"""Requests that go out together: three batch APIs, what of a batch fails, and who takes its answers after a crash."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent import Agent, tool
from sagent.agent import Resources
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import ModelError
from sagent.messages import user
from sagent.model import Counting, Model, Reply, Request
from sagent.plugins.batches import Batches
from sagent.plugins.batches.transport import answer_with
from sagent.providers import provider_named
from sagent.providers.wire.transport import Answer
from sagent.session.log import MemoryLog
from sagent.testing.script import Call, Turn
from sagent.usage import Usage
from tests.depth import later
from tests.plugins.batches.batch_server import BatchServer, Step

MODELS = {"anthropic": "claude-haiku-4-5", "openai": "gpt-5.2", "google": "gemini-3.8-flash"}
EACH = pytest.mark.parametrize("name", MODELS)
USED = Usage(input=1_000_000, output=1_000_000)


@pytest.fixture
def server():
    with BatchServer().running() as running:
        yield running


def collected(journal: Path | None = None, **more: Any) -> Batches:
    return Batches(journal, **{"quiet": 0.05, "max_delay": 5.0, "poll": 0.01, **more})


def model_of(name: str, server: BatchServer, batches: Batches, model_id: str = "") -> Model:
    url = server.url + ("/v1" if name == "openai" else "")
    provider = provider_named(name, key="k" * 8, base_url=url, transport=batches, timeouts=batches.timeouts)
    return provider.model(model_id or MODELS[name])


async def ask(model: Model, text: str = "hi") -> Reply:
    *_, reply = [item async for item in model.stream(Request(f"c-{text}", [user(text)], "Be terse.", max_output=500))]
    assert isinstance(reply, Reply)
    return reply


async def fails(model: Model, text: str = "hi") -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(model, text)
    return caught.value


def says(given: dict[str, Any]) -> str:
    return json.dumps(given.get("messages") or given.get("input") or given.get("contents"))


@EACH
async def test_concurrent_requests_batched_half_price(name: str, server: BatchServer) -> None:
    server.script = lambda given: Turn("two" if "second" in says(given) else "one", thinking="Hm.", usage=USED)
    async with collected() as batches:
        model = model_of(name, server, batches)
        first, second = await asyncio.gather(ask(model, "first"), ask(model, "second"))
    assert (first.message.content, second.message.content, len(server.batches)) == ("one", "two", 1)
    (charge,) = first.charges
    prices, plain = PriceBook(), Usage(input=1_000_000, output=1_000_000)
    assert charge.tier == "batch"
    assert prices.bill(name, charge) == (prices.price(name, MODELS[name], plain) or Decimal(0)) / 2


@EACH
async def test_batch_fails_in_part(name: str, server: BatchServer) -> None:
    outcomes: dict[str, Step] = {
        "ok": Turn("fine", calls=(Call("Read", {"path": "a"}),)),
        "bad": "errored",
        "late": "expired",
        "gone": "canceled",
        "lost": "lost",
    }
    server.script = lambda given: next(step for word, step in outcomes.items() if word in says(given))
    async with collected() as batches:
        model = model_of(name, server, batches)
        asked = asyncio.create_task(ask(model, "ok"))
        bad, late, gone, lost = await asyncio.gather(*(fails(model, word) for word in ("bad", "late", "gone", "lost")))
        ok = await asked
    assert len(server.batches) == 1
    assert (ok.message.content, [call.name for call in ok.message.calls]) == ("fine", ["Read"])
    assert (bad.kind, bad.retryable) == ("invalid_request", False)
    assert (lost.kind, lost.retryable, lost.sent) == ("overloaded", True, False)
    if name != "google":  # there it is the whole batch's
        assert (late.kind, late.retryable, late.sent) == ("overloaded", True, False)
        assert (gone.retryable, gone.sent) == (False, False)
        assert "expired" in str(late)
        assert "cancelled" in str(gone)


@EACH
@pytest.mark.parametrize("stop", ["max_tokens", "content_filter"])
async def test_cut_calls_of_batch_are_not_whole(name: str, stop: str, server: BatchServer) -> None:
    calls = (Call("Read", {"path": "a"}), Call("Read", "", cut=True))
    stop = "refusal" if name == "anthropic" and stop == "content_filter" else stop
    server.script = lambda given: Turn("", calls=calls, stop=stop)
    async with collected() as batches:
        reply = await ask(model_of(name, server, batches))
    assert (reply.message.stop, [call.whole for call in reply.message.calls]) == (stop, [stop == "max_tokens", False])


@pytest.mark.parametrize(
    ("name", "state", "kind"),
    [
        ("openai", "failed", "invalid_request"),
        ("openai", "expired", "ok"),
        ("google", "FAILED", "invalid_request"),
        ("google", "EXPIRED", "overloaded"),
        ("google", "CANCELLED", "server"),
    ],
)
async def test_whole_batch_fails(name: str, state: str, kind: str, server: BatchServer) -> None:
    server.state = state
    async with collected() as batches:
        model = model_of(name, server, batches)
        if kind == "ok":  # what was made before it expired is there
            assert (await ask(model)).message.content == "ok"
            return
        error = await fails(model)
    assert (error.kind, error.sent) == (kind, False)


async def test_models_and_endpoints_separate(server: BatchServer) -> None:
    async with collected() as batches:
        models = [model_of("openai", server, batches), model_of("openai", server, batches, "gpt-4.1")]
        await asyncio.gather(
            *(ask(model, word) for model in models for word in ("a", "b")), ask(model_of("anthropic", server, batches))
        )
    assert sorted(len(batch.requests) for batch in server.batches.values()) == [1, 2, 2]


async def test_nobody_waits_once_all_asked(server: BatchServer) -> None:
    async with collected(quiet=3_600.0, max_delay=3_600.0) as batches:
        model = model_of("anthropic", server, batches)
        batches.expect(3)
        asked = [asyncio.create_task(ask(model, word)) for word in ("a", "b")]
        await asyncio.sleep(0.05)
        assert not server.batches
        batches.expect(-1)  # one has ended without a question
        async with asyncio.timeout(60):
            await asyncio.gather(*asked)
    assert [len(batch.requests) for batch in server.batches.values()] == [2]


async def test_oversized_batch_split(server: BatchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from sagent.plugins.batches import forms

    monkeypatch.setattr(forms._Anthropic, "max_bytes", 2_500)
    async with collected() as batches:
        model = model_of("anthropic", server, batches)
        await asyncio.gather(*(ask(model, f"{number} " + "x" * 900) for number in range(5)))
    assert sum(len(batch.requests) for batch in server.batches.values()) == 5
    assert len(server.batches) >= 3


async def test_cancelled_request_not_sent(server: BatchServer) -> None:
    async with collected(quiet=3_600.0, max_delay=3_600.0) as batches:
        model = model_of("anthropic", server, batches)
        batches.expect(3)
        given_up, kept = asyncio.create_task(ask(model, "a")), asyncio.create_task(ask(model, "b"))
        await asyncio.sleep(0.05)
        given_up.cancel()
        await asyncio.wait([given_up])
        batches.expect(-2)
        await kept
    (batch,) = server.batches.values()
    assert [says(given) for given in batch.requests.values()] == [
        says(
            {
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}]}
                ]
            }
        )
    ]


async def test_other_requests_pass_through(server: BatchServer) -> None:
    async with collected() as batches:
        model = model_of("anthropic", server, batches)
        assert isinstance(model, Counting)
        assert await model.count_tokens(Request("c", [user("hi")])) is None
    assert server.seen[0][:2] == ("POST", "/v1/messages/count_tokens")


# -- trouble on the way ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "kind"), [(401, "auth"), (429, "rate_limit"), (400, "invalid_request")])
async def test_refused_batch_fails_each_once(status: int, kind: str, server: BatchServer, tmp_path: Path) -> None:
    server.trouble = [status]
    async with collected(tmp_path / "j") as batches:
        model = model_of("anthropic", server, batches)
        errors = await asyncio.gather(fails(model, "a"), fails(model, "b"))
    assert [(error.kind, error.sent) for error in errors] == [(kind, False)] * 2
    assert len(server.seen) == 1
    reported: list[str] = []
    async with collected(tmp_path / "j", report=reported.append):
        assert reported == []


async def test_polling_errors_waited_out(server: BatchServer) -> None:
    async with collected() as batches:
        model = model_of("anthropic", server, batches)
        server.ended = lambda batch: batch.polls > 3
        asked = asyncio.create_task(ask(model))
        while not server.batches:
            await asyncio.sleep(0.01)
        server.trouble = [503, 429, 401]
        assert (await asked).message.content == "ok"


@pytest.mark.parametrize("heard", [True, False])
async def test_possibly_sent_batch_reported_next(tmp_path: Path, raw_server: Any, heard: bool) -> None:
    journal, reported = tmp_path / "batches.jsonl", list[str]()
    async with raw_server([None]) as raw, collected(journal) as batches:  # the connection is closed without an answer
        url = raw.url if heard else "http://127.0.0.1:9"
        provider = provider_named("anthropic", key="k" * 8, base_url=url, transport=batches)
        error = await fails(provider.model("claude-haiku-4-5"))
    assert (error.retryable, error.sent) == (False, heard)
    async with collected(journal, report=reported.append):
        pass
    assert ["1 of the batches" in line for line in reported] == [True] * heard


# -- after a crash -----------------------------------------------------------------------------------------------------


@EACH
async def test_next_process_collects_answers(name: str, server: BatchServer, tmp_path: Path) -> None:
    journal = tmp_path / "batches.jsonl"
    server.ended = lambda _: False
    server.script = lambda given: Turn("answer to " + ("b" if '"b"' in says(given) else "a"))
    async with collected(journal) as batches:
        model = model_of(name, server, batches)
        asked = [asyncio.create_task(ask(model, word)) for word in ("a", "b")]
        while not any(batch.polls for batch in server.batches.values()):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        for task in asked:
            task.cancel()
    server.ended = lambda _: True
    with journal.open("ab") as file:
        file.write(b'{"batch": "torn')
    async with collected(journal) as batches:
        model = model_of(name, server, batches)
        b, a = await asyncio.gather(ask(model, "b"), ask(model, "a"))
        assert (a.message.content, b.message.content, len(server.batches)) == ("answer to a", "answer to b", 1)
        await ask(model, "a")  # each answer is taken once
    assert [len(batch.requests) for batch in server.batches.values()] == [2, 1]
    async with collected(journal) as batches:  # and the line that was torn has spoiled no other
        await asyncio.gather(*(ask(model_of(name, server, batches), word) for word in ("a", "a", "b")))
    assert len(server.batches) == 2


async def test_batch_being_sent_recorded(server: BatchServer, tmp_path: Path) -> None:
    journal = tmp_path / "batches.jsonl"
    server.answers.clear()
    async with collected(journal) as batches:
        asked = asyncio.create_task(ask(model_of("anthropic", server, batches)))
        while not server.seen:
            await asyncio.sleep(0.01)
        asked.cancel()
        asyncio.get_running_loop().call_later(0.1, server.answers.set)
    async with collected(journal) as batches:
        assert (await ask(model_of("anthropic", server, batches))).message.content == "ok"
    assert len(server.batches) == 1


async def test_missing_batch_bought_on_retry(server: BatchServer, tmp_path: Path) -> None:
    journal = tmp_path / "batches.jsonl"
    async with collected(journal) as batches:
        await ask(model_of("anthropic", server, batches))
    server.batches["elsewhere"] = server.batches.pop("msgbatch_0")
    async with collected(journal) as batches:
        model = model_of("anthropic", server, batches)
        error = await fails(model)
        assert (error.retryable, error.sent) == (True, False)
        assert "no longer exists" in str(error)
        assert (await ask(model)).message.content == "ok"


async def test_date_and_session_not_in_key(server: BatchServer, tmp_path: Path) -> None:
    journal = tmp_path / "batches.jsonl"
    for day, session in (("2026-11-26", "one"), ("2026-11-27", "two")):
        async with collected(journal) as batches:
            request = Request(session, [user("hi")], f"Working directory: /w\nDate: {day}", max_output=500)
            assert [item async for item in model_of("openai", server, batches).stream(request)]
    assert len(server.batches) == 1


# -- whatever comes ----------------------------------------------------------------------------------------------------


class Memory:
    """A provider without a network: it answers each text with itself, in the order that `order` gives."""

    def __init__(self, order: Callable[[list[bytes]], list[bytes]]) -> None:
        self.batches: list[list[dict[str, Any]]] = []
        self._order = order

    async def post(self, url: str, headers: Mapping[str, str], body: Sequence[bytes]) -> Answer:
        self.batches.append(json.loads(b"".join(body))["requests"])
        return answer_with(200, {}, json.dumps({"id": str(len(self.batches) - 1)}).encode())

    async def get(self, url: str, headers: Mapping[str, str]) -> Answer:
        await asyncio.sleep(0)
        if not url.endswith("/results"):
            return answer_with(200, {}, b'{"processing_status": "ended"}')
        return answer_with(200, {}, b"\n".join(self._order([*map(self._line, self.batches[int(url.split("/")[-2])])])))

    def _line(self, row: dict[str, Any]) -> bytes:
        text = row["params"]["messages"][0]["content"][0]["text"]
        message = {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "usage": {"input_tokens": 9}}
        result = {"type": "expired"} if text.startswith("late") else {"type": "succeeded", "message": message}
        return json.dumps({"custom_id": row["custom_id"], "result": result}).encode()

    async def aclose(self) -> None:
        pass


FATES = st.tuples(st.sampled_from(["ok", "late", "given up"]), st.integers(0, 4), st.sampled_from("ab"))


@settings(max_examples=25, deadline=None)
@given(st.lists(FATES, max_size=12), st.randoms(use_true_random=True))  # tasks draw from it in no certain order
def test_answers_matched_under_failures(asked: list[tuple[str, int, str]], chance: Random) -> None:
    """Each asks after so many rounds of the loop, at one of two models; some leave, and some come to nothing."""
    memory = Memory(lambda lines: chance.sample(lines, len(lines)))

    async def one(batches: Batches, number: int, fate: str, rounds: int, model_id: str) -> None:
        provider = provider_named("anthropic", key="k" * 8, transport=batches, timeouts=batches.timeouts)
        model = provider.model(f"claude-haiku-4-5-{model_id}")
        for _ in range(rounds):
            await asyncio.sleep(0)
        task = asyncio.create_task(ask(model, f"{fate} {number}"))
        if fate == "given up":
            for _ in range(chance.randint(0, 40)):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        elif fate == "late":
            await asyncio.wait([task])
            error = task.exception()
            assert isinstance(error, ModelError)
            assert (error.kind, error.sent) == ("overloaded", False)
        else:
            assert (await task).message.content == f"{fate} {number}"

    async def every() -> None:
        async with collected(quiet=0.002, through=memory) as batches, asyncio.timeout(60):
            await asyncio.gather(*(one(batches, number, *each) for number, each in enumerate(asked)))

    asyncio.run(every())
    texts = [says(row["params"]) for batch in memory.batches for row in batch]
    assert len(texts) == len(set(texts)), "nothing is bought twice"


@pytest.mark.parametrize("deep", ["post", "get"])
async def test_nested_answer_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch, deep: str) -> None:
    memory = Memory(lambda lines: lines)
    usual = getattr(memory, deep)
    asked: list[str] = []

    async def answer(url: str, *rest: Any) -> Answer:
        asked.append(url)
        return answer_with(200, {}, b"[" * 100_000) if len(asked) == 1 else await usual(url, *rest)

    monkeypatch.setattr(memory, deep, answer)
    async with collected(through=memory) as batches, asyncio.timeout(60):
        provider = provider_named("anthropic", key="k" * 8, transport=batches, timeouts=batches.timeouts)
        model = provider.model(MODELS["anthropic"])
        if deep == "get":  # it is asked again
            assert (await ask(model)).message.content == "hi"
        else:
            assert "not sent" in str(await fails(model))


# -- the official SDKs as judges ---------------------------------------------------------------------------------------


def sent(server: BatchServer, end: str) -> list[tuple[str, Any]]:
    found = [(path, body) for method, path, body in server.seen if method == "POST" and path.endswith(end)]
    return [(path, json.loads(body)) for path, body in found]


async def test_anthropic_sdk_sends_the_same(server: BatchServer) -> None:
    import anthropic  # loads for a second, which each worker would wait for

    async with collected() as batches:
        await ask(model_of("anthropic", server, batches))
    async with anthropic.AsyncAnthropic(api_key="k", base_url=server.url) as client:
        (params,) = (row["params"] for row in sent(server, "/batches")[0][1]["requests"])
        made = await client.messages.batches.create(requests=[{"custom_id": "r0", "params": params}])
        assert (await client.messages.batches.retrieve(made.id)).processing_status == "ended"
        (row,) = [row async for row in await client.messages.batches.results(made.id)]
    assert row.result.type == "succeeded"
    assert row.result.message.content[0].type == "text"
    ours, theirs = sent(server, "/batches")
    assert ours == theirs


@later
async def test_openai_sdk_sends_the_same(server: BatchServer) -> None:
    import openai

    async with collected() as batches:
        await ask(model_of("openai", server, batches))
    async with openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1") as client:
        file = await client.files.create(file=("batch.jsonl", server.files["file-0"]), purpose="batch")
        made = await client.batches.create(input_file_id=file.id, endpoint="/v1/responses", completion_window="24h")
        found = await client.batches.retrieve(made.id)
        assert (found.status, found.output_file_id) == ("completed", f"out-{made.id}")
        content = await client.files.content(f"out-{made.id}")
    assert json.loads(content.text)["response"]["status_code"] == 200
    assert server.files["file-0"] == server.files["file-1"]
    (path, ours), (_, theirs) = sent(server, "/v1/batches")
    assert (path, ours) == ("/v1/batches", {**theirs, "input_file_id": "file-0"})


@later
async def test_google_sdk_sends_the_same(server: BatchServer) -> None:
    from google import genai

    async with collected() as batches:
        await ask(model_of("google", server, batches))
    contents = [{"role": "user", "parts": [{"text": "hi"}]}]
    async with httpx2.AsyncClient() as http:
        options = genai.types.HttpOptions(base_url=server.url, api_version="v1beta", httpx_async_client=http)
        client = genai.Client(api_key="k", http_options=options)
        source: Any = [{"contents": contents, "metadata": {"key": "r0"}}]
        made = await client.aio.batches.create(model="gemini-3.8-flash", src=source)
        found = await client.aio.batches.get(name=made.name or "")
        client.close()
    assert str(found.state).endswith("JOB_STATE_SUCCEEDED")
    assert found.dest
    assert found.dest.inlined_responses
    (path, ours), (theirs_path, theirs) = sent(server, ":batchGenerateContent")
    assert path == theirs_path
    (mine,), (other,) = (each["batch"]["inputConfig"]["requests"]["requests"] for each in (ours, theirs))
    assert mine.keys() == other.keys()
    assert mine["request"]["contents"] == other["request"]["contents"]


@EACH
@pytest.mark.parametrize("stop", ["max_tokens", "content_filter"])
async def test_cut_batch_call_not_made(name: str, stop: str, server: BatchServer) -> None:
    wiped = list[str]()

    @tool
    def wipe(path: str = "/everything") -> str:
        """Wipe a directory."""
        wiped.append(path)
        return "wiped"

    def script(given: Mapping[str, Any]) -> Turn:
        asked = says({**given})
        return Turn("ok") if "not run" in asked else Turn(calls=(Call("wipe", {"path": "/home"}),), stop=stop)

    server.script = script
    async with collected() as batches, Agent(model_of(name, server, batches), tools=[wipe]) as agent:
        result = await agent.run("go")
        assert "not run" in "".join(each.text for message in agent.messages for each in message.results)
    assert wiped == []
    assert result.stop_reason in (("end",) if stop == "max_tokens" else ("content_filter", "refusal"))


@EACH
async def test_false_batch_usage_not_booked(name: str, server: BatchServer) -> None:
    server.script = lambda given: Turn("ok", usage=Usage(input=10**12, output=9))
    ledger = Ledger(Decimal(3), PriceBook())
    resources = Resources(ledger=ledger, log=MemoryLog())
    async with collected() as batches, Agent(model_of(name, server, batches), resources=resources) as agent:
        for _ in range(2):
            assert (await agent.run("go")).content == "ok"
    assert ledger.cost().total + ledger.cost().unbilled < 3


def test_old_name_of_max_delay_warns() -> None:
    with pytest.warns(DeprecationWarning, match="max_delay"):
        assert Batches(longest=1.0)._max_delay == 1.0
