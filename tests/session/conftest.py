"""What tests of sessions share with those of the plugin audit."""

from tests.session_place import state

__all__ = ["state"]
