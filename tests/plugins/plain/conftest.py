"""A terminal to run the REPL in plain lines."""

from tests.repl.conftest import console

__all__ = ["console"]
