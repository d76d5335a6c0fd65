"""The mesh's bus. Only this module and those it is built on import nats-py."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.plugins.mesh import names
from sagent.plugins.mesh.buckets import Bucket, Store
from sagent.plugins.mesh.connection import CALL_TIMEOUT_SECONDS, new_client, parse_bus_url, public_key_of, refusal
from sagent.plugins.mesh.errors import Refused, Unavailable
from sagent.plugins.mesh.layout import every_stream
from sagent.plugins.mesh.streams import Streams

if TYPE_CHECKING:
    from nats.js.api import StreamConfig

_OLDEST = (2, 11)  # the first server with a time to live for each message
_UNSYNCED = (
    "This bus was not started by `sagent bus`: an acknowledged message is certain to be on its disk only if its "
    "configuration has `sync_interval: always` for jetstream, or if its streams have several replicas."
)


class JetStream(Streams):
    """A connection to the bus. Open it with `connected`."""

    def bucket(self, name: str) -> Bucket:
        return Bucket(self, name)

    def store(self, name: str) -> Store:
        return Store(self, name)

    async def ensure(self) -> list[str]:
        """Make the streams and buckets that are missing. Returns what its user should be warned of. Raises Refused."""
        version = self._client.connected_server_version
        if (version.major, version.minor) < _OLDEST:
            raise Refused(f"The bus runs nats-server {version.major}.{version.minor}; sagent needs 2.11 or later.")
        server = self._client._server_info  # noqa: SLF001 -- nats-py shows it nowhere else
        copies = names.REPLICAS if server.get("cluster") == names.CLUSTER else 1
        wanted = [replace(config, num_replicas=copies) for config in every_stream()]
        for config in filter(None, await asyncio.gather(*map(self._ensure, wanted))):
            await self._update(config)
        if str(server.get("server_name", "")).startswith(names.SYNCED):
            return []
        return [_UNSYNCED]

    async def _ensure(self, config: "StreamConfig") -> "StreamConfig | None":
        """Make a stream if it is missing; return it if an earlier version made it otherwise."""
        from nats.js.errors import APIError, NotFoundError

        try:
            found = await self.call(lambda: self.context.stream_info(str(config.name)), CALL_TIMEOUT_SECONDS)
            if (found.config.max_age or 0.0) != (config.max_age or 0.0):
                return replace(config, num_replicas=found.config.num_replicas)
        except NotFoundError:
            try:
                add = self.context.add_stream  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType] -- its options
                await self.call(
                    lambda: add(config), 6 * CALL_TIMEOUT_SECONDS
                )  # servers of a new cluster find each other first
            except APIError as error:
                raise refusal(error) from error
            except Refused:
                text = (
                    "This bus has no streams yet, and this user may not make them: connect a node first (sagent node)."
                )
                raise Refused(text) from None
        return None

    async def _update(self, config: "StreamConfig") -> None:
        """Change a stream, if this user may: by itself, because a refusal does not name the call."""
        from nats.js.errors import APIError

        update = self.context.update_stream  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType] -- its options
        with suppress(Refused, APIError):
            await self.call(lambda: update(config), CALL_TIMEOUT_SECONDS)


@asynccontextmanager
async def connected(
    url: str, *, name: str = "sagent", timeout: float = CALL_TIMEOUT_SECONDS
) -> AsyncGenerator[JetStream]:
    """Connect to a bus, and disconnect with the block. Raises UsageError, Refused, and Unavailable after `timeout`."""
    try:
        from nats.errors import Error
    except ImportError:
        from sagent.lib.installed import install_command
        from sagent.plugins.mesh import PACKAGES

        raise UsageError(f"A bus needs packages that are not installed: {install_command('mesh', PACKAGES)}") from None
    addresses, options = parse_bus_url(url)
    bus = JetStream(new_client(), public_key_of(options))
    where = ", ".join(address.rpartition("@")[2] for address in addresses)
    try:
        try:
            async with asyncio.timeout(timeout):
                await bus.connect(addresses, name, options)
        except (TimeoutError, ConnectionRefusedError) as error:
            said = str(bus.problem or error) or "no answer"
            raise Unavailable(f"There is no bus at {where}: {said}. To start one: sagent bus") from None
        except (Error, ssl.SSLError) as error:
            raise Refused(f"The bus at {where} does not admit this user: {error}") from None
        yield bus
    finally:
        await bus.aclose()
