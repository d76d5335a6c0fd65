"""docs/api.md names the fields that its classes have: each of them, and no other."""

import re
from dataclasses import fields
from typing import get_args

import pytest

from sagent.agent import Resources
from sagent.events import Event, Result
from sagent.tool import RunContext, ToolOutput
from tests.snippets import ROOT

PAGE = (ROOT / "docs" / "api.md").read_text("utf-8")


def rows(heading: str) -> dict[str, str]:
    """The rows of a section's table: what is named first, and the rest."""
    section = re.split(r"^##", PAGE.partition(f"### {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE))


@pytest.mark.parametrize("documented", [Result, ToolOutput, RunContext, Resources], ids=lambda each: each.__name__)
def test_every_field_is_documented(documented: type) -> None:
    assert list(rows(documented.__name__)) == [each.name for each in fields(documented)]


def test_every_event_field_is_documented() -> None:
    said = {name: re.findall(r"`(\w+)`", text.partition(":")[0]) for name, text in rows("Events").items()}
    assert said == {event.__name__: [each.name for each in fields(event)] for event in get_args(Event)}
