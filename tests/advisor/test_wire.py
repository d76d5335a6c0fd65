"""Advisors over real HTTP in every wire format: bytes that a provider's cache can use, no 400s, no secrets."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagent.agent import RunLimits
from sagent.events import Switched, ToolFinished
from sagent.messages import ToolCall
from sagent.model import Model
from sagent.peer import Compact, Switch
from sagent.providers import Anthropic, Google, OpenAI, OpenAICompatible
from sagent.session.blobs import BlobDirectory
from sagent.session.folds import history
from sagent.session.log import FileLog
from sagent.testing.server import Call, Fail, FakeProviderServer, Received, Step, Turn
from tests.advisor.cast import OK, Rig, act, ask, worker
from tests.depth import deep
from tests.lib.test_secrets import KEYS

PROVIDERS: dict[str, Callable[[str], Anthropic | OpenAI | OpenAICompatible | Google]] = {
    "anthropic": lambda url: Anthropic.from_key("k", base_url=url),
    "responses": lambda url: OpenAI.from_key("k", base_url=f"{url}/v1"),
    "chat": lambda url: OpenAICompatible.from_key("k", base_url=f"{url}/v1"),
    "google": lambda url: Google.from_key("k", base_url=url),
}
FAMILIES = pytest.mark.parametrize("family", PROVIDERS)


@asynccontextmanager
async def served(family: str, *script: Step, name: str = "oracle") -> AsyncIterator[tuple[FakeProviderServer, Model]]:
    """A provider that answers so, and a model of it."""
    async with FakeProviderServer(script) as server:
        provider = PROVIDERS[family](server.url)
        try:
            yield server, provider.model(name)
        finally:
            await provider.aclose()


def start_of(request: Received) -> bytes:
    """All of a body until its last message has ended."""
    mark = b'],"generationConfig"' if request.family == "google" else b'],"model"'
    start, found, _ = request.body.rpartition(mark)
    assert found
    return start


def content(body: bytes) -> bytes:
    """Without Anthropic's breakpoints: they say where to look in the cache, and move on; what is cached is the rest."""
    return body.replace(b',"cache_control":{"type":"ephemeral"}', b"")


def goes_on(after: Received, before: Received) -> bool:
    return content(after.body).startswith(content(start_of(before)))


def named(model: Model) -> str:
    return f"{model.provider}/{model.id}"


def turns(count: int, first: int = 0) -> list[tuple[object, ...]]:
    return [
        (f"step {n}", act(f"c{n}", n=n, says=f"result {n} " * 50), ask(f"a{n}")) for n in range(first, first + count)
    ]


@FAMILIES
async def test_consultation_extends_last_bytes(family: str) -> None:
    async with served(family, *[Turn(text=OK)] * 3) as (server, model):
        rig = Rig(worker(*turns(3), "done"), model, advisors=[named(model)])  # pyright: ignore[reportArgumentType]
        await rig.run()
        assert rig.statuses == ["answered"] * 3
        first, second, third = server.requests
        assert second.body.startswith(start_of(first)), "breakpoints and all: this is where the cache is first hit"
        assert goes_on(third, second)


@FAMILIES
async def test_consultation_extends_after_resume(family: str, tmp_path: Path) -> None:
    def log() -> FileLog:
        session = tmp_path / "s1"
        session.mkdir(exist_ok=True)
        return FileLog(session, blobs=BlobDirectory(session / "blobs"))

    async with served(family, *[Turn(text=OK)] * 3) as (server, model):
        before = Rig(worker(*turns(2), "one"), model, advisors=[named(model)], log=log())  # pyright: ignore[reportArgumentType]
        await before.run()
        before.log.close()
        kept = log()
        after = Rig(worker(*turns(1, 2), "two"), model, advisors=[named(model)], log=kept)  # pyright: ignore[reportArgumentType]
        after.agent.restore(history(kept.entries(), kept.blobs.get))
        await after.run("Go on.")
        assert goes_on(server.requests[2], server.requests[1])
        assert server.requests[2].body.count(b"result 0 result 0") == server.requests[1].body.count(
            b"result 0 result 0"
        )
        kept.close()


