"""What tests of served sessions share with those of traces."""

from tests.transcript.conftest import recorded

__all__ = ["recorded"]
