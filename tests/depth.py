"""How often the costliest tests look: by `make test` as often as minutes allow, by `make test-all` as was promised."""

import os

WHOLE = os.environ.get("DEPTH") == "whole"


def deep(usual: int, whole: int) -> int:
    """A number of examples, kills or steps."""
    return whole if WHOLE else usual
