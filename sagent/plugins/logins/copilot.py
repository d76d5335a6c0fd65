"""GitHub Copilot: the models of a plan, each through one of three APIs."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Self, TypeAlias, TypeVar

from sagent.errors import ModelError, UsageError
from sagent.lib.json import EMPTY, JsonObject, as_array, as_int, as_object, as_str
from sagent.lib.money import EXACT, as_usd
from sagent.messages import Image
from sagent.model import EFFORTS, REPLY_ROOM, ModelInfo, ModelLimits, Request
from sagent.plugins.logins.copilot_login import HEADERS, LOG_IN, NAME, Account, CopilotLogin, list_models
from sagent.plugins.logins.renewal import PlanModel, Renewal
from sagent.providers.access import access_from_key, check_text, check_url
from sagent.providers.families.anthropic.provider import Anthropic, AnthropicModel, ThinkingParameters
from sagent.providers.families.chat.provider import ChatModel, ChatProvider
from sagent.providers.families.endpoint import Endpoint, GivenTransport
from sagent.providers.families.media import media_in
from sagent.providers.families.model import E_co, Outgoing
from sagent.providers.families.openai_models import gpt_version
from sagent.providers.families.responses.provider import ResponsesModel, ResponsesProvider
from sagent.providers.keys import Keys
from sagent.providers.limits import limits_like
from sagent.providers.rows import Abilities, Quirks, Row
from sagent.providers.wire.exchange import Call, Timeouts
from sagent.providers.wire.faults import Origin
from sagent.providers.wire.transport import DirectTransport

_NOWHERE = "https://api.githubcopilot.com"  # replaced by the address in a token
_MILLION_CENTS = 4  # as a power of ten, in USD; an AI credit is a cent (docs.github.com, Copilot, usage-based billing)
_ENDPOINTS = {"anthropic": "/v1/messages", "responses": "/responses", "chat": "/chat/completions"}
_QUIRKS = Quirks(effort="level", reasoning_back="same", structured="json_schema")
E = TypeVar("E", bound=Endpoint)


class _PlanModel(PlanModel[E_co, "Copilot"]):
    """A model of one of the families."""

    def _call(self, request: Request, outgoing: Outgoing) -> Call:
        headers = {**outgoing.headers, "X-Initiator": "user" if _is_asked(request) else "agent"}
        if any(isinstance(part, Image) for part in media_in(request.messages)):
            headers["Copilot-Vision-Request"] = "true"
        url = outgoing.url.replace(_NOWHERE, self.plan.address, 1)
        return super()._call(request, replace(outgoing, url=url, headers=headers))


class _ChatModel(_PlanModel["ChatProvider"], ChatModel): ...


class _ResponsesModel(_PlanModel["ResponsesProvider"], ResponsesModel): ...


class _MessagesModel(_PlanModel["Anthropic"], AnthropicModel):
    """Claude. Its proxy passes on beta features that it knows: others are left out once they were refused."""

    _bare = False

    def _thought(self, request: Request, max_tokens: int) -> tuple[ThinkingParameters, Sequence[str]]:
        thought, betas = super()._thought(request, max_tokens)
        if not self._bare:
            return thought, betas
        thinking = as_object(thought.members.get("thinking"))
        kept = {name: value for name, value in thinking.items() if name != "block_binding"}
        members = {**thought.members, **({"thinking": kept} if kept else {})}
        return replace(thought, members=members, betas=()), ()

    def _learn(self, error: ModelError, request: Request) -> bool:
        refused = error.kind == "invalid_request" and re.search("beta|block_binding", str(error.args[0]))
        if not refused or self._bare or not super()._thought(request, 1_024)[1]:
            return False
        self._bare = True
        return True


CopilotModel: TypeAlias = _ChatModel | _ResponsesModel | _MessagesModel


class Copilot:
    """A plan of GitHub Copilot, through the login that `sagent login copilot` saved, or a GitHub token in
    COPILOT_GITHUB_TOKEN."""

    name = NAME

    def __init__(
        self,
        account: Account,
        *,
        base_url: str | None = None,
        transport: GivenTransport = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self._account = account
        self._base_url = check_url(NAME, base_url) if base_url else ""
        self._timeouts = timeouts or Timeouts()
        way = None if isinstance(transport, str) else transport
        self._transport = way or DirectTransport(connect=self._timeouts.connect)
        self.renewal = Renewal(account.login, self._renew, LOG_IN)
        self._chat = self._side(ChatProvider, "chat")
        self._responses = self._side(ResponsesProvider, "responses")
        self._messages = self._side(Anthropic, "anthropic")
        self._chat.url = self._responses.url = _NOWHERE  # without /v1
        self._responses.proven = True

    def _side(self, kind: type[E], family: str) -> E:
        row = Row(NAME, family=family, base_url=_NOWHERE, headers=HEADERS, quirks=_QUIRKS)
        access = access_from_key(NAME, "", _NOWHERE)
        side = kind(row, access, transport=self._transport, timeouts=self._timeouts)
        side.keys, side.counts = _Tokens(self.renewal), False
        return side

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
        """Use COPILOT_GITHUB_TOKEN, otherwise the saved login, whatever `auth` is. Raises UsageError with a remedy if
        there is none."""
        account = Account.find(os.environ if environ is None else environ)
        return cls(account, base_url=base_url, transport=transport, timeouts=timeouts)

    @classmethod
    def from_credentials(
        cls, *, base_url: str | None = None, environ: Mapping[str, str] | None = None, timeouts: Timeouts | None = None
    ) -> Self:
        """Use the same login as `from_env`."""
        return cls.from_env(base_url=base_url, environ=environ, timeouts=timeouts)

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
        """Use the token of a GitHub account, which is not saved. Raises UsageError for an invalid one."""
        access_from_key(NAME, key, _NOWHERE)
        if not key.strip():
            raise UsageError(f"The token for {NAME} is empty: is the variable set that it was read from?")
        account = Account(CopilotLogin(key.strip()))
        return cls(account, base_url=base_url, transport=transport, timeouts=timeouts)

    @property
    def address(self) -> str:
        """The base URL of calls: the token's, unless the caller gave one."""
        return self._base_url or self.renewal.login.api

    def model(self, model_id: str) -> CopilotModel:
        """Return a model by id, through the API in the plan's list; otherwise through the one that its name
        suggests."""
        check_text("model_id", model_id)
        rows = self.renewal.login.models
        entry = next((row for row in rows if row.get("id") == model_id), EMPTY)
        abilities = tuple([_abilities(row) for row in rows])
        for side in (self._chat, self._responses, self._messages):
            side.row = replace(side.row, abilities=abilities)
        match _family(model_id, entry):
            case "anthropic":
                model: CopilotModel = _MessagesModel(self._messages, model_id)
            case "responses":
                model = _ResponsesModel(self._responses, model_id)
            case _:
                model = _ChatModel(self._chat, model_id)
        model.plan = self
        model.resize(_limits(entry, model_id))
        return model

    async def models(self) -> Sequence[ModelInfo]:
        """Return the plan's models that can be used. Raises ModelError."""
        login = await self.renewal.fresh("")
        rows = await list_models(replace(login, api=self.address), self._transport, self._origin(""))
        return tuple([_info(row) for row in rows if _is_offered(row)])

    async def aclose(self) -> None:
        """Close the connections, after any renewal in progress."""
        await self.renewal.aclose()
        await self._transport.aclose()

    async def _renew(self, stale: CopilotLogin, model_id: str) -> CopilotLogin:
        return await self._account.renew(stale, self._transport, self._origin(model_id))

    def _origin(self, model_id: str) -> Origin:
        return Origin(NAME, model_id, self.renewal.login.access)