@FAMILIES
@pytest.mark.parametrize("order", [Compact(drop=("*",)), Compact(clear=True)])
async def test_consultation_extends_after_stubs(family: str, order: Compact) -> None:
    async with served(family, *[Turn(text=OK)] * 2) as (server, model):
        rig = Rig(
            worker((act("c9", says="x" * 3_000),), *turns(1), "one", *turns(1, 1), "two"),  # pyright: ignore[reportArgumentType]
            model,
            advisors=[named(model)],
        )
        await rig.run()
        rig.agent.apply(order)
        await rig.run("Go on.")
        assert rig.statuses == ["answered"] * 2
        assert server.requests[1].body.startswith(start_of(server.requests[0]))


async def test_anthropic_gets_a_cache_breakpoint() -> None:
    async with served("anthropic", *[Turn(text=OK)] * 2) as (server, model):
        rig = Rig(worker(*turns(2), "done"), model, advisors=[named(model)])  # pyright: ignore[reportArgumentType]
        await rig.run()
        for request in server.requests:
            assert request.body.count(b'"cache_control"') in (1, 2, 3, 4)
            assert b'"cache_control"' in request.body[-200:]


ROUTES = [("anthropic", "responses"), ("responses", "anthropic"), ("chat", "google"), ("google", "chat")]


@pytest.mark.parametrize(("executor", "advisor"), ROUTES)
async def test_advisor_switches_make_valid_requests(executor: str, advisor: str) -> None:
    """Strict servers: calls and results pair up, tools are well formed, roles follow each other."""
    consult = Turn(text="Hm.", calls=(Call("Act", {"n": 1}), Call("advisor", {"question": "why?"})))
    busy = [consult, consult, consult, consult, Turn(text="one"), consult, Turn(text="two")]
    changes = iter(
        [Switch(advisor="off"), Switch(advisor="on"), Switch(advisor="advisor=cheap/worker"), Switch(advisor="off")]
    )
    async with (
        served(executor, *busy, name="worker") as (front, model),
        served(advisor, *[Turn(text=OK)] * 3) as (back, oracle),
    ):
        local = worker(*[OK] * 3)
        rig = Rig(model, oracle, local, advisors=[named(oracle)], limits=RunLimits(max_retries=0))

        def switch(event: object) -> None:
            if isinstance(event, ToolFinished) and event.call.name == "advisor" and (change := next(changes, None)):
                rig.agent.apply(change)

        rig.agent.listen(switch)
        assert (await rig.run()).content == "one"
        assert rig.statuses == ["answered", "withheld", "answered", "answered"]
        rig.agent.apply(Switch(advisor="on"))
        assert (await rig.run("Go on.")).content == "two"
        assert len(front.requests) == len(busy)
        assert len(back.requests) == 2
        for before, after in zip(front.requests, front.requests[1:], strict=False):
            assert goes_on(after, before), "no toggle costs the executor its cache"
            assert after.json.get("tools") == before.json.get("tools")


@pytest.mark.parametrize(("executor", "other"), ROUTES)
async def test_advice_stays_after_family_switch(executor: str, other: str) -> None:
    consult = Turn(text="Hm.", calls=(Call("advisor", {}), Call("Act", {"n": 1})))
    async with (
        served(executor, consult, Turn(text="[NEED_ADVICE]"), Turn(text="one"), name="worker") as (_, model),
        served(other, Turn(text="two"), name="next") as (late, successor),
    ):
        from sagent.advisor.rules import Rules

        oracle = worker("VERDICT: adjust\nNEXT: mind the lock", "VERDICT: proceed\nNEXT: mind the gap", model_id="sage")
        rig = Rig(model, successor, oracle, advisors=[named(oracle)], rules=Rules(triggers=("need_advice",)))
        switched: list[str] = []
        rig.agent.listen(lambda event: switched.append(event.what) if isinstance(event, Switched) else None)
        assert (await rig.run()).content == "one"
        rig.agent.apply(Switch(model=named(successor)))
        assert (await rig.run("Go on.")).content == "two"
        assert b"mind the lock" in late.requests[0].body
        assert b"mind the gap" in late.requests[0].body


