"""The proxy of sandboxed commands, with requests that no client of ours would send."""

from sagent.plugins.network.proxy import Proxy
from tests.strict_http import UNCLEAR, exchange


async def test_proxy_of_commands_refuses_them() -> None:
    proxy = Proxy()
    port = await proxy.listen_on_loopback()
    try:
        for name in ("both", "folded coding", "bare LF within", "NUL"):
            data = UNCLEAR[name].replace(b" / ", b" http://example.org/ ")
            assert (await exchange(port, data)).startswith(b"HTTP/1.1 400 "), name
    finally:
        await proxy.aclose()