class _Tokens(Keys):
    """The current access token, in the role of other providers' keys."""

    def __init__(self, renewal: Renewal[CopilotLogin]) -> None:
        super().__init__((), "")
        self._renewal = renewal

    @property
    def current(self) -> str:
        return self._renewal.login.access


def _family(model_id: str, entry: Mapping[str, object]) -> str:
    """Return the best family for a model: its maker's own protocol, if the list allows it."""
    served = [as_str(supported_endpoint) for supported_endpoint in as_array(entry.get("supported_endpoints"))]
    if "claude" in model_id:
        likes = ("anthropic", "chat", "responses")
    elif "codex" in model_id or gpt_version(model_id) >= (5, 1):
        likes = ("responses", "chat", "anthropic")
    else:
        likes = ("chat", "responses", "anthropic")
    return next((family for family in likes if _ENDPOINTS[family] in served), likes[0])


def _abilities(row: Mapping[str, object]) -> Abilities:
    """Return a model's abilities according to the list."""
    able = as_object(as_object(row.get("capabilities")).get("supports"))
    levels = as_array(able.get("reasoning_effort"))
    images, tools = (able.get(name) for name in ("vision", "tool_calls"))
    return Abilities(
        as_str(row.get("id")),
        efforts=tuple([level for level in EFFORTS if levels.count(level)]) or None,
        images=images if isinstance(images, bool) else None,
        tools=tools if isinstance(tools, bool) else None,
    )


