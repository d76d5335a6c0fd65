"""A directory to work in and a provider on loopback, for sessions that a server opens."""

from tests.served_place import place, provider, work

__all__ = ["place", "provider", "work"]
