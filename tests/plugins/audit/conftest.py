"""What tests of this plugin share."""

from tests.session_place import place

__all__ = ["place"]
