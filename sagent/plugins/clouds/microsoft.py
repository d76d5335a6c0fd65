"""OpenAI's models on Azure, and Claude on Microsoft Foundry."""

from typing import ClassVar

from sagent.providers.families.anthropic.provider import Anthropic
from sagent.providers.families.responses.provider import ResponsesProvider
from sagent.providers.families.schemas import CHAT


class Azure(ResponsesProvider):
    """OpenAI's models on Azure: AZURE_OPENAI_ENDPOINT, and AZURE_OPENAI_API_KEY or AZURE_OPENAI_AD_TOKEN.

    A model's id is the name of its deployment.
    """

    row_name: ClassVar[str] = "azure"
    schemas = CHAT


class Foundry(Anthropic):
    """Claude on Microsoft Foundry: ANTHROPIC_FOUNDRY_API_KEY and ANTHROPIC_FOUNDRY_RESOURCE."""

    row_name: ClassVar[str] = "foundry"
