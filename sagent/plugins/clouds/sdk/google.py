"""The google-genai SDK's client: the Gemini API with a key, and Vertex AI with Google's own credentials."""

import os
from collections.abc import Mapping
from typing import cast

import google.auth
import httpx2
from google import genai
from google.genai import errors, types

from sagent.plugins.clouds.sdk.body import hooks
from sagent.plugins.clouds.sdk.client import ClientParameters, SdkClient


class GoogleClient(SdkClient):
    """The SDK's client. Raises ValueError if a login is missing."""

    def __init__(self, reach: ClientParameters) -> None:
        self._timeout = httpx2.Timeout(None, connect=reach.connect)
        self._http = httpx2.AsyncClient(timeout=self._timeout, event_hooks=hooks())
        options = types.HttpOptions(
            base_url=reach.base_url, httpx_async_client=self._http, api_version="v1" if reach.via else "v1beta"
        )
        if reach.via and not reach.key:
            client = _vertex(options)
        else:
            client = genai.Client(api_key=reach.key, vertexai=bool(reach.via), http_options=options)
        # Raw requests are a private part of the client. Its public methods parse every answer.
        self._client = client._api_client  # noqa: SLF001

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> httpx2.Response:
        client = self._client
        request = client._build_request(method.lower(), url, {})  # noqa: SLF001
        if "://" in url:
            request.url = url
        request.headers = {name.lower(): value for name, value in request.headers.items()} | dict(headers)
        request.data = body or b""
        try:
            answer = await client._async_request_once(request, stream=True, implicit_retry=False)  # noqa: SLF001
        except errors.APIError as error:
            return cast("httpx2.Response", error.response)  # pyright: ignore[reportUnknownMemberType] -- a union of theirs
        return cast("httpx2.Response", answer.response_stream)

    async def aclose(self) -> None:
        await self._http.aclose()


def _vertex(options: types.HttpOptions) -> genai.Client:
    """Open a client with the application default credentials. Without project and place, the SDK forgets them at a
    custom address."""
    project = os.environ.get("GOOGLE_CLOUD_PROJECT") or google.auth.default()[1]  # pyright: ignore[reportUnknownMemberType] -- it has no types
    if not project:
        raise ValueError("no project is known: set GOOGLE_CLOUD_PROJECT")
    location = os.environ.get("GOOGLE_CLOUD_LOCATION") or "global"
    return genai.Client(vertexai=True, project=project, location=location, http_options=options)
