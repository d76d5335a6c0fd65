"""How built-in tools declare their arguments."""

from collections.abc import Mapping

from sagent.lib.json import JsonObject, json_freeze_object


def arguments_schema(*required: str, closed: bool = False, **properties: Mapping[str, object]) -> JsonObject:
    """The JSON Schema of a call's arguments; `closed` where no others than these are accepted."""
    needed = {"required": required} if required else {}
    others = {"additionalProperties": False} if closed else {}
    return json_freeze_object({"type": "object", "properties": properties, **needed, **others})
