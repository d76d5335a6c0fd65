"""The anthropic SDK's clients: the API itself with the logins that the SDK finds, Bedrock, Foundry, Vertex AI."""

from collections.abc import AsyncIterator, Mapping
from importlib import import_module
from typing import cast

import anthropic
import httpx2
from anthropic._types import Omit
from anthropic.lib.bedrock import AsyncAnthropicBedrock
from anthropic.lib.vertex import AsyncAnthropicVertex

from sagent.plugins.clouds.sdk.body import hooks
from sagent.plugins.clouds.sdk.client import ClientParameters, SdkClient

_Client = anthropic.AsyncAnthropic | AsyncAnthropicBedrock | AsyncAnthropicVertex


class AnthropicClient(SdkClient):
    """Client of the SDK, chosen by the cloud's name. Raises AnthropicError or ValueError if a login is missing."""

    def __init__(self, reach: ClientParameters) -> None:
        self._client = _open(reach)
        self._client._client.event_hooks = hooks()  # noqa: SLF001 -- of the HTTP client that it has made
        self._own_key = reach.key is not None and not reach.via
        if reach.own:
            self._client._custom_headers = {}  # noqa: SLF001 -- ANTHROPIC_CUSTOM_HEADERS, which it has no switch for
        self._timeout = httpx2.Timeout(None, connect=reach.connect)

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> httpx2.Response:
        """Make one request. Only the client can fill the place in its address."""
        if "{project}" in url:
            url = await self._placed(url)
        if "{control}" in url:  # Bedrock's own address, next to that of its models
            own = str(self._client.base_url).replace("//bedrock-runtime.", "//bedrock.", 1).rstrip("/")
            url = url.replace("{control}", own)
        held: dict[str, str | Omit] = dict(headers)
        if self._own_key and "authorization" not in headers:
            held["authorization"] = anthropic.omit  # our own header has the key, where all services of this kind look
        try:
            return await self._request(method, url, held, body)
        except anthropic.APIStatusError as error:
            return error.response

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str | Omit], body: bytes | None
    ) -> httpx2.Response:
        options: anthropic.RequestOptions = {"headers": headers, "timeout": self._timeout, "follow_redirects": False}
        if method == "GET":
            return await self._client.get(url, cast_to=httpx2.Response, options=options)
        kind = anthropic.AsyncStream[object]
        response = await self._client.post(
            url, cast_to=httpx2.Response, content=body, options=options, stream=True, stream_cls=kind
        )
        return cast("httpx2.Response", response)

    def decode(self, response: httpx2.Response) -> AsyncIterator[bytes]:
        """Yield the body; Bedrock's event stream as the events that it carries."""
        if "vnd.amazon.eventstream" in response.headers.get("content-type", ""):
            from sagent.plugins.clouds.sdk.eventstream import server_sent

            return server_sent(response.aiter_bytes())
        return super().decode(response)

    async def aclose(self) -> None:
        await self._client.close()

    async def _placed(self, url: str) -> str:
        client = self._client
        assert isinstance(client, AsyncAnthropicVertex)
        if not client.project_id:
            await client._ensure_access_token()  # noqa: SLF001 -- the project is known with the credentials only
        if not client.project_id:
            raise ValueError("no project is known: set ANTHROPIC_VERTEX_PROJECT_ID")
        return url.replace("{project}", client.project_id).replace("{region}", client.region)


def _open(reach: ClientParameters) -> _Client:
    match reach.via:
        case "bedrock":
            import_module("botocore.eventstream")  # the answer needs it: check before the call costs money
            return AsyncAnthropicBedrock(api_key=reach.key, max_retries=0, base_url=reach.base_url)
        case "vertex":
            return AsyncAnthropicVertex(access_token=reach.key, max_retries=0, base_url=reach.base_url)
        case "foundry" if reach.base_url:
            return anthropic.AsyncAnthropicFoundry(api_key=reach.key, base_url=reach.base_url, max_retries=0)
        case "foundry":
            return anthropic.AsyncAnthropicFoundry(api_key=reach.key, max_retries=0)
        case _:
            client = anthropic.AsyncAnthropic(api_key=reach.key, base_url=reach.base_url, max_retries=0)
            if not (reach.key or client.api_key or client.auth_token or client.credentials):
                raise ValueError(
                    "it finds no login for Anthropic: set ANTHROPIC_PROFILE, or the variables of workload identity "
                    "(ANTHROPIC_FEDERATION_RULE_ID, ANTHROPIC_ORGANIZATION_ID, ANTHROPIC_IDENTITY_TOKEN_FILE), or a key"
                )
            return client
