"""The wire families that the fake provider speaks, by name. One more is a module like these and a row here."""

from collections.abc import Mapping

from sagent.testing.families.answer import Answer, Bill, Family
from sagent.testing.families.anthropic import ANTHROPIC
from sagent.testing.families.chat import CHAT
from sagent.testing.families.google import GOOGLE
from sagent.testing.families.responses import RESPONSES

__all__ = ["FAMILIES", "Answer", "Bill", "Family", "family_of"]

FAMILIES: Mapping[str, Family] = {"anthropic": ANTHROPIC, "chat": CHAT, "responses": RESPONSES, "google": GOOGLE}


def family_of(path: str) -> str | None:
    """The name of the family that answers at a path, or None."""
    return next((name for name, family in FAMILIES.items() if path.endswith(family.suffixes)), None)
