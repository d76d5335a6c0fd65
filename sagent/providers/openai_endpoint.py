"""What providers with an OpenAI-like endpoint share, whichever of its APIs they are spoken to through."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self
from urllib.parse import urlsplit

from sagent.lib.json import as_array, as_int, as_object, as_str
from sagent.model import Limits, ModelInfo
from sagent.providers.access import NO_KEY, Access, Variables, access_from_env, access_from_key
from sagent.providers.exchange import Timeouts, fetch
from sagent.providers.faults import Origin
from sagent.providers.limits import limits_of
from sagent.providers.rows import Row, built_in, row_for_url
from sagent.providers.transport import DirectTransport, Transport


class OpenAIEndpoint:
    """An endpoint, a key and the connections to it, as a row describes them. Its models share the connections."""

    row_name: ClassVar[str]

    def __init__(
        self,
        row: Row,
        access: Access,
        *,
        transport: Transport | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.row = row
        self.access = access
        self.url = api_root(access.base_url)
        self.timeouts = timeouts or Timeouts()
        self.transport: Transport = transport or DirectTransport(connect=self.timeouts.connect)

    @classmethod
    def from_env(
        cls,
        *,
        base_url: str | None = None,
        environ: Mapping[str, str] | None = None,
        transport: Transport | None = None,
        timeouts: Timeouts | None = None,
    ) -> Self:
        """By NAME_API_KEY and NAME_BASE_URL. Raises UsageError naming the variable that is missing.

        A server on this machine needs no key.
        """
        row = built_in()[cls.row_name]
        access = access_from_env(
            row.name, Variables(row.key, row.base, row.token), row.base_url, base_url=base_url, environ=environ
        )
        return cls(settled(row, access), access, transport=transport, timeouts=timeouts)

    @classmethod
    def from_key(
        cls,
        key: str,
        *,
        base_url: str | None = None,
        transport: Transport | None = None,
        timeouts: Timeouts | None = None,
    ) -> Self:
        """With a key. Raises UsageError when it cannot be one, or when there is no address."""
        row = built_in()[cls.row_name]
        access = access_from_key(row.name, key, base_url or row.base_url)
        return cls(settled(row, access), access, transport=transport, timeouts=timeouts)

    @property
    def name(self) -> str:
        """The provider's name."""
        return self.row.name

    async def models(self) -> Sequence[ModelInfo]:
        """The server's own listing. Raises ModelError."""
        data = await fetch(self.transport, f"{self.url}/models", self.headers(), self.origin(""), self.timeouts)
        listed = as_array(as_object(data).get("data")) or as_array(as_object(data).get("models")) or as_array(data)
        return tuple(self._info(as_object(entry)) for entry in listed)

    def headers(self) -> dict[str, str]:
        """What every request carries. A server on this machine that wants a key takes any."""
        return {"authorization": f"Bearer {self.access.key or NO_KEY}"}

    def origin(self, model_id: str) -> Origin:
        """Who is named in errors."""
        return Origin(self.access.name, model_id, self.access.key, self.access.variable)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.transport.aclose()

    def _info(self, entry: Mapping[str, object]) -> ModelInfo:
        model_id = as_str(entry.get("id")) or as_str(entry.get("name"))
        known = limits_of(self.name, model_id)
        top = as_object(entry.get("top_provider"))
        names = ("context_length", "context_window", "max_model_len", "max_context_length", "loaded_context_length")
        window = next((size for name in names if (size := as_int(entry.get(name)))), known.window)
        output = (
            as_int(top.get("max_completion_tokens")) or as_int(entry.get("max_completion_tokens")) or known.max_output
        )
        return ModelInfo(
            model_id, Limits(window, output), as_str(entry.get("name")) or as_str(entry.get("display_name"))
        )


def settled(row: Row, access: Access) -> Row:
    """The row to go by: the generic one takes over the quirks of a provider we know at that address."""
    from dataclasses import replace

    known = row_for_url(access.base_url) if row.name == "openai-compatible" else None
    return replace(row, quirks=known.quirks) if known else row


def api_root(base_url: str) -> str:
    """The API's root, from a base URL with or without its last path; a bare host means /v1."""
    base = base_url.rstrip("/").removesuffix("/chat/completions").removesuffix("/responses")
    return f"{base}/v1" if urlsplit(base).path in ("", "/") else base
