"""Gemini and Claude on Google's Vertex AI, by Google's application default credentials."""

from typing import ClassVar
from urllib.parse import quote

from sagent.model import Request
from sagent.providers.families.anthropic.provider import Anthropic, CloudRoute
from sagent.providers.families.google.provider import Google, GoogleModel
from sagent.providers.families.model import Counted


class VertexModel(GoogleModel):
    """One model of Gemini on Vertex AI, which counts a request's tokens without changes."""

    def _counting(self, request: Request) -> Counted | None:
        body = self._conversation(request).write({"generationConfig": {}}, 0)
        return f"{self._provider.url_of(self.id)}:countTokens", {}, body.parts, "totalTokens"


class Vertex(Google):
    """Gemini on Google's Vertex AI. GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION set the project and location.

    The SDK puts its address, the project and the location before a path.
    """

    row_name: ClassVar[str] = "vertex"

    def model(self, model_id: str) -> VertexModel:
        return VertexModel(self, model_id)

    @property
    def root(self) -> str:
        return "publishers/google"

    def url_of(self, model_id: str) -> str:
        return model_id if "/" in model_id else f"{self.root}/models/{quote(model_id)}"


class VertexAnthropic(Anthropic):
    """Claude on Google's Vertex AI. CLOUD_ML_REGION sets the region."""

    row_name: ClassVar[str] = "vertex-anthropic"
    site = CloudRoute(
        "/projects/{project}/locations/{region}/publishers/anthropic/models/{model}:streamRawPredict",
        "vertex-2023-10-16",
    )
