"""What tests of plugins share with those of the command line, of bridges and of the terminal."""

from tests.bridges.conftest import place, provider, work
from tests.cli.conftest import processes, shell
from tests.repl.conftest import console

__all__ = ["console", "place", "processes", "provider", "shell", "work"]
