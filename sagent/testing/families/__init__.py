"""The wire families that the fake provider speaks, by name. One more is a module like these and a row here."""

from collections.abc import Mapping

from sagent.testing.families.answer import Answer, Bill, Family, input_tokens
from sagent.testing.families.anthropic import ANTHROPIC
from sagent.testing.families.chat import CHAT
from sagent.testing.families.converse import CONVERSE
from sagent.testing.families.google import GOOGLE
from sagent.testing.families.responses import RESPONSES

__all__ = ["FAMILIES", "Answer", "Bill", "Family", "counting_member", "family_of", "input_tokens"]

_COUNTING = {
    "/count_tokens": "input_tokens",
    "/responses/input_tokens": "input_tokens",
    ":countTokens": "totalTokens",
}

FAMILIES: Mapping[str, Family] = {
    "anthropic": ANTHROPIC,
    "chat": CHAT,
    "responses": RESPONSES,
    "google": GOOGLE,
    "converse": CONVERSE,
}


def counting_member(path: str) -> str:
    """Return the member for a request's token count in answers at this path; "" if the path does not count tokens."""
    return next((member for end, member in _COUNTING.items() if path.endswith(end)), "")


def family_of(path: str) -> str | None:
    """Return the name of the family that answers at a path, or None."""
    return next((name for name, family in FAMILIES.items() if path.endswith(family.suffixes)), None)
