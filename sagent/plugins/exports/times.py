"""Times of a log as figures."""

from datetime import datetime


def seconds_between(first: str, last: str) -> float | None:
    """Return the seconds between two ISO 8601 times, at least 0; None if one is not a time."""
    try:
        return max(0.0, (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds())
    except (ValueError, TypeError):
        return None
