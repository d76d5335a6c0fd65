"""Values of flags that do not belong to settings."""

from collections.abc import Callable
from typing import TypeVar

from sagent.errors import UsageError

T = TypeVar("T")


def read_flag(flag: str, text: str | None, read: Callable[[object], T]) -> T | None:
    """Return the value of a flag, None if it is not given. Raises UsageError that lists the accepted values."""
    from sagent.plugin import RefusedError

    if text is None:
        return None
    try:
        return read(text)
    except RefusedError as error:
        raise UsageError(f"{flag} {text}: {error}.") from error
