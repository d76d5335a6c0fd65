"""What tests of plugins share with those of the command line and of bridges."""

from tests.bridges.conftest import place, provider, work
from tests.cli.conftest import processes, shell

__all__ = ["place", "processes", "provider", "shell", "work"]
