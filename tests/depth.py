"""How often the costliest tests look: by `make test` as often as minutes allow, by `make test-all` as was promised."""

import os

import pytest

WHOLE = os.environ.get("DEPTH") == "whole"

# A test that works or waits for seconds by its nature: for a rarer case of what a faster one promises, or for what
# `make check` finds too.
slow = pytest.mark.skipif(not WHOLE, reason="takes long; make test-all runs it")


def deep(usual: int, whole: int) -> int:
    """A number of examples, kills or steps."""
    return whole if WHOLE else usual
