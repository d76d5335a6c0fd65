"""The web access that tools share: the gateway, the rate, the cache, and the hosts that may be reached."""

import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_int, as_str
from sagent.lib.names import path_of
from sagent.plugins.gateway.address import WebAddress, parse_address
from sagent.plugins.gateway.gateway import Gateway, WebRequest, WebResponse
from sagent.plugins.web import WEB
from sagent.plugins.web.cache import FetchCache
from sagent.plugins.web.rate import HostRate
from sagent.sandbox.hosts import Entry
from sagent.tool import RunContext

if TYPE_CHECKING:
    from sagent.app.builder import AgentBuilder

Service = Mapping[str, str]
"""Settings of one service: `base_url`, `api_key`, `email`, `model`."""

_BUSY = (429, 503)
_KEPT_HEADERS = ("content-type", "last-modified")


def default_directory() -> Path:
    """Return the default directory for rates and pages: this person's cache."""
    return path_of(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "sagent" / "web"


def access_of(builder: "AgentBuilder") -> "WebAccess":
    """Return the shared web access of an agent's tools, with the services in its settings."""
    services = cast("Mapping[str, Service]", builder.settings.of(WEB))
    return WebAccess((), builder.settings.state_dir / "web", services)


@dataclass(frozen=True, slots=True)
class WebAccess:
    """The web access that tools share. `allow_hosts` are reachable although they are not public: "localhost:3000",
    "intranet.corp:443".

    Processes that share `directory` keep a common rate. `services` are configured by name: those for search and papers,
    and "reader", whose `model` answers questions about pages. `interval` is in seconds, between two requests to one
    host; `gateway` makes the connections, and accepts a resolver for tests.
    """

    allow_hosts: tuple[str, ...] = ()
    directory: Path = field(default_factory=default_directory)
    services: Mapping[str, Service] = field(default_factory=dict[str, Service], repr=False)
    interval: float = 0.5
    gateway: Gateway = field(default_factory=Gateway, repr=False)

    @property
    def rate(self) -> HostRate:
        return HostRate(self.directory / "rate")

    @property
    def cache(self) -> FetchCache:
        return FetchCache(self.directory / "cache")

    def service(self, name: str) -> Service:
        return self.services.get(name, {})

    def entries(self, run: RunContext, address: WebAddress) -> tuple[Entry, ...]:
        """Return the hosts that may be reached in addition to public ones: those listed here, those in the policy's
        rules, and this machine or a private address if the policy has judged exactly that call."""
        workspace = run.workspace
        names = list(self.allow_hosts)
        if workspace.profile is not None:
            names += workspace.profile(workspace).domains
            if address.endpoint.must_be_named and run.effect is not None:  # a policy lets it through only by name
                names += [need.target for need in run.effect.needs]
        return tuple(map(Entry.parse, names))

    async def fetch(
        self,
        request: WebRequest,
        run: RunContext,
        *,
        interval: float | None = None,
        alone: bool = False,
        fresh: float = 0.0,
        seconds: float | None = None,
        named: bool = False,
    ) -> WebResponse:
        """Send a request in its turn, or return a cached answer to a GET from a public address, no older than `fresh`
        seconds. The answer may take `seconds`. `named`: the person has set the address, which may be on this machine.
        Raises ToolError."""
        key = f"{request.method} {request.address} {request.headers.get('accept', '')}"
        if fresh and (found := self.cache.get(key, fresh=fresh)) is not None:
            return _kept(request.address, *found)
        pause = self.interval if interval is None else interval
        endpoint = request.address.endpoint
        own = (Entry(endpoint.host, endpoint.port),) if named else ()
        turn = self.rate.turn(str(endpoint.host), pause, alone=alone)
        async with nullcontext() if endpoint.must_be_named else turn:  # one's own server has no rate limit
            response = await self.gateway.fetch(request, lambda: (*own, *self.entries(run, request.address)), seconds)
        if response.status in _BUSY and response.headers.get("retry-after", "").isdecimal():
            self.rate.back_off(str(endpoint.host), float(response.headers["retry-after"]))
        if fresh and _may_be_kept(request, response):
            headers = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
            about: dict[str, object] = {
                "url": str(response.address),
                "status": response.status,
                "headers": headers,
                "cut": response.cut,
            }
            self.cache.put(key, about, response.body)
        return response


def _may_be_kept(request: WebRequest, response: WebResponse) -> bool:
    fine = request.method == "GET" and response.status == 200 and response.public and response.moved is None
    return fine and "no-store" not in response.headers.get("cache-control", "").lower()


def _kept(address: WebAddress, members: Mapping[str, object], body: bytes) -> WebResponse:
    headers = cast("Mapping[str, str]", members.get("headers", {}))
    address = parse_address(as_str(members.get("url"), str(address)))
    return WebResponse(address, as_int(members.get("status"), 200), headers, body, cut=bool(members.get("cut")))
