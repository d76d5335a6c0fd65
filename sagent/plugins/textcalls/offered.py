"""The offered tools: which one a written name means, and whether arguments fit it."""

import re
from collections.abc import Collection, Mapping

from sagent.lib.json import EMPTY, JsonObject, as_array, as_object, as_str

_PREFIX = re.compile(r"(?:functions?|default_api|tools?|api)[.:]")


class Offered:
    """The tools of a request by their names, which models write in other cases and with other separators."""

    def __init__(self, tools: Mapping[str, JsonObject]) -> None:
        """`tools` are schemas by name."""
        self.tools = tools
        self._names = {plain_name(name): name for name in tools}

    def meant(self, name: str) -> str:
        """Return the name of the tool that is meant; the name as it is if there is none."""
        if name in self.tools:
            return name
        bare = _PREFIX.sub("", name)
        return bare if bare in self.tools else self._names.get(plain_name(bare), name)

    def has(self, name: str) -> bool:
        """Return True if a name means a tool."""
        return self.meant(name) in self.tools

    def schema(self, name: str) -> JsonObject:
        """Return the schema of the tool that is meant; empty if there is none."""
        return self.tools.get(self.meant(name), EMPTY)

    def fits(self, name: str, arguments: Mapping[str, object]) -> bool:
        """Return True for arguments that a tool of the name takes, with all that it needs."""
        if not self.has(name):
            return False
        return bool(arguments) and self._needed(name) <= {*arguments} <= {
            *as_object(self.schema(name).get("properties"))
        }

    def only_text(self, name: str) -> str:
        """Return the argument of a tool that needs one text and nothing else; "" for other tools."""
        needed = self._needed(name)
        key = next(iter(needed), "")
        declared = as_object(as_object(self.schema(name).get("properties")).get(key)).get("type")
        return key if len(needed) == 1 and declared == "string" else ""

    def _needed(self, name: str) -> set[str]:
        return {as_str(each) for each in as_array(self.schema(name).get("required"))}


def plain_name(name: str) -> str:
    """Return a tool's name without case and separators, which models change."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def is_tool(name: str, names: Collection[str]) -> bool:
    """Return True if a name that a model wrote means a tool. `names` are plain names."""
    return plain_name(name) in names or plain_name(_PREFIX.sub("", name)) in names
