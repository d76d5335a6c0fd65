"""The PaperAuthor tool: find people by name, and papers by author."""

from typing import TYPE_CHECKING

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, as_array, as_int, as_str
from sagent.plugins.web.tool import WebTool
from sagent.tool import Effect, RunContext, ToolOutput, Workspace, arguments_schema

if TYPE_CHECKING:
    from sagent.app.builder import AgentBuilder


def make(builder: "AgentBuilder") -> "PaperAuthor":
    """Make the tool for an agent: all its tools for the web share one access."""
    from sagent.plugins.web.access import access_of

    return PaperAuthor(builder.once(access_of))


class PaperAuthor(WebTool):
    """Finds authors."""

    name = "PaperAuthor"
    description = "Authors of papers by name (query), or the papers of one by an id found this way."
    parameters = arguments_schema(
        query={"type": "string"},
        id={"type": "string", "pattern": r"^\d+$"},
        limit={"type": "integer", "minimum": 1, "maximum": 500, "description": "default 20"},
    )

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        from sagent.plugins.papers.library import reaching

        what = as_str(arguments.get("query")) or as_str(arguments.get("id"))
        return reaching(self.access, ["semanticscholar"], f"the author {what!r}")

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Find authors by name, or the papers of one by id. Raises ToolError if both are given, and if no service
        answers."""
        from sagent.plugins.papers.library import Library
        from sagent.plugins.papers.paper import listed
        from sagent.plugins.web.marking import mark

        query, author = as_str(arguments.get("query")).strip(), as_str(arguments.get("id"))
        if bool(query) == bool(author):
            raise ToolError("Give query or id, and not both.")
        library, limit = Library(self.access, run), as_int(arguments.get("limit"), 20)
        if author:
            papers = await library.written_by(author, limit)
            return ToolOutput.of(mark(listed(papers), "semanticscholar"), summary=f"{len(papers)} papers")
        people = await library.authors(query, limit)
        lines = [
            f"id {as_str(person.get('authorId'))}: {as_str(person.get('name'))}"
            + "".join(f", {as_str(place)}" for place in as_array(person.get("affiliations")))
            + f" · {as_int(person.get('paperCount'))} papers · cited {as_int(person.get('citationCount'))} times"
            + f" · h-index {as_int(person.get('hIndex'))}"
            for person in people
        ]
        text = "\n".join(lines) or "(no author of that name)"
        return ToolOutput.of(mark(text, "semanticscholar"), summary=f"{len(people)} authors")
