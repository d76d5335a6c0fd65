"""Abilities of models, by id and by family: holding a conversation, seeing images, reasoning."""

import re
from contextlib import suppress
from typing import Protocol, runtime_checkable

from sagent.errors import UsageError
from sagent.providers.families.openai_models import plain_name
from sagent.providers.registry import class_of
from sagent.providers.rows import Abilities, Row

# Words in names of models that make or accept something else than text: price lists have such models too.
_MUTE = re.compile(
    r"(^|[-/.:])(embed|rerank|moderation|whisper|transcribe|transcription|tts|speech|audio|realtime|live-|live$|image"
    r"|imagen|dall-e|veo|lyria|sora|video|music|ocr|guard|safeguard|computer-use|aqa|ada$|babbage|curie$|davinci)"
    r"|^text-|embedding|diffusion|^gpt-3\.5(-turbo)?-(0301|instruct)|[-:]$"
)


def can_converse(model: str) -> bool:
    """Return False if a model's name shows that it cannot hold a conversation."""
    return not _MUTE.search(model.lower())


def accepts_images(row: Row, model: str) -> bool | None:
    """Return whether a model accepts images; None if unknown."""
    able = row.able(model)
    if able.images is not None:
        return able.images
    name = plain_name(able.like or model)
    if known := _known_of(row, name):
        return known.images
    match row.family:
        case "anthropic" | "google":
            return True
        case "responses":
            return not name.startswith(("gpt-3.5", "o1-mini", "o3-mini"))
        case _:
            return None if row.quirks.images else False


def can_reason(row: Row, model: str) -> bool:
    """Return True if a model is known to think before it answers on request."""
    able = row.able(model)
    if able.efforts is not None:
        return bool(able.efforts)
    model = able.like or model
    if known := _known_of(row, model):
        return bool(known.efforts)
    match row.family:
        case "anthropic":
            from sagent.providers.families.anthropic.provider import thinking_parameters

            return bool(thinking_parameters(model, "high", 64_000).members)
        case "google":
            from sagent.providers.families.google.provider import thinking_config as think_there

            return bool(think_there(model, "high")[0])
        case "responses":
            from sagent.providers.families.openai_models import efforts_of

            return bool(efforts_of(model))
        case _:
            from sagent.providers.families.chat.efforts import effort_members, knob_of

            asked = effort_members(model, row.quirks, "high", with_tools=False)[0]
            return bool(asked) or knob_of(model, row.quirks).style == "always"


@runtime_checkable
class Knowing(Protocol):
    """A class of providers that knows more of its models than their family does."""

    def abilities_of(self, model: str) -> Abilities | None:
        """Return the known abilities of a model by its name; None to leave them to the family."""


def _known_of(row: Row, model: str) -> Abilities | None:
    with suppress(UsageError):  # reported when the model is used
        kind = class_of(row) if row.make or row.via else None
        return kind.abilities_of(model) if isinstance(kind, Knowing) else None
    return None
