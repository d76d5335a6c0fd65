"""Every recording gives the same through the official SDKs as over our own connections: sent, read, and failed."""

from pathlib import Path

import pytest

from sagent.errors import ModelError
from sagent.messages import user
from sagent.model import Reply, Request
from sagent.plugins.clouds.sdk.transport import SdkTransport
from sagent.providers import Anthropic, Google, OpenAI, OpenAICompatible
from sagent.providers.access import Access
from sagent.providers.wire.transport import DirectTransport, Transport
from tests.depth import deep, later
from tests.providers.replayed import recordings, serve

pytestmark = pytest.mark.needs("recordings")
SPEAKERS = {
    "anthropic.messages": ("anthropic", Anthropic),
    "openai.chat": ("chat", OpenAICompatible),
    "openai.responses": ("responses", OpenAI),
    "gemini.stream": ("google", Google),
    "gemini.generate": ("google", Google),
}
PARTS = [(endpoint, part) for endpoint in SPEAKERS for part in range(2)]


async def read_all(path: Path, endpoint: str, transport: Transport) -> tuple[list[object], list[object]]:
    """What is made of each exchange of a recording, and what was sent for it."""
    read: list[object] = []
    async with serve(path, order="any") as server:
        url = server.url if SPEAKERS[endpoint][0] in ("anthropic", "google") else f"{server.url}/v1"
        provider = SPEAKERS[endpoint][1].from_key("key-for-replay", base_url=url, transport=transport)
        for number, line in enumerate(server.lines):
            try:
                async for item in provider.model(line["model"] or "m").stream(Request(f"c{number}", [user("hi")])):
                    if isinstance(item, Reply):
                        read.append(item)
            except ModelError as error:
                read.append((error.kind, error.status, error.retry_after, str(error).replace(server.url, "")))
        return read, [(request["method"], request["path"], request["body"]) for request in server.received]


@later
@pytest.mark.costly
@pytest.mark.parametrize(("endpoint", "part"), PARTS)
async def test_transports_send_and_read_alike(endpoint: str, part: int) -> None:
    own, sdk = (
        DirectTransport(),
        SdkTransport(SPEAKERS[endpoint][0], "", Access("x", "http://127.0.0.1", "key-for-replay")),
    )
    compared = 0
    for path in recordings(endpoint)[part :: deep(4, len(PARTS) // len(SPEAKERS))]:
        (ours, sent), (theirs, sent_by_sdk) = (
            await read_all(path, endpoint, own),
            await read_all(path, endpoint, sdk),
        )
        assert ours == theirs, path.name
        assert sent == sent_by_sdk, path.name
        compared += len(ours)
    await own.aclose()
    await sdk.aclose()
    assert compared >= 10
