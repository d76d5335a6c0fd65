"""Amazon Bedrock: Claude through Anthropic's own Messages API, which tells the most, and other makers' models through
Converse."""

import re
from collections.abc import Sequence
from typing import ClassVar

from sagent.model import Model, ModelInfo
from sagent.plugins.clouds.converse import Converse, levels_of
from sagent.providers.access import check_text
from sagent.providers.families.anthropic.provider import Anthropic, CloudRoute
from sagent.providers.families.endpoint import Endpoint
from sagent.providers.rows import Abilities

# Other makers' models that see images (docs.aws.amazon.com, supported models and features).
_SIGHTED = re.compile(
    r"nova-(lite|pro|premier|2)|llama4|llama3-2-(11|90)b|pixtral|mistral-large-3|qwen3-vl|gemma-3-\d\d?b"
)


def is_claude(model_id: str) -> bool:
    """Return True if an id names Claude. An ARN without a maker's name is for Converse, which serves all models."""
    return "claude" in model_id.lower()


class _Claude(Anthropic):
    site = CloudRoute("/model/{model}/invoke-with-response-stream", "bedrock-2023-05-31", betas=True, streams=False)


class Bedrock(Endpoint):
    """Models on Amazon Bedrock, with any AWS login, or AWS_BEARER_TOKEN_BEDROCK. Needs sagent[bedrock]."""

    row_name: ClassVar[str] = "bedrock"

    def _set_up(self) -> None:
        self._claude = _Claude(self.row, self.access, transport=self.transport, timeouts=self.timeouts)
        self._others = Converse(self.row, self.access, transport=self.transport, timeouts=self.timeouts)

    @staticmethod
    def abilities_of(model: str) -> Abilities | None:
        """Return the known abilities of another maker's model by its name. Those of Claude come from the family."""
        if is_claude(model):
            return None
        return Abilities(images=bool(_SIGHTED.search(model.lower())) or None, efforts=levels_of(model))

    def model(self, model_id: str) -> Model:
        """Return a model; its family follows from its id, or from the id that a row says it is like."""
        check_text("model_id", model_id)
        known = self.row.able(model_id).like or model_id
        return (self._claude if is_claude(known) else self._others).model(model_id)

    async def models(self) -> Sequence[ModelInfo]:
        """Return the service's own list of models. Raises ModelError."""
        return await self._others.models()
