"""The PaperFetch tool: a paper's PDF, as text by page, with its figures and references listed."""

from typing import TYPE_CHECKING

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, as_array, as_str
from sagent.plugins.web.tool import WebTool
from sagent.tool import Effect, RunContext, ToolOutput, Workspace, arguments_schema

if TYPE_CHECKING:
    from sagent.app.builder import AgentBuilder
    from sagent.plugins.gateway.address import WebAddress
    from sagent.plugins.gateway.gateway import WebResponse
    from sagent.plugins.papers.ids import PaperId
    from sagent.plugins.papers.pdftext import PdfText

PARTS = ("text", "figures", "references")
_MAX_SHOWN_CHARS = 40_000  # shown in one call


def make(builder: "AgentBuilder") -> "PaperFetch":
    """Make the tool for an agent: all its tools for the web share one access."""
    from sagent.plugins.web.access import access_of

    return PaperFetch(builder.once(access_of))


class PaperFetch(WebTool):
    """Shows papers."""

    name = "PaperFetch"
    description = (
        "Read a paper: the text of its PDF by page, its figures (captions) and references. By id it is taken from"
        " arXiv, or the address of a free PDF is named, which url then fetches."
    )
    parameters = arguments_schema(
        id={"type": "string"},
        url={"type": "string"},
        pages={"type": "string", "description": 'default: from the first on; "3-6,9"'},
        parts={"type": "array", "items": {"type": "string", "enum": [*PARTS]}, "description": "default: all"},
    )

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        from sagent.plugins.gateway.address import check_secrets
        from sagent.plugins.papers.library import reaching

        paper, address = _wanted(arguments)
        if address is not None:
            check_secrets(str(address))
            return Effect("none", needs=(address.need,), reason=f"GET {address}")
        assert paper is not None
        services = ["arxiv"] if paper.kind == "arxiv" else ["openalex", "unpaywall", "semanticscholar"]
        return reaching(self.access, services, f"the PDF of {paper}")

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Fetch a paper's PDF. Raises ToolError if there is no free one."""
        from sagent.plugins.gateway.address import check_secrets, parse_address
        from sagent.plugins.gateway.gateway import WebRequest
        from sagent.plugins.papers.library import DATA_LIFE_SECONDS, PAPER_SERVICES, Library, base_url

        paper, address = _wanted(arguments)
        if paper is not None and paper.kind != "arxiv":
            pdf = await Library(self.access, run).open_pdf(paper)
            if not pdf:
                raise ToolError(f"No free PDF of {paper} is known.")
            text = f"{paper} is free to read at {pdf}\nCall PaperFetch with that url."
            return ToolOutput.of(text, summary="a free PDF is known")
        arxiv, interval, alone, named = PAPER_SERVICES["arxiv"], None, False, False
        if paper is not None:
            address = parse_address(f"{base_url(self.access, 'arxiv')}/pdf/{paper.value}")
            interval, alone, named = arxiv.interval, arxiv.alone, "base_url" in self.access.service("arxiv")
        assert address is not None
        check_secrets(str(address))
        request = WebRequest(address, headers={"accept": "application/pdf"})
        response = await self.access.fetch(
            request, run, interval=interval, alone=alone, fresh=DATA_LIFE_SECONDS, named=named
        )
        return await _show(response, address, arguments, run)


async def _show(response: "WebResponse", address: "WebAddress", arguments: JsonObject, run: RunContext) -> ToolOutput:
    from sagent.plugins.papers.pdftext import read_pdf
    from sagent.plugins.web.marking import mark

    if response.moved is not None:
        text = f"{address} redirects to another host: {response.moved}\nCall PaperFetch with that url."
        return ToolOutput.of(text, summary=f"redirects to {response.moved.host}")
    if response.status != 200:
        raise ToolError(f"{address} answered {response.status}.")
    if not response.body.startswith(b"%PDF-"):
        raise ToolError(f"{address} is {response.media_type or 'something else'}, not a PDF. Try WebFetch.")
    if response.cut:
        raise ToolError(f"{address} is larger than {len(response.body) // 1_000_000} MB. It was not read.")
    read = await read_pdf(response.body, str(address))
    whole = "\n\n".join(f"--- page {number} ---\n{text}" for number, text in enumerate(read.pages, 1))
    kept = (run.blobs.put(response.body), run.blobs.put(whole.encode("utf-8", "replace")))
    text = _shown(read, as_str(arguments.get("pages")), [as_str(part) for part in as_array(arguments.get("parts"))])
    notes = f"(The PDF is in {kept[0]}, its whole text in {kept[1]}.)"
    summary = f"{len(read.pages)} pages, {len(read.figures)} figures, {len(read.references)} references"
    marked = mark(f"{address}: {summary}\n\n{text}", str(address.host))
    return ToolOutput.of(f"{marked}\n{notes}", summary=summary)


def _wanted(arguments: JsonObject) -> "tuple[PaperId | None, WebAddress | None]":
    """Return the paper, or the address, that the call names. Raises ToolError."""
    from sagent.plugins.gateway.address import parse_address
    from sagent.plugins.papers.ids import parse_id

    paper, url = as_str(arguments.get("id")), as_str(arguments.get("url"))
    if bool(paper) == bool(url):
        raise ToolError("Give id or url, and not both.")
    return (parse_id(paper), None) if paper else (None, parse_address(url))


def _shown(read: "PdfText", pages: str, parts: list[str]) -> str:
    """Return the requested parts. The text is cut to the limit of one call."""
    blocks: list[str] = []
    wanted = parts or PARTS
    if "figures" in wanted and read.figures:
        blocks.append("\n".join(["Figures and tables:", *read.figures]))
    if "text" in wanted:
        blocks.append(_pages(read, pages))
    if "references" in wanted and read.references:
        blocks.append("\n".join(["References:", *read.references]))
    return "\n\n".join(blocks) or "(none were found)"


def _pages(read: "PdfText", pages: str) -> str:
    from sagent.tools.pdf import parse_pages

    numbers = parse_pages(pages, len(read.pages)) if pages else range(1, len(read.pages) + 1)
    shown: list[str] = []
    size = 0
    for place, number in enumerate(numbers):
        text = read.pages[number - 1] or "(no text on this page; it may be a scan)"
        size += len(text)
        if size > _MAX_SHOWN_CHARS and shown:
            shown.append(f"(The pages from {numbers[place]} on are left out: give pages.)")
            break
        shown.append(f"--- page {number} of {len(read.pages)} ---\n{text[:_MAX_SHOWN_CHARS]}")
    return "\n".join(shown)
