"""The bus behind /v1/bus of `sagent serve`: a remote server's, or one per user in this process."""

import os
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.requests import Request
from starlette.routing import Route

from sagent.plugins.mesh.buses.http_routes import Gates, bus_routes
from sagent.plugins.mesh.buses.local import LocalBus


@asynccontextmanager
async def routes(
    options: Mapping[str, object], public_key_of: Callable[[Request], Hashable]
) -> AsyncGenerator[Sequence[Route]]:
    """Yield the routes of a bus. Raises MeshError."""
    async with AsyncExitStack() as stack:
        if url := str(options.get("bus", os.environ.get("SAGENT_BUS", ""))):
            from sagent.plugins.mesh.buses.nats import nats_bus

            shared = await stack.enter_async_context(nats_bus(url))
            gates = Gates(lambda _: shared)
        else:
            own = defaultdict[Hashable, LocalBus](LocalBus)
            gates = Gates(lambda request: own[public_key_of(request)])
        stack.push_async_callback(gates.aclose)
        yield bus_routes(gates)
