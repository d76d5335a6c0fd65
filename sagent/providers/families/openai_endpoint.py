"""Base of providers with an OpenAI-like endpoint, for both of its APIs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from sagent.lib.json import as_array, as_int, as_object, as_str
from sagent.model import ModelInfo
from sagent.providers.families.endpoint import Endpoint
from sagent.providers.limits import limits_of
from sagent.providers.listings import limits_in, prices_in
from sagent.providers.rows import row_for_url


class OpenAIEndpoint(Endpoint):
    """An endpoint that speaks one of OpenAI's APIs."""

    def _set_up(self) -> None:
        known = row_for_url(self.access.base_url) if self.name == "openai-compatible" else None
        if known:  # the generic row gets the quirks of a known provider at that address
            self.row = replace(self.row, quirks=known.quirks, headers={**known.headers, **self.row.headers})
        self.url = api_root(self.access.base_url) if self.access.base_url else ""

    async def models(self) -> Sequence[ModelInfo]:
        """Return the server's own listing. Raises ModelError."""
        data = await self.fetch(f"{self.url}/models")
        listed = as_array(as_object(data).get("data")) or as_array(as_object(data).get("models")) or as_array(data)
        return tuple(self._info(as_object(entry)) for entry in listed)

    def _info(self, entry: Mapping[str, object]) -> ModelInfo:
        model_id = as_str(entry.get("id")) or as_str(entry.get("name"))
        name = as_str(entry.get("name")) or as_str(entry.get("display_name"))
        limits = limits_in(entry, limits_of(self.name, model_id))
        weights = as_int(as_object(entry.get("meta")).get("n_params")) or None  # llama.cpp
        return ModelInfo(model_id, limits, name, prices_in(entry), weights, as_str(entry.get("owned_by")))


def api_root(base_url: str) -> str:
    """Return the API's root, from a base URL with or without its last path; a bare host means /v1."""
    base = base_url.rstrip("/").removesuffix("/chat/completions").removesuffix("/responses")
    return f"{base}/v1" if urlsplit(base).path in ("", "/") else base
