"""Calls of tools by names that no API takes: the session goes on, in every family."""

import pytest

from sagent import Agent
from sagent.testing import check_pairing
from sagent.testing.server import Call, FakeProviderServer, Turn
from tests.agent.test_cut_calls import FAMILIES, provider_of

pytestmark = pytest.mark.usefixtures("region")


@pytest.fixture
def region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.parametrize("name", ["\u0444\u0443\u043d\u043a", "a b/c!", "x" * 200, "$Bash", "Bash\n"])
@pytest.mark.parametrize("family", FAMILIES)
async def test_session_continues_after_odd_name(family: str, name: str) -> None:
    """What the provider signed was the name that the model wrote."""
    steps = [Turn(calls=[Call(name, {})]), Turn("ok"), Turn("again")]
    async with FakeProviderServer(steps) as server:
        provider, model = provider_of(family, server.url)
        async with Agent(provider.model(model)) as agent:
            assert (await agent.run("go")).content == "ok"
            assert (await agent.run("go on")).content == "again"
            check_pairing(agent.messages)
        await provider.aclose()
    assert len(server.requests) == 3
