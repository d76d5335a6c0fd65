"""Cards and frames take plain JSON, and freeze it."""

from collections import OrderedDict
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

from sagent.lib.json import JsonObject, NotJsonError, json_freeze
from sagent.plugins.mesh.bus import Frame
from sagent.plugins.mesh.cards import Card

MAKERS: dict[str, Callable[[Any], object]] = {
    "Card.takes": lambda given: Card("a", "b", takes=given).takes,
    "Frame.body": lambda given: Frame("reply", given).body,
}


@pytest.mark.parametrize("made", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("kind", [dict, OrderedDict, MappingProxyType, JsonObject])
def test_bus_fields_take_plain_json(made: Callable[[Any], object], kind: Callable[[Any], Any]) -> None:
    given: dict[str, Any] = {"a": {"b": [1, (2, {"c": None})]}}
    found = made(kind(given))
    assert found == json_freeze(given)
    given["a"]["b"].append(3)  # what is given may change; what was taken does not
    assert found != json_freeze(given)
    assert isinstance(found, JsonObject)
    assert isinstance(hash(found), int)


@pytest.mark.parametrize("made", MAKERS.values(), ids=MAKERS)
def test_non_json_refused_with_path(made: Callable[[Any], object]) -> None:
    with pytest.raises(NotJsonError, match=r"a\[2\]: not a JSON value: set"):
        made({"a": [1, 2, {3}]})
