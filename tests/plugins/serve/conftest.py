"""A recorded session, as tests of transcripts have it."""

from tests.transcript.conftest import recorded

__all__ = ["recorded"]
