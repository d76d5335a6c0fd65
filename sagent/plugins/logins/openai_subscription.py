"""OpenAI through a ChatGPT plan: the login of the `codex` program, and the Responses endpoint that it uses."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self

from sagent.errors import ModelError, UsageError
from sagent.lib.json import as_array, as_int, as_object, as_str
from sagent.model import ModelInfo, ModelLimits, Request
from sagent.plugins.logins.codex_login import LOGIN, Login, LoginFile
from sagent.plugins.logins.renewal import PlanModel, Renewal
from sagent.providers.access import access_from_key
from sagent.providers.families.endpoint import GivenTransport
from sagent.providers.families.model import Outgoing
from sagent.providers.families.openai_models import cache_key
from sagent.providers.families.responses.provider import ResponsesModel, ResponsesProvider
from sagent.providers.limits import limits_of
from sagent.providers.rows import Row
from sagent.providers.wire.exchange import Timeouts
from sagent.providers.wire.faults import Origin

NAME = "openai-subscription"
BASE_URL = "https://chatgpt.com/backend-api/codex"

_VERSION = "0.169.0"  # of codex, for its list of models, which leaves out those too new for a version
_WINDOW_TOKENS = 272_000  # tokens: the window in plans, for any model (codex' own list, 0.169.0)
_MAX_OUTPUT_TOKENS = 128_000  # tokens, of every model that the plan offers
_INSTRUCTIONS = "You are a helpful assistant."  # the endpoint refuses a request without any


class OpenAISubscriptionModel(PlanModel["ResponsesProvider", "OpenAISubscription"], ResponsesModel):
    """One model of a ChatGPT plan."""

    def __init__(self, provider: "OpenAISubscription", model_id: str) -> None:
        super().__init__(provider, model_id)
        self.plan = provider
        known = limits_of("openai", model_id)
        most = known.max_output or _MAX_OUTPUT_TOKENS
        self._limits = ModelLimits(
            min(known.window or _WINDOW_TOKENS, _WINDOW_TOKENS), most, most
        )  # it accepts no output limit

    def _fit(self, request: Request) -> tuple[Request, tuple[str, ...]]:
        request, notes = super()._fit(request)
        return request if request.system.strip() else replace(request, system=_INSTRUCTIONS), notes

    def _prepare(self, request: Request) -> Outgoing:
        session = cache_key(request.conversation)
        return replace(super()._prepare(request), headers={"session-id": session, "thread-id": session})

    def _limit(self, request: Request) -> tuple[int | None, tuple[str, ...]]:
        if request.max_output is None or request.conversation in self.plan.noted:
            return None, ()
        self.plan.noted.add(request.conversation)
        return None, (f"a ChatGPT plan takes no output limit: that of {request.max_output} tokens was left out",)


class OpenAISubscription(ResponsesProvider):
    """The person's ChatGPT plan, through the login that `codex login` saved. Nothing is billed to a key."""

    def __init__(
        self,
        login: LoginFile,
        *,
        base_url: str | None = None,
        transport: GivenTransport = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        row = Row(NAME, family="responses", base_url=BASE_URL, models=())
        way = None if isinstance(transport, str) else transport
        super().__init__(row, access_from_key(NAME, "", base_url or BASE_URL), transport=way, timeouts=timeouts)
        self._file = login
        self.renewal = Renewal(login.read(), self._renew, LOGIN)
        self.noted: set[str] = set()  # conversations with a reported omission

    @classmethod
    def from_env(
        cls,
        *,
        base_url: str | None = None,
        auth: str | None = None,
        environ: Mapping[str, str] | None = None,
        transport: GivenTransport = None,
        timeouts: Timeouts | None = None,
    ) -> Self:
        """Use the login in CODEX_HOME or ~/.codex. Raises UsageError with a remedy if there is none, and for another
        `auth`."""
        if auth in ("key", "bearer"):
            return cls.from_key("", base_url=base_url)
        login = LoginFile.find(os.environ if environ is None else environ)
        return cls(login, base_url=base_url, transport=transport, timeouts=timeouts)

    @classmethod
    def from_key(
        cls,
        key: str,
        *,
        base_url: str | None = None,
        auth: str | None = None,
        transport: GivenTransport = None,
        timeouts: Timeouts | None = None,
    ) -> Self:
        """Raise UsageError: a plan has a login and no key."""
        raise UsageError(f"{NAME} takes no key: it uses the login of the program `codex`. With a key, use openai.")

    def model(self, model_id: str) -> OpenAISubscriptionModel:
        return OpenAISubscriptionModel(self, model_id)

    async def models(self) -> Sequence[ModelInfo]:
        """Return the models that the plan offers. Raises ModelError."""
        await self.renewal.fresh("")
        data = as_object(await self.fetch(f"{self.url}/models?client_version={_VERSION}"))
        rows = [as_object(row) for row in as_array(data.get("models"))]
        return tuple(_info(row) for row in rows if as_str(row.get("visibility"), "list") == "list")

    def headers(self) -> dict[str, str]:
        account = {"chatgpt-account-id": self.renewal.login.account} if self.renewal.login.account else {}
        token = {"authorization": f"Bearer {self.renewal.login.access}"}
        return {**token, **account, "originator": "sagent", "openai-beta": "responses=experimental"}

    def origin(self, model_id: str) -> Origin:
        return Origin(NAME, model_id, self.renewal.login.access)

    def hint(self, error: ModelError) -> str:
        return ""

    async def _renew(self, stale: Login, model_id: str) -> Login:
        return await self._file.renew(stale, self.transport, self.origin(model_id))

    async def aclose(self) -> None:
        """Close the connections, after any renewal in progress."""
        await self.renewal.aclose()
        await super().aclose()


def _info(row: Mapping[str, object]) -> ModelInfo:
    model_id = as_str(row.get("slug"))
    limits = ModelLimits(as_int(row.get("context_window")) or _WINDOW_TOKENS, limits_of("openai", model_id).max_output)
    return ModelInfo(model_id, limits, as_str(row.get("display_name")))
