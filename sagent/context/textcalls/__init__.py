"""Calls as text: recognised in what models say, in the form of every family, and a protocol of blocks of text."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class LearnsProtocol(Protocol):
    """A Model that chooses how its calls are written, and wants to know how it wrote the last one."""

    def wrote_call_as_text(self) -> None:
        """Take note of a reply whose calls came as text although tools were offered."""
        ...
