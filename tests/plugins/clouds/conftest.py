"""Servers that say exactly the bytes they are told to say, as tests of providers have them."""

from tests.providers.conftest import listening, raw_server

__all__ = ["listening", "raw_server"]
