"""Functions whose annotations are text, some of which name what only their own function knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pydantic import BaseModel

from sagent.tools import tool

if TYPE_CHECKING:
    from decimal import Decimal as Money


Whole: TypeAlias = int


def add(a: Whole, b: Whole = 2) -> Money:
    """Add two numbers."""
    return a + b  # pyright: ignore[reportReturnType] -- only its annotation counts


class Adder:
    def __call__(self, a: Whole, b: Whole = 2) -> Money:
        """Add two numbers."""
        return a + b  # pyright: ignore[reportReturnType] -- only its annotation counts


def make() -> object:
    """Return a tool whose annotations name a local type."""

    class Number(BaseModel):
        n: int = 2

    @tool
    def add_here(a: int, b: Number | None = None) -> int:
        """Add two numbers."""
        return a + (b or Number()).n

    return add_here


def unknown(a: Nowhere) -> None:  # noqa: F821  # type: ignore[name-defined]
    """Do."""
