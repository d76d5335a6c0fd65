"""The openai SDK's client: OpenAI with a key or a workload's identity, and Azure."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from typing import cast

import httpx2
import openai
from openai.auth import WorkloadIdentity, k8s_service_account_token_provider

from sagent.plugins.clouds.sdk.body import hooks
from sagent.plugins.clouds.sdk.client import ClientParameters, SdkClient

_SCOPE = "https://cognitiveservices.azure.com/.default"
_IDENTITY = ("OPENAI_IDENTITY_PROVIDER_ID", "OPENAI_SERVICE_ACCOUNT_ID")


class OpenAIClient(SdkClient):
    """The SDK's client. Raises OpenAIError or ValueError if a login is missing."""

    def __init__(self, reach: ClientParameters) -> None:
        self._login = ExitStack()  # the login's open resources
        self._client = _azure(reach, self._login) if reach.via == "azure" else _openai(reach)
        self._client._client.event_hooks = hooks()  # noqa: SLF001 -- of the HTTP client that it has made
        if reach.own:
            self._client.organization = self._client.project = None
            self._client._custom_headers = {}  # noqa: SLF001 -- OPENAI_CUSTOM_HEADERS, which it has no switch for
        self._timeout = httpx2.Timeout(None, connect=reach.connect)

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> httpx2.Response:
        options: openai.RequestOptions = {"headers": headers, "timeout": self._timeout, "follow_redirects": False}
        try:
            if method == "GET":
                return await self._client.get(url, cast_to=httpx2.Response, options=options)
            response = await self._client.post(
                url,
                cast_to=httpx2.Response,
                content=body,
                options=options,
                stream=True,
                stream_cls=openai.AsyncStream[object],
            )
            return cast("httpx2.Response", response)
        except openai.OAuthError:  # the answer of whoever exchanges tokens, not of the API
            raise
        except openai.APIStatusError as error:
            return error.response

    async def aclose(self) -> None:
        self._login.close()
        await self._client.close()


def _openai(reach: ClientParameters) -> openai.AsyncOpenAI:
    provider, account = map(os.environ.get, _IDENTITY)
    if reach.key is None and provider and account:
        identity = WorkloadIdentity(
            identity_provider_id=provider,
            service_account_id=account,
            provider=k8s_service_account_token_provider(
                os.environ.get("OPENAI_IDENTITY_TOKEN_FILE", "/var/run/secrets/kubernetes.io/serviceaccount/token")
            ),
        )
        return openai.AsyncOpenAI(workload_identity=identity, base_url=reach.base_url, max_retries=0)
    if reach.key is None and not os.environ.get("OPENAI_API_KEY"):
        names = ", ".join((*_IDENTITY, "OPENAI_IDENTITY_TOKEN_FILE"))
        raise ValueError(f"it finds no login for OpenAI: set the variables of workload identity ({names}), or a key")
    return openai.AsyncOpenAI(api_key=reach.key, base_url=reach.base_url, max_retries=0)


def _azure(reach: ClientParameters, login: ExitStack) -> openai.AsyncOpenAI:
    """Azure with the API version in OPENAI_API_VERSION, or with its v1 API, which has no version.

    (learn.microsoft.com, Azure OpenAI API version lifecycle)
    """
    endpoint = (reach.base_url or os.environ.get("AZURE_OPENAI_ENDPOINT", "")).rstrip("/").removesuffix("/openai/v1")
    if not endpoint:
        raise ValueError("Azure has no address: set AZURE_OPENAI_ENDPOINT, or give --base-url")
    key = reach.key or os.environ.get("AZURE_OPENAI_AD_TOKEN") or os.environ.get("AZURE_OPENAI_API_KEY")
    token = None if key else _entra(login)
    if version := os.environ.get("OPENAI_API_VERSION"):
        return openai.AsyncAzureOpenAI(
            api_key=reach.key,
            azure_ad_token_provider=token,
            azure_endpoint=endpoint,
            api_version=version,
            max_retries=0,
        )
    return openai.AsyncOpenAI(api_key=key or token, base_url=f"{endpoint}/openai/v1", max_retries=0)


def _entra(login: ExitStack) -> Callable[[], Awaitable[str]]:
    """Tokens of Entra ID from azure-identity: the identity of a service or a machine, or the login of `az`.

    They are renewed when they expire. (learn.microsoft.com, DefaultAzureCredential; AZURE_TOKEN_CREDENTIALS chooses)
    """
    try:
        from azure.identity import DefaultAzureCredential, get_bearer_token_provider
    except ImportError as error:
        from sagent.lib.installed import install_command

        raise ValueError(
            "Azure has no key: set AZURE_OPENAI_API_KEY, or AZURE_OPENAI_AD_TOKEN to a token of Entra ID; or, for the "
            f"login of this machine or of az, {install_command('azure', 'azure-identity')}"
        ) from error
    credential = DefaultAzureCredential()
    login.callback(credential.close)
    renewed = get_bearer_token_provider(credential, _SCOPE)

    async def token() -> str:
        return await asyncio.to_thread(renewed)

    return token
