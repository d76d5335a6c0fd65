"""A home with a directory for settings."""

from tests.config.conftest import config, home

__all__ = ["config", "home"]
