"""The PaperSearch tool: several services asked at once, their rankings made one."""

from typing import TYPE_CHECKING

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, as_array, as_int, as_str
from sagent.tool import Effect, RunContext, ToolOutput, Workspace, arguments_schema

if TYPE_CHECKING:
    from sagent.tools.web.access import WebAccess

SOURCES = ("semanticscholar", "openalex", "arxiv", "crossref")
_USUAL = SOURCES[:3]
_ABSTRACT = 400  # characters


class PaperSearch:
    """Lists papers. `access` is shared with the other tools for the web."""

    name = "PaperSearch"
    deferrable = True
    description = "Search scientific papers at Semantic Scholar, OpenAlex and arXiv: titles, ids, abstracts, free PDFs."
    parameters = arguments_schema(
        "query",
        query={"type": "string", "minLength": 1},
        limit={"type": "integer", "minimum": 1, "maximum": 50, "description": "default 10"},
        year={"type": "string", "pattern": r"^\d{4}(-\d{4})?$", "description": "2020 or 2018-2024"},
        sources={"type": "array", "items": {"type": "string", "enum": [*SOURCES]}},
        closed=True,
    )

    def __init__(self, access: "WebAccess") -> None:
        self._access = access

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        from sagent.tools.papers.library import reaching

        return reaching(self._access, _sources(arguments), f"a search for {as_str(arguments.get('query'))!r}")

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Raises ToolError where no service answers."""
        from sagent.tools.papers.library import Library, together
        from sagent.tools.papers.paper import fuse
        from sagent.tools.web.marking import mark

        library, limit = Library(self._access, run), as_int(arguments.get("limit"), 10)
        query, year = as_str(arguments["query"]), as_str(arguments.get("year"))
        sources = _sources(arguments)
        rankings, failures = await together([library.search(name, query, limit, year) for name in sources])
        if not rankings:
            raise ToolError(" ".join(failures))
        papers = fuse(rankings)[:limit]
        notes = "".join(f"\n({failure})" for failure in failures)
        if not papers:
            return ToolOutput.of(f"No papers were found for {query!r}.{notes}", summary="no papers")
        text = "\n".join(paper.listed(number, _ABSTRACT) for number, paper in enumerate(papers, 1))
        return ToolOutput.of(f"{mark(text, ', '.join(sources))}{notes}", summary=f"{len(papers)} papers")


def _sources(arguments: JsonObject) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(as_str, as_array(arguments.get("sources"))))) or _USUAL
