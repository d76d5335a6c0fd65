"""What tests of served sessions share with those of traces."""

from tests.recorded_run import recorded

__all__ = ["recorded"]
