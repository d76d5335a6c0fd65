"""What an agent may be asked with: a string, a mapping with "prompt", or a Message."""

from collections.abc import Mapping

from sagent.errors import UsageError
from sagent.messages import Message, user


def to_message(prompt: str | Mapping[str, object] | Message) -> Message:
    """What a person or program asked, as a message. Raises UsageError for a mapping without a "prompt" string."""
    if isinstance(prompt, Message):
        return prompt
    if isinstance(prompt, str):
        return user(prompt)
    if not isinstance(prompt, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers are not all typed
        raise UsageError(f"a prompt is a string, a mapping with a prompt, or a Message, not {type(prompt).__name__}")
    text = prompt.get("prompt")
    if not isinstance(text, str) or len(prompt) != 1:
        raise UsageError(f'a prompt mapping is {{"prompt": "text"}}, not {dict(prompt)!r:.200}')
    return user(text)
