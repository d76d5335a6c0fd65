"""Times of a log as figures."""

from datetime import datetime


def seconds_between(first: str, last: str) -> float | None:
    """Between two times in ISO 8601, at least 0; None where one of them is no time."""
    try:
        return max(0.0, (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds())
    except (ValueError, TypeError):
        return None
