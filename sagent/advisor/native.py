"""The advisor that Anthropic's API asks itself, inside one request: `advisor_20260301`.

By platform.claude.com's guide to the advisor tool (2026): a beta header; `max_uses` counts per request; advice of some
advisors comes back encrypted; an unsupported pair of models is a 400; blocks in the history need the header even when
the tool is gone.
"""

from sagent.advisor.advisor import Advisor
from sagent.lib.json import JsonObject, json_freeze_object
from sagent.model import Model

BETA = "advisor-tool-2026-03-01"
TOKENS = 2_048
DEFAULT_USES = 3  # per request, by default
_PLAIN = ("claude-opus-4-6", "claude-opus-4-7", "claude-opus-4-8", "claude-sonnet-4-6")
"""Advisors whose advice is readable. That of all others is assumed to be encrypted, as the newest ones' is."""


class Native:
    """The consultations that a provider runs inside its own requests. A refused pair of models is never tried again."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._refused: set[str] = set()
        self._used = False
        self._made: tuple[tuple[str, str, int | None], JsonObject] | None = None

    def options(self, model: Model, advisor: Advisor, uses: int | None) -> JsonObject | None:
        """Return the options of a request for this advisor; None if sagent should ask it."""
        if not self._takes(model, advisor):
            return self.after(model)
        key = (model.id, advisor.model, uses)
        if self._made is None or self._made[0] != key:
            tool: dict[str, object] = {"type": "advisor_20260301", "name": "advisor"}
            tool |= {"model": advisor.model.partition("/")[2], "max_uses": uses or DEFAULT_USES, "max_tokens": TOKENS}
            tool["caching"] = {"type": "ephemeral", "ttl": "5m"}
            self._made = (key, json_freeze_object({"tools": [tool], "betas": [BETA]}))
        self._used = True
        return self._made[1]

    def after(self, model: Model) -> JsonObject | None:
        """Return the options of a request whose history contains advice."""
        return _HEADER if self._used and model.provider == "anthropic" else None

    def max_uses(self, model: Model, advisor: Advisor, uses: int | None) -> int:
        """Return how often the advisor may be asked inside one request."""
        return uses or DEFAULT_USES if self._takes(model, advisor) else 0

    def give_up(self, model: Model, reason: str) -> bool:
        """Give up a provider's own advisor that caused a refusal, and return True: sagent asks from now on."""
        if self._made is None or self._made[0][0] != model.id or "advisor" not in reason.lower():
            return False
        key = f"{model.id} {self._made[0][1]}"
        if key in self._refused:
            return False
        self._refused.add(key)
        return True

    def _takes(self, model: Model, advisor: Advisor) -> bool:
        own = (advisor.max_calls, advisor.max_usd, advisor.temperature)
        if self._mode == "client" or advisor.tools or advisor.role or any(each is not None for each in own):
            return False
        if getattr(model, "protocol", "") == "text":  # without tools in its requests it asks by a text block
            return False
        provider, _, name = advisor.model.partition("/")
        if not (model.provider == provider == "anthropic") or f"{model.id} {advisor.model}" in self._refused:
            return False
        return self._mode == "native" or name.startswith(_PLAIN)


_HEADER = json_freeze_object({"betas": [BETA]})