@pytest.mark.parametrize(
    ("family", "fail", "said"),
    [
        ("anthropic", Fail(429, message="slow down"), "rate limit"),
        ("anthropic", Fail(529), "overloaded"),
        ("anthropic", Fail(400, message="prompt is too long: 250000 tokens > 200000 maximum"), "too long"),
        (
            "responses",
            Fail(400, code="context_length_exceeded", message="Your input exceeds the context window"),
            "too long",
        ),
        ("responses", Fail(401), "key"),
        ("chat", Fail(503), "overloaded"),
        ("google", Fail(404), "does not know the model"),
    ],
)
async def test_provider_refusal_is_told_in_words(family: str, fail: Fail, said: str) -> None:
    async with served(family, fail) as (_, model):
        rig = Rig(worker((ask(),), "done"), model, advisors=[named(model)])
        assert (await rig.run()).content == "done"
        assert rig.statuses == ["failed"]
        assert said in rig.told()


@FAMILIES
async def test_overload_is_retried_then_answered(family: str) -> None:
    async with served(family, Fail(503, headers={"retry-after": "0"}), Turn(text=OK)) as (server, model):
        rig = Rig(worker((ask(),), "done"), model, advisors=[named(model)], limits=RunLimits())
        await rig.run()
        assert rig.statuses == ["answered"]
        assert len(server.requests) == 2
        assert any("trying again" in text for text in rig.notices)


# -- secrets -----------------------------------------------------------------------------------------------------------

PADDING = st.sampled_from([0, 1_500, 1_560, 1_590, 1_599, 2_380, 2_400, 3_900, 3_990, 6_000])


@settings(
    max_examples=deep(15, 60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.tuples(KEYS, PADDING, PADDING), min_size=7, max_size=7), st.sampled_from(["\n", " ", '="', "\t", ": "])
)
def test_no_secret_reaches_an_advisor(keys: list[tuple[str, int, int]], before: str) -> None:
    """In prompts, texts, arguments, results, questions, system prompts, and where a long text is cut."""
    planted = [key for key, _, _ in keys]
    texts = [f"{'w ' * (left // 2)}{before}{key}\n{'v ' * (right // 2)}" for key, left, right in keys]

    async def once() -> list[Received]:
        async with served("chat", Turn(text=OK), Turn(text=OK)) as (server, model):
            executor = worker(
                (texts[0], act("c0", content=texts[1], env={"A": [planted[1]]}, says=texts[2])),
                (ask(question=texts[3]),),
                (act("c1", n=1, error=True, says=texts[4]), ToolCall("c2", "Act", malformed=f'{{"x": "{planted[5]}')),
                (ask("a2", question=planted[3]),),
                "done",
            )
            rig = Rig(executor, model, advisors=[named(model)], system=texts[6])
            await rig.run(texts[5])
            assert rig.statuses == ["answered", "answered"]
            return server.requests

    for request in asyncio.run(once()):
        body = request.body.decode()
        for key in planted:
            assert key not in body
            assert key[len(key) // 2 :] not in body, "half a key is a key"
            assert key[: len(key) // 2] not in body or len(key[: len(key) // 2]) < 14
        assert "[redacted: " in body


async def test_executor_history_keeps_secrets() -> None:
    key = "sk-ant-api03-abcdefghijklmnopqrstuvwx"
    async with served("chat", Turn(text=OK)) as (server, model):
        executor = worker((act("c0", says=key),), (ask(),), "done")
        rig = Rig(executor, model, advisors=[named(model)])
        await rig.run()
        assert rig.told("c0") == key
        assert key not in server.requests[0].body.decode()
