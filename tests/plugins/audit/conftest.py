"""What tests of this plugin share."""

from tests.session_place import place, state

__all__ = ["place", "state"]
