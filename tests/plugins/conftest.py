"""What tests of plugins share with those of the command line, of bridges, of the terminal and of tools."""

from tests.cli.conftest import processes, shell
from tests.repl.conftest import console
from tests.repl.recorded import context
from tests.served_place import place, provider, work
from tests.tools.conftest import call, root, workspace

__all__ = ["call", "console", "context", "place", "processes", "provider", "root", "shell", "work", "workspace"]
