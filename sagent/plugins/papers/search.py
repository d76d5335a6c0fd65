"""The PaperSearch tool: ask several services at once, and combine their rankings."""

import asyncio
from typing import TYPE_CHECKING

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, as_array, as_int, as_str
from sagent.plugins.web.tool import WebTool
from sagent.tool import Effect, RunContext, ToolOutput, Workspace, arguments_schema

if TYPE_CHECKING:
    from sagent.app.builder import AgentBuilder

SOURCES = ("semanticscholar", "openalex", "arxiv", "crossref")
_USUAL = SOURCES[:3]
_MAX_ABSTRACT_CHARS = 400  # characters


def make(builder: "AgentBuilder") -> "PaperSearch":
    """Make the tool for an agent: all its tools for the web share one access."""
    from sagent.plugins.web.access import access_of

    return PaperSearch(builder.once(access_of))


class PaperSearch(WebTool):
    """Lists papers."""

    name = "PaperSearch"
    description = "Search scientific papers at Semantic Scholar, OpenAlex and arXiv: titles, ids, abstracts, free PDFs."
    parameters = arguments_schema(
        "query",
        query={"type": "string", "minLength": 1},
        limit={"type": "integer", "minimum": 1, "maximum": 50, "description": "default 10"},
        year={"type": "string", "pattern": r"^\d{4}(-\d{4})?$", "description": "2020 or 2018-2024"},
        sources={"type": "array", "items": {"type": "string", "enum": [*SOURCES]}},
    )

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        from sagent.plugins.papers.library import reaching

        return reaching(self.access, _sources(arguments), f"a search for {as_str(arguments.get('query'))!r}")

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Search for papers. Raises ToolError if no service answers."""
        from sagent.plugins.papers.library import Library
        from sagent.plugins.papers.paper import fuse, listed
        from sagent.plugins.web.marking import mark

        library, limit = Library(self.access, run), as_int(arguments.get("limit"), 10)
        query, year = as_str(arguments["query"]), as_str(arguments.get("year"))
        sources = _sources(arguments)
        failures: list[str] = []
        asking = (library.attempt(library.search(name, query, limit, year), failures) for name in sources)
        rankings = [found for found in await asyncio.gather(*asking) if found is not None]
        if not rankings:
            raise ToolError(" ".join(failures))
        papers = fuse(rankings)[:limit]
        notes = "".join(f"\n({failure})" for failure in failures)
        if not papers:
            return ToolOutput.of(f"No papers were found for {query!r}.{notes}", summary="no papers")
        text = mark(listed(papers, _MAX_ABSTRACT_CHARS), ", ".join(sources))
        return ToolOutput.of(f"{text}{notes}", summary=f"{len(papers)} papers")


def _sources(arguments: JsonObject) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(as_str, as_array(arguments.get("sources"))))) or _USUAL
