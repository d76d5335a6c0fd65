"""The commands, a module for each."""

from collections.abc import Callable, Sequence
from importlib import import_module


def command(name: str) -> Callable[[Sequence[str]], int]:
    """A command's function. Its module is imported by its name: the others cost nothing."""
    name = name.replace("-", "_")
    return getattr(import_module(f"sagent.cli.commands.{name}"), f"run_{name}")
