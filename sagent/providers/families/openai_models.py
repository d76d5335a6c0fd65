"""Parameters of OpenAI's models at any endpoint: efforts, output limits, sizes of media."""

import hashlib
import re
from typing import Literal

from sagent.messages import Image
from sagent.model import Effort

IMAGE_TOKENS = 8_000  # 1,536 patches times at most 2.46, or as many as `image_detail` lets through times 1.2
PAGE_TOKENS = 10_000  # a PDF page counts as its text and as an image
_MAX_PATCHES = 6_000


def efforts_of(model: str) -> tuple[Effort, ...]:
    """Return a model's efforts; none if it does not reason (developers.openai.com, models, as of 2026-11)."""
    name = plain_name(model)
    version = gpt_version(name)
    if "pro" in name.split("-"):
        return ("high",)
    if version >= (6, 0):  # not all of them accept "none" (GPT-6 Astra)
        return ("low", "medium", "high", "xhigh", "max")
    if version >= (5, 6):
        return ("none", "low", "medium", "high", "xhigh", "max")
    if version >= (5, 2):
        return ("none", "low", "medium", "high", "xhigh")
    if version >= (5, 1):
        return ("none", "low", "medium", "high")
    if version >= (5, 0) and "chat" not in name:
        return ("minimal", "low", "medium", "high")
    if re.match(r"o\d", name) or name.startswith(("codex-", "gpt-oss")):
        return ("low", "medium", "high")
    return ()


def plain_name(model: str) -> str:
    """Return a model's name without its vendor; of a fine-tuned one ("ft:gpt-5.1:acme::b7"), its base model's."""
    name = model.lower().rpartition("/")[2]
    return name.split(":")[1] if name.startswith("ft:") else name


def is_openais(model: str) -> bool:
    """Return True if a name is one of OpenAI's, and so reveals the model's abilities."""
    return bool(re.match(r"gpt-|chatgpt-|codex-|o\d", plain_name(model)))


def gpt_version(name: str) -> tuple[int, int]:
    """Return (5, 6) for "gpt-5.6-terra"; (0, 0) for anything but a numbered GPT."""
    words = plain_name(name).split("-")
    if words[0] != "gpt" or len(words) < 2:
        return (0, 0)
    major, _, minor = words[1].partition(".")
    numbers = [int(each[:9]) if each.isdecimal() else 0 for each in (major, minor)]
    return (numbers[0], numbers[1]) if numbers[0] else (0, 0)


def image_detail(image: Image) -> Literal["auto", "high"]:
    """Return an image's detail. By default, models from GPT-5.4 on read up to 10,000 patches of 32 pixels a side,
    GPT-5.6 up to 30,000; it refuses an image that has more (developers.openai.com, images and vision)."""
    from sagent.lib.image import measure_image

    size = measure_image(image.data, image.media_type)
    return "auto" if size and -(-size[0] // 32) * -(-size[1] // 32) <= _MAX_PATCHES else "high"


def cache_key(conversation: str) -> str:
    """Return a conversation's `prompt_cache_key`: requests with the same one share a cache.

    It is the session's, because the agents of a session share prompts, and some of them whole conversations.
    """
    return hashlib.sha256(conversation.partition(":")[0].encode("utf-8", "replace")).hexdigest()[:32]
