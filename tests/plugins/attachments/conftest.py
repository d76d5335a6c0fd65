"""A terminal to run the REPL."""

from tests.repl.conftest import console

__all__ = ["console"]
