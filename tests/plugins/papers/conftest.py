"""The site on loopback of the tests of the plugin web, by which papers are reached too."""

from tests.plugins.web.conftest import site

__all__ = ["site"]
