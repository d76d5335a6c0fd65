"""Find tools that a model is not shown at first. Each request carries only a list of their names."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from math import log

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, as_object, as_str, json_dump, wire_bytes
from sagent.lib.text import nearest
from sagent.tool import Effect, Harmless, RunContext, Tool, ToolOutput, Workspace, arguments_schema, traits_of

MAX_FREE_BYTES = 2_000  # bytes of definitions that are sent as they are
MAX_TOTAL_BYTES = 8_300  # bytes of all definitions together, including those that are always sent
MAX_FOUND = 5
MIN_SCORE_SHARE = 0.2  # of the best score: worse matches are left out
MAX_NAMES_CHARS = 400  # of names in a description
_K1, _B = 1.2, 0.75  # of BM25, as most have them (Robertson and Zaragoza, The Probabilistic Relevance Framework)


def with_search(tools: Sequence[Tool]) -> Sequence[Tool]:
    """Return the tools. If their definitions are too large for every request, and no other tool finds them, add two
    tools, which find and call the `deferrable` ones, and move these to the end. Tools that nobody chose (`unasked`) are
    always found. Tools that go "along" can be found too, but do not cause the search."""
    if any(tool.name == CallTool.name for tool in tools):
        return tools
    apart = [tool for tool in tools if traits_of(tool).deferrable is True]
    asked = [tool for tool in tools if not getattr(tool, "unasked", False)]
    if _size([tool for tool in apart if tool in asked]) <= MAX_FREE_BYTES and _size(asked) <= MAX_TOTAL_BYTES:
        apart = [tool for tool in apart if tool not in asked]
    if not apart:
        return tools
    found = [tool for tool in tools if tool in apart or traits_of(tool).deferrable == "along"]
    return (*(tool for tool in tools if tool not in found), FindTools(found), CallTool(found), *found)


def _size(tools: Sequence[Tool]) -> int:
    return sum(len(wire_bytes([tool.name, tool.description, tool.parameters])) for tool in tools)


def with_calls(tools: Sequence[Tool]) -> Sequence[Tool]:
    """Return the tools with one more, which calls tools that are added later, unless there is one already."""
    if any(tool.name == CallTool.name for tool in tools):
        return tools
    return (*tools, CallTool((), "Call a tool that was added later, as a message describes it."))


class FindTools(Harmless):
    """Shows the tools that fit a question, with their parameters."""

    name = "find_tools"
    quick = True
    parameters = arguments_schema(
        "query", query={"type": "string", "minLength": 1, "description": "what is to be done, or names"}
    )

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._index = Index(tools)
        self.description = f"Find tools beyond those shown here, then use call_tool. There are: {_names(tools)}."

    def add(self, tool: Tool) -> None:
        """Add a tool that can be found. The description stays, because the model has read it."""
        self._index = Index((*self._index.tools, tool))

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        found = self._index.search(as_str(arguments.get("query")))
        if not found:
            raise ToolError(f"No tool fits that. The tools are: {', '.join(self._index.names)}")
        latest = [(tool, getattr(tool, "now", None) or tool) for tool in found]  # a server may have changed it
        shown = (f"{tool.name}: {now.description}\nArguments: {json_dump(now.parameters)}" for tool, now in latest)
        text = "Call one with call_tool, with its name and its arguments.\n\n" + "\n\n".join(shown)
        return ToolOutput.of(text, summary=", ".join(tool.name for tool in found))


class CallTool:
    """Stands for the tools that were found. A model's call through it becomes the call of that tool early
    (sagent/providers/deferral.py). Calls that arrive here name no such tool."""

    name = "call_tool"
    quick = True
    parameters = arguments_schema("name", "arguments", name={"type": "string"}, arguments={"type": "object"})

    def __init__(self, tools: Sequence[Tool], description: str = "Call a tool that find_tools has shown.") -> None:
        self._names = [tool.name for tool in tools]
        self.description = description

    def add(self, tool: Tool) -> None:
        """Add a tool that can be called."""
        self._names.append(tool.name)

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        name = as_str(arguments.get("name"))
        raise ToolError(
            f"No tool named {name!r} can be called with call_tool{nearest(name, self._names) or '.'} Find it with "
            "find_tools; call a tool that you were shown at the beginning by its own name."
        )

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        raise ToolError(f"{self.name} calls nothing by itself.")


class Index:
    """Ranks tools by BM25 over their names, descriptions and parameters' names. The same question gives the same
    ranking."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = tools
        self._counts: Sequence[Counter[str]] = ()  # of each tool's words, counted at the first search

    @property
    def names(self) -> Sequence[str]:
        return [tool.name for tool in self.tools]

    def search(self, query: str) -> Sequence[Tool]:
        """Return the tools that fit best. A tool that the question names comes first."""
        self._counts = self._counts or list(map(_count, self.tools))
        named = {word.lower() for word in re.findall(r"[\w-]+", query)}
        rarity = {word: self._rarity(word) for word in _words(query)}
        mean = max(1, sum(counts.total() for counts in self._counts)) / max(1, len(self.tools))
        fits = [_score(counts, rarity, mean) for counts in self._counts]
        ranked = [(tool.name.lower() not in named, -score, tool) for tool, score in zip(self.tools, fits, strict=True)]
        ranked.sort(key=lambda row: (*row[:2], row[2].name))
        least = max(fits, default=0.0) * MIN_SCORE_SHARE
        return [tool for other, score, tool in ranked if not other or -score > least][:MAX_FOUND]

    def _rarity(self, word: str) -> float:
        holding = sum(word in counts for counts in self._counts)
        return log(1 + (len(self._counts) - holding + 0.5) / (holding + 0.5))


def _score(counts: Counter[str], rarity: Mapping[str, float], mean: float) -> float:
    spread = _K1 * (1 - _B + _B * counts.total() / mean)
    return sum(weight * counts[word] * (_K1 + 1) / (counts[word] + spread) for word, weight in rarity.items())


def _count(tool: Tool) -> Counter[str]:
    parameters = " ".join(as_object(tool.parameters.get("properties")))
    return Counter(_words(f"{tool.name} {tool.name} {tool.description} {parameters}"))


def _words(text: str) -> list[str]:
    """Return the words of a text, including those within a name. A plural counts as its singular."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).replace("_", " ").lower()
    words: list[str] = re.findall(r"[^\W_]+", parted)
    return [word[:-1] if len(word) > 3 and word.endswith("s") and word[-2] != "s" else word for word in words]


def _names(tools: Sequence[Tool]) -> str:
    """Return the tools' names, grouped by server, as far as there is room, and the number of the others."""
    groups: dict[str, list[str]] = {}
    for tool in tools:
        server, own = getattr(tool, "server", ""), tool.name
        groups.setdefault(server, []).append(own.removeprefix(f"mcp__{server}__"))
    room = MAX_NAMES_CHARS // max(1, len(groups))
    return "; ".join(f"{server + ': ' if server else ''}{_listed(names, room)}" for server, names in groups.items())


def _listed(names: Sequence[str], room: int) -> str:
    kept: list[str] = []
    for name in names:
        if sum(map(len, kept)) + 2 * len(kept) + len(name) > room:
            return ", ".join((*kept, f"{len(names) - len(kept)} more")) if kept else f"{len(names)} tools"
        kept.append(name)
    return ", ".join(kept)
