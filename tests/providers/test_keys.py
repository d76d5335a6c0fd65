"""Several keys of one provider: which is used, what makes the next one take over, and that none is shown."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sagent import Agent
from sagent.agent import Resources
from sagent.errors import ModelError, UsageError
from sagent.events import Event, Notice, Retrying
from sagent.messages import user
from sagent.model import Model, Reply, Request
from sagent.providers import provider_named
from sagent.providers.access import access_from_key
from sagent.providers.keys import Keys
from sagent.session.store import Session
from sagent.testing.script import Fail, Received, Step, Turn
from sagent.testing.server import FakeProviderServer
from tests.depth import later

FIRST, SECOND, THIRD = "key-one-aaaaaaaa", "key-two-bbbbbbbb", "key-three-cccccc"
LIMIT = Fail(429, message="Rate limit reached", headers=(("retry-after", "30"),))
QUOTA = Fail(429, message="You exceeded your current quota", code="insufficient_quota")


def key_of(request: Received) -> str:
    return request.headers.get("authorization", "").removeprefix("Bearer ") or request.headers.get("x-api-key", "")


def refusing(**steps: Step) -> Callable[[Received], Step]:
    """Answers each key by its step, others with a turn."""
    by_key = {{"first": FIRST, "second": SECOND, "third": THIRD}[name]: step for name, step in steps.items()}
    return lambda request: by_key.get(key_of(request), Turn(text="Hello"))


def model_at(server: FakeProviderServer, *keys: str, provider: str = "openai-compatible", **more: object) -> Model:
    base = server.url if provider == "anthropic" else f"{server.url}/v1"
    return provider_named(provider, key=", ".join(keys), base_url=base, **more).model("m")  # pyright: ignore[reportArgumentType]


async def said(model: Model) -> Reply:
    *_, reply = [item async for item in model.stream(Request("c", (user("hi"),)))]
    assert isinstance(reply, Reply)
    return reply


@pytest.mark.parametrize("provider", ["openai-compatible", "openai", "anthropic"])
@pytest.mark.parametrize("step", [LIMIT, QUOTA, Fail(402, message="Payment required")])
async def test_next_key_takes_over_and_stays(provider: str, step: Step) -> None:
    async with FakeProviderServer(refusing(first=step)) as server:
        model = model_at(server, FIRST, SECOND, provider=provider)
        notes = [(await said(model)).notes for _ in range(3)]
    assert [key_of(request) for request in server.requests] == [FIRST, SECOND, SECOND, SECOND]
    assert all("key 1 of 2" in each[0] and "key 2 is used" in each[0] for each in notes)
    assert not any(key in str(notes) for key in (FIRST, SECOND))


async def test_keys_are_tried_once_then_error() -> None:
    async with FakeProviderServer(refusing(first=LIMIT, second=QUOTA, third=LIMIT)) as server:
        model = model_at(server, FIRST, SECOND, THIRD)
        for _ in range(2):
            with pytest.raises(ModelError) as caught:
                await said(model)
            assert caught.value.kind == "rate_limit"
    # all rest then: the one that is free again the soonest is asked when the caller tries again
    assert [key_of(request) for request in server.requests][:4] == [FIRST, SECOND, THIRD, FIRST]
    assert SECOND not in [key_of(request) for request in server.requests][3:]


@pytest.mark.parametrize("step", [Fail(400, message="no"), Fail(401), Fail(500), Fail(403)])
async def test_other_errors_are_no_reason(step: Step) -> None:
    async with FakeProviderServer(refusing(first=step)) as server:
        with pytest.raises(ModelError) as caught:
            await said(model_at(server, FIRST, SECOND))
    assert [key_of(request) for request in server.requests] == [FIRST]
    assert FIRST not in str(caught.value)


async def test_wrong_key_is_named_by_position(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", f"{FIRST},{SECOND}")
    echo = Fail(401, message=f"Incorrect API key provided: {SECOND}")
    async with FakeProviderServer(refusing(first=LIMIT, second=echo)) as server:
        model = provider_named("openai-compatible", base_url=f"{server.url}/v1").model("m")
        with pytest.raises(ModelError, match=r"Check OPENAI_COMPATIBLE_API_KEY \(key 2 of 2\)") as caught:
            await said(model)
    assert SECOND not in str(caught.value)


async def test_agent_changes_keys_without_a_wait(tmp_path: Path) -> None:
    seen: list[Event] = []
    async with FakeProviderServer(refusing(first=LIMIT)) as server:
        with Session.create(tmp_path, tmp_path) as session:
            resources = Resources(log=session.log())
            async with Agent(model_at(server, FIRST, SECOND), resources=resources) as agent:
                agent.listen(seen.append)
                for _ in range(2):
                    assert (await agent.run("hi")).content == "Hello"
    notices = [event.text for event in seen if isinstance(event, Notice)]
    assert len(notices) == 1
    assert all(part in notices[0] for part in ("key 1 of 2", "OPENAI_COMPATIBLE_API_KEY", "key 2 is used"))
    assert not [event for event in seen if isinstance(event, Retrying)]
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert written
    assert FIRST.encode() not in written
    assert SECOND.encode() not in written


@later
@pytest.mark.plugin("clouds")
async def test_sdk_sends_next_key_too() -> None:
    async with FakeProviderServer(refusing(first=LIMIT)) as server:
        provider = provider_named("openai", key=f"{FIRST}, {SECOND}", base_url=f"{server.url}/v1", transport="sdk")
        await said(provider.model("m"))
        await provider.aclose()  # or its socket is open until it is garbage
    assert [key_of(request) for request in server.requests] == [FIRST, SECOND]


def test_rested_key_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    keys, limit = Keys((FIRST, SECOND), ""), ModelError("rate_limit", "", provider="p", model="m", retry_after=30)
    assert keys.pass_on(FIRST, limit)
    assert keys.pass_on(FIRST, limit), "another call had it in its hands"
    assert keys.current == SECOND
    now[0] += 31
    assert keys.pass_on(SECOND, limit)
    assert keys.current == FIRST
    assert not keys.notes()
    assert not keys.pass_on(FIRST, limit)


@pytest.mark.parametrize(
    ("text", "keys"),
    [("a", ("a",)), (" a , b,,a ", ("a", "b")), ("", ("",)), (" ", ("",))],
)
def test_keys_are_written_with_commas(text: str, keys: tuple[str, ...]) -> None:
    access = access_from_key("acme", text, "https://x.example")
    assert (access.key, *access.others) == keys
    assert repr(access) == repr(access_from_key("acme", "", "https://x.example"))
    for wrong in ("a, b c", ",", "a,ü"):
        with pytest.raises(UsageError, match="has characters that a key cannot have"):
            access_from_key("acme", wrong, "https://x.example")


@pytest.mark.plugin("clouds")
def test_cloud_takes_one_key() -> None:
    with pytest.raises(UsageError, match="which takes one key"):
        provider_named("azure", key=f"{FIRST},{SECOND}", base_url="http://127.0.0.1:9")
