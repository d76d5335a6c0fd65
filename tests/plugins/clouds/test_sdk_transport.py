"""The transport through official SDKs, where no provider is asked."""

import pytest

from sagent.plugins.clouds.sdk.transport import SdkTransport
from sagent.providers.access import Access
from sagent.providers.wire.faults import ExchangeFailed
from tests.providers.test_transport import OK, fetch


async def test_surplus_answer_never_reused(raw_server) -> None:
    """Two answers at once: the second would be read, and billed, as that of another request."""
    stale = OK.replace(b"ok", b"no")
    async with raw_server([OK], [OK + stale], [OK], [OK + b"junk"], [OK]) as server:
        transport = SdkTransport("openai", "", Access("k", server.url))
        for expected in (1, 1, 2, 2, 3):
            assert await fetch(transport, server.url) == (200, b"ok")
            assert server.connections == expected
        await transport.aclose()


async def test_sdk_reports_same_failures(raw_server, unused_tcp_port) -> None:
    never = SdkTransport("openai", "", Access("acme", f"http://localhost:{unused_tcp_port}", "k"))
    with pytest.raises(ExchangeFailed, match=f"localhost:{unused_tcp_port}.*Start the server there") as caught:
        await never.post(f"http://localhost:{unused_tcp_port}/v1/x", {}, [b"{}"])
    assert (caught.value.kind, caught.value.final, caught.value.sent) == ("network", True, False)
    async with raw_server([None], [OK]) as server:
        lost = SdkTransport("openai", "", Access("acme", server.url, "k"))
        with pytest.raises(ExchangeFailed) as caught:
            await lost.post(f"{server.url}/v1/x", {}, [b"{}"])
        assert (caught.value.kind, caught.value.sent, len(server.requests)) == ("network", True, 1)
        await lost.aclose()
    await never.aclose()
    async with raw_server([OK]) as server:
        once = SdkTransport("openai", "", Access("acme", server.url, "k"))
        answer = await once.post(f"{server.url}/v1/x", {}, [b"{}"])
        assert b"".join([chunk async for chunk in answer.chunks]) == b"ok"
        await answer.aclose()
    with pytest.raises(ExchangeFailed) as caught:
        await once.post(f"{server.url}/v1/x", {}, [b"{}"])
    assert (caught.value.kind, caught.value.final) == ("network", False)
    await once.aclose()
