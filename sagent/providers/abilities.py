"""What a model can do: hold a conversation; and by what each family knows of its models see images, and reason."""

import re

from sagent.providers.families.openai_models import plain_name
from sagent.providers.rows import Row

# In these words names say that a model makes or takes something else: price lists have those too.
_MUTE = re.compile(
    r"(^|[-/.:])(embed|rerank|moderation|whisper|transcribe|transcription|tts|speech|audio|realtime|live-|live$|image"
    r"|imagen|dall-e|veo|lyria|sora|video|music|ocr|guard|safeguard|computer-use|aqa|ada$|babbage|curie$|davinci)"
    r"|^text-|embedding|diffusion|^gpt-3\.5(-turbo)?-(0301|instruct)|[-:]$"
)

# Other makers' models on Bedrock that see images (docs.aws.amazon.com, supported models and features).
_SIGHTED = re.compile(
    r"nova-(lite|pro|premier|2)|llama4|llama3-2-(11|90)b|pixtral|mistral-large-3|qwen3-vl|gemma-3-\d\d?b"
)


def converses(model: str) -> bool:
    """Whether a model may hold a conversation, as far as its name says."""
    return not _MUTE.search(model.lower())


def sees(row: Row, model: str) -> bool | None:
    """Whether a model can be shown images; None where that is not known."""
    able = row.able(model)
    if able.images is not None:
        return able.images
    name = plain_name(able.like or model)
    match _family(row, name):
        case "converse":
            return True if _SIGHTED.search(name) else None
        case "anthropic" | "google":
            return True
        case "responses":
            return not name.startswith(("gpt-3.5", "o1-mini", "o3-mini"))
        case _:
            return None if row.quirks.images else False


def reasons(row: Row, model: str) -> bool:
    """Whether it is known that a model thinks before it answers when it is asked to."""
    able = row.able(model)
    if able.efforts is not None:
        return bool(able.efforts)
    model = able.like or model
    match _family(row, model):
        case "converse":
            from sagent.providers.families.converse.provider import think as think_here

            return bool(think_here(model, "high")[0])
        case "anthropic":
            from sagent.providers.families.anthropic.provider import think

            return bool(think(model, "high", 64_000).members)
        case "google":
            from sagent.providers.families.google.provider import think as think_there

            return bool(think_there(model, "high")[0])
        case "responses":
            from sagent.providers.families.openai_models import efforts_of

            return bool(efforts_of(model))
        case _:
            from sagent.providers.families.chat.efforts import effort_members, knob_of

            asked = effort_members(model, row.quirks, "high", with_tools=False)[0]
            return bool(asked) or knob_of(model, row.quirks).style == "always"


def _family(row: Row, model: str) -> str:
    if row.via != "bedrock":
        return row.family
    from sagent.providers.families.bedrock import is_claude

    return row.family if is_claude(model) else "converse"
