"""What tests of plugins share with those of the command line, of bridges, of the terminal and of tools."""

from tests.bridges.conftest import place, provider, work
from tests.cli.conftest import processes, shell
from tests.repl.conftest import console
from tests.tools.conftest import call, root, workspace

__all__ = ["call", "console", "place", "processes", "provider", "root", "shell", "work", "workspace"]
