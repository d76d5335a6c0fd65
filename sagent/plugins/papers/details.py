"""The PaperDetails tool: data about papers, their references and citations, BibTeX."""

from typing import TYPE_CHECKING

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, as_array, as_int, as_str
from sagent.plugins.web.tool import WebTool
from sagent.tool import Effect, RunContext, ToolOutput, Workspace, arguments_schema

if TYPE_CHECKING:
    from sagent.app.builder import AgentBuilder
    from sagent.plugins.papers.ids import PaperId

MAX_PAPERS = 500  # papers in a call
_MAX_ABSTRACT_CHARS = 3_000  # characters of one paper's abstract
_MAX_ABSTRACTS_CHARS = 40_000  # characters of all


def make(builder: "AgentBuilder") -> "PaperDetails":
    """Make the tool for an agent: all its tools for the web share one access."""
    from sagent.plugins.web.access import access_of

    return PaperDetails(builder.once(access_of))


class PaperDetails(WebTool):
    """Describes papers."""

    name = "PaperDetails"
    description = (
        "Papers by their ids (arXiv, DOI, PMID, PMC, Semantic Scholar, OpenAlex, or addresses of these): abstract and"
        " facts, BibTeX, or of one paper its references or citations."
    )
    parameters = arguments_schema(
        "ids",
        ids={"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MAX_PAPERS},
        operation={"type": "string", "enum": ["details", "bibtex", "references", "citations"]},
        limit={"type": "integer", "minimum": 1, "maximum": 500, "description": "of references, citations; default 50"},
    )

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        from sagent.plugins.papers.library import reaching

        ids, operation = _ids(arguments), as_str(arguments.get("operation"), "details")
        services = ["semanticscholar"]
        if operation in ("details", "bibtex"):
            services += ["arxiv"] if any(each.kind == "arxiv" for each in ids) else []
            services += ["openalex", "crossref"]
        return reaching(self.access, services, f"{operation} of {', '.join(map(str, ids[:5]))}")

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Return papers' details or references. Raises ToolError for invalid ids, and if no service answers."""
        from sagent.plugins.papers.library import Library
        from sagent.plugins.papers.paper import listed
        from sagent.plugins.web.marking import mark

        ids, operation = _ids(arguments), as_str(arguments.get("operation"), "details")
        library = Library(self.access, run)
        if operation in ("references", "citations"):
            if len(ids) > 1:
                raise ToolError(f"Give one id: {operation} are listed for one paper at a time.")
            papers = await library.neighbours(ids[0], operation, as_int(arguments.get("limit"), 50))
            return ToolOutput.of(mark(listed(papers), "semanticscholar"), summary=f"{len(papers)} {operation}")
        found, failures = await library.details(ids)
        missing = [str(each) for each in ids if each not in found]
        if not found:
            raise ToolError(" ".join(failures) or f"No service knows {', '.join(missing)}.")
        papers = list(found.values())
        if operation == "bibtex":
            text = "\n\n".join(paper.bibtex() for paper in papers)
        else:
            text = listed(papers, min(_MAX_ABSTRACT_CHARS, _MAX_ABSTRACTS_CHARS // len(papers)))
        notes = f"\n(Not known: {', '.join(missing)}. {' '.join(failures)}".rstrip() + ")" if missing else ""
        return ToolOutput.of(f"{mark(text, 'services for papers')}{notes}", summary=f"{len(papers)} papers")


def _ids(arguments: JsonObject) -> "list[PaperId]":
    """Return each id once. Raises ToolError."""
    from sagent.plugins.papers.ids import parse_id

    return list(dict.fromkeys(parse_id(as_str(text)) for text in as_array(arguments.get("ids"))))
