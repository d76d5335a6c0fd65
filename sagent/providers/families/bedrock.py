"""Amazon Bedrock: Claude by Anthropic's own Messages, which say the most, and other makers' models by Converse."""

from collections.abc import Sequence
from typing import ClassVar

from sagent.model import Model, ModelInfo
from sagent.providers.access import check_text
from sagent.providers.families.anthropic.provider import Anthropic
from sagent.providers.families.converse.provider import Converse
from sagent.providers.families.endpoint import Endpoint


def is_claude(model_id: str) -> bool:
    """Whether an id names Claude. An ARN that names nobody is for Converse, which all models speak."""
    return "claude" in model_id.lower()


class Bedrock(Endpoint):
    """Models on Amazon Bedrock, with any AWS login, or AWS_BEARER_TOKEN_BEDROCK. Needs sagent[bedrock]."""

    row_name: ClassVar[str] = "bedrock"

    def _set_up(self) -> None:
        self._claude = Anthropic(self.row, self.access, transport=self.transport, timeouts=self.timeouts)
        self._others = Converse(self.row, self.access, transport=self.transport, timeouts=self.timeouts)

    def model(self, model_id: str) -> Model:
        """A model; its family follows from its id, or from the id that a row says it is like."""
        check_text("model_id", model_id)
        known = self.row.able(model_id).like or model_id
        return (self._claude if is_claude(known) else self._others).model(model_id)

    async def models(self) -> Sequence[ModelInfo]:
        """The service's own list of models. Raises ModelError."""
        return await self._others.models()