def _limits(row: Mapping[str, object], model_id: str) -> ModelLimits:
    """Return a model's sizes. The list bounds the prompt too: the window is as much as leaves it so large."""
    sizes = as_object(as_object(row.get("capabilities")).get("limits"))
    known = limits_like(model_id)
    output = as_int(sizes.get("max_output_tokens")) or known.max_output
    window = as_int(sizes.get("max_context_window_tokens")) or known.window
    if prompt := as_int(sizes.get("max_prompt_tokens")):
        most = prompt + min(output or REPLY_ROOM, REPLY_ROOM)
        window = min(window or most, most)
    return ModelLimits(window, output)


def _is_offered(row: Mapping[str, object]) -> bool:
    """Return True if a model is for conversations and not disabled."""
    kind = as_str(as_object(row.get("capabilities")).get("type"), "chat")
    return kind == "chat" and as_object(row.get("policy")).get("state") != "disabled"


def _info(row: JsonObject) -> ModelInfo:
    """Return a row of the list. Prices are in credits; older plans count requests, of which a model takes several."""
    billing, model_id = as_object(row.get("billing")), as_str(row.get("id"))
    name, times = as_str(row.get("name")) or model_id, billing.get("multiplier")
    if isinstance(times, int | float) and "token_prices" not in billing:
        name += f" (premium requests: {times:g})" if times else " (included)"
    return ModelInfo(model_id, _limits(row, model_id), name, _usd(as_object(billing.get("token_prices"))))


def _usd(prices: Mapping[str, object]) -> Mapping[str, Decimal]:
    """USD per million tokens, of credits per batch of tokens."""
    batch, credit = as_int(prices.get("batch_size")), as_object(prices.get("default"))
    names = {"input": "input_price", "cache_read": "cache_price", "output": "output_price"}
    named = {bucket: as_usd(credit.get(name)) for bucket, name in names.items()}
    return {
        bucket: EXACT.divide(price.scaleb(_MILLION_CENTS, EXACT), batch)
        for bucket, price in named.items()
        if batch > 0 and price is not None
    }


def _is_asked(request: Request) -> bool:
    """Return True if a person wrote the last message (not a tool, a job or another agent) to the agent itself: the
    conversations of its advisor and compactor have names derived from its own."""
    last = request.messages[-1] if request.messages else None
    asked = last is not None and last.role == "user" and not (last.sender or last.results)
    return asked and request.conversation.count(":") < 2
