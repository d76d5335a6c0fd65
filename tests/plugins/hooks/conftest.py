"""Settings in files, as tests of these have them."""

from tests.config.conftest import config, home, settings

__all__ = ["config", "home", "settings"]
