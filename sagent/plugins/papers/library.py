"""The services with data about papers, called at their permitted rates."""

import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar
from urllib.parse import quote, urlencode

from sagent.errors import ToolError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_object, as_str, json_dump
from sagent.plugins.gateway.address import check_secrets, parse_address
from sagent.plugins.gateway.gateway import WebRequest
from sagent.plugins.papers.answers import read_arxiv, read_crossref, read_openalex, read_s2
from sagent.plugins.papers.ids import PaperId
from sagent.plugins.papers.paper import Paper
from sagent.plugins.web.access import WebAccess
from sagent.tool import Effect, RunContext

T = TypeVar("T")

DATA_LIFE_SECONDS = 3 * 86_400.0  # seconds for which data about a paper is kept
ANSWER_TIMEOUT_SECONDS = 15.0  # for one answer
_MAX_SINGLE_LOOKUPS = 20  # papers that are looked up one by one
_S2_FIELDS = "title,authors,year,venue,abstract,externalIds,citationCount,openAccessPdf"
_OPENALEX_FIELDS = (
    "id,ids,doi,title,display_name,publication_year,authorships,primary_location,best_oa_location,open_access,"
    "cited_by_count,abstract_inverted_index"
)


@dataclass(frozen=True, slots=True)
class PaperService:
    """A service: its address, its rate, and the variable of its key. The key is sent in a header or a parameter."""

    base_url: str
    interval: float
    alone: bool = False
    variable: str = ""
    header: str = ""
    parameter: str = ""


PAPER_SERVICES: Mapping[str, PaperService] = {
    # https://info.arxiv.org/help/api/tou.html: one request in three seconds, one connection at a time
    "arxiv": PaperService("https://export.arxiv.org", 3.0, alone=True),
    "semanticscholar": PaperService(
        "https://api.semanticscholar.org", 1.0, variable="SEMANTIC_SCHOLAR_API_KEY", header="x-api-key"
    ),
    "openalex": PaperService("https://api.openalex.org", 0.1, variable="OPENALEX_API_KEY", parameter="api_key"),
    "crossref": PaperService("https://api.crossref.org", 1.0),
    "unpaywall": PaperService("https://api.unpaywall.org", 0.1),
}


class Library:
    """Asks the services for one call of a tool."""

    def __init__(self, access: WebAccess, run: RunContext) -> None:
        self._access, self._run = access, run

    async def search(self, service: str, query: str, limit: int, year: str) -> Sequence[Paper]:
        """Search one service, best results first; `year` is "2020" or "2020-2024". Raises ToolError."""
        first, _, last = year.partition("-")
        last = last or first
        if service == "arxiv":
            words = " AND ".join(f"all:{word}" for word in query.replace('"', " ").split())
            dates = f" AND submittedDate:[{first}01010000 TO {last}12312359]" if year else ""
            members = {"search_query": words + dates, "max_results": limit, "sortBy": "relevance"}
            return read_arxiv(await self._get("arxiv", "/api/query", members))
        if service == "semanticscholar":
            found = await self._json(
                service, "/graph/v1/paper/search", {"query": query, "limit": limit, "fields": _S2_FIELDS, "year": year}
            )
            return _papers(read_s2, as_object(found).get("data"))
        if service == "openalex":
            dates = f"publication_year:{first}-{last}" if year else ""
            members = {"search": query, "per_page": limit, "filter": dates, "select": _OPENALEX_FIELDS}
            return _papers(read_openalex, as_object(await self._json(service, "/works", members)).get("results"))
        dates = f"from-pub-date:{first},until-pub-date:{last}" if year else ""
        found = await self._json("crossref", "/works", {"query": query, "rows": limit, "filter": dates})
        return _papers(read_crossref, as_object(as_object(found).get("message")).get("items"))

    async def details(self, ids: Sequence[PaperId]) -> tuple[dict[PaperId, Paper], list[str]]:
        """Return details of papers, and the failures. Semantic Scholar answers for many at once, and the other services
        for the rest."""
        found: dict[PaperId, Paper] = {}
        failures: list[str] = []
        asked = [each for each in ids if each.at_s2]
        if asked and (answer := await self.attempt(self._batch(asked), failures)) is not None:
            found |= {each: paper for each, paper in zip(asked, answer, strict=False) if paper is not None}
        rest = [each for each in ids if each not in found]
        numbers = [each.value for each in rest if each.kind == "arxiv"]
        if numbers and (papers := await self.attempt(self._from_arxiv(numbers), failures)) is not None:
            found |= {PaperId("arxiv", paper.arxiv): paper for paper in papers}
        for each in [each for each in ids if each not in found][:_MAX_SINGLE_LOOKUPS]:
            if (paper := await self.attempt(self._single(each), failures)) is not None:
                found[each] = paper
        return found, failures

    async def neighbours(self, paper: PaperId, which: str, limit: int) -> Sequence[Paper]:
        """Return the papers that one cites ("references"), or that cite it ("citations"). Raises ToolError."""
        if not paper.at_s2:
            raise ToolError(f"{paper}: {which} can be listed by DOI, arXiv id, PMID or an id of Semantic Scholar.")
        path = f"/graph/v1/paper/{quote(paper.at_s2, safe=':')}/{which}"
        answer = await self._json("semanticscholar", path, {"fields": _S2_FIELDS, "limit": limit})
        member = "citedPaper" if which == "references" else "citingPaper"
        return _papers(read_s2, [as_object(each).get(member) for each in as_array(as_object(answer).get("data"))])

    async def authors(self, query: str, limit: int) -> Sequence[Mapping[str, object]]:
        """People of a name, as Semantic Scholar has them. Raises ToolError."""
        fields = "name,affiliations,paperCount,citationCount,hIndex"
        members = {"query": query, "limit": limit, "fields": fields}
        answer = await self._json("semanticscholar", "/graph/v1/author/search", members)
        return [as_object(each) for each in as_array(as_object(answer).get("data"))]

    async def written_by(self, author: str, limit: int) -> Sequence[Paper]:
        """Return the papers of a person, by their id at Semantic Scholar. Raises ToolError."""
        path = f"/graph/v1/author/{quote(author, safe='')}/papers"
        answer = await self._json("semanticscholar", path, {"fields": _S2_FIELDS, "limit": limit})
        return _papers(read_s2, as_object(answer).get("data"))

    async def open_pdf(self, paper: PaperId) -> str:
        """Return the address of a paper's free PDF; "" if no service knows one. Raises ToolError if no service could be
        asked."""
        failures: list[str] = []
        if paper.at_openalex and (found := await self.attempt(self._single(paper), failures)) and found.pdf:
            return found.pdf
        email = self._access.service("unpaywall").get("email", "")
        if paper.kind == "doi" and email:
            path, members = f"/v2/{quote(paper.value, safe='/')}", {"email": email}
            answer = await self.attempt(self._json("unpaywall", path, members), failures)
            best = as_object(as_object(answer).get("best_oa_location"))
            if pdf := as_str(best.get("url_for_pdf")):
                return pdf
        if paper.at_s2:
            known, more = await self.details([paper])
            failures += more
            if paper in known:
                return known[paper].pdf
        if failures:
            raise ToolError(" ".join(failures))
        return ""

    async def _from_arxiv(self, numbers: Sequence[str]) -> Sequence[Paper]:
        members = {"id_list": ",".join(numbers), "max_results": len(numbers)}
        return read_arxiv(await self._get("arxiv", "/api/query", members))

    async def _batch(self, ids: Sequence[PaperId]) -> list[Paper | None]:
        body = json_dump({"ids": [each.at_s2 for each in ids]}).encode()
        answer = await self._json("semanticscholar", "/graph/v1/paper/batch", {"fields": _S2_FIELDS}, body)
        return [read_s2(each) for each in as_array(answer)]

    async def _single(self, paper: PaperId) -> Paper | None:
        """Return a paper from OpenAlex, or by its DOI from Crossref. Raises ToolError."""
        if paper.at_openalex:
            path = f"/works/{quote(paper.at_openalex, safe=':/')}"
            try:
                return read_openalex(await self._json("openalex", path, {"select": _OPENALEX_FIELDS}))
            except ToolError:
                if paper.kind != "doi":
                    raise
        if paper.kind != "doi":
            return None
        answer = await self._json("crossref", f"/works/{quote(paper.value, safe='/')}", {})
        return read_crossref(as_object(answer).get("message"))

    async def attempt(self, asking: Awaitable[T], failures: list[str]) -> T | None:
        """Return an answer, or None after adding the reason to the failures."""
        try:
            return await asking
        except ToolError as error:
            failures.append(str(error))
            return None

    async def _json(self, name: str, path: str, members: Mapping[str, object], body: bytes = b"") -> object:
        """Fetch JSON from a service. Raises ToolError."""
        try:
            return json.loads(await self._get(name, path, members, body))
        except (ValueError, RecursionError):
            raise ToolError(f"{name}'s answer is not JSON.") from None

    async def _get(self, name: str, path: str, members: Mapping[str, object], body: bytes = b"") -> bytes:
        """Return the answer of a service. Raises ToolError."""
        row, own = PAPER_SERVICES[name], self._access.service(name)
        key = own.get("api_key") or os.environ.get(row.variable or "-", "")
        asked = {member: str(value) for member, value in members.items() if value != ""}
        if name == "crossref" and (email := own.get("email")):
            asked["mailto"] = email
        headers = {"accept": "application/atom+xml" if name == "arxiv" else "application/json"}
        if key and row.header:
            headers[row.header] = key
        if body:
            headers["content-type"] = "application/json"
        address = base_url(self._access, name) + path + (f"?{urlencode(asked)}" if asked else "")
        check_secrets(address, body.decode())
        if key and row.parameter:
            address += ("&" if asked else "?") + urlencode({row.parameter: key})
        request = WebRequest(parse_address(address), "POST" if body else "GET", headers, body)
        try:
            response = await self._access.fetch(
                request,
                self._run,
                interval=row.interval,
                alone=row.alone,
                fresh=DATA_LIFE_SECONDS,
                seconds=ANSWER_TIMEOUT_SECONDS,
                named="base_url" in own,
            )
        except ToolError as error:
            raise ToolError(str(error).replace(key, "KEY") if key else str(error)) from None
        if response.status == 404:
            raise ToolError(f"{name} does not know this: {path.rpartition('/')[2]}.")
        if response.status == 429:
            raise ToolError(f"{name} is busy (429). Try later{f', or set {row.variable}' if row.variable else ''}.")
        if response.status != 200 and not (name == "arxiv" and response.status == 400):
            raise ToolError(f"{name} answered {response.status}.")
        return response.body


def base_url(access: WebAccess, name: str) -> str:
    return access.service(name).get("base_url", PAPER_SERVICES[name].base_url).rstrip("/")


def reaching(access: WebAccess, services: Sequence[str], reason: str) -> Effect:
    """Return the effect of a call that asks services. Services that the person has set are left out."""
    hosts = [
        parse_address(base_url(access, name)).need
        for name in services
        if not access.service(name) and not os.environ.get(PAPER_SERVICES[name].variable or "-")
    ]
    return Effect("none", needs=tuple(dict.fromkeys(hosts)), reason=reason)


def _papers(read: Callable[[object], Paper | None], items: object) -> list[Paper]:
    return [paper for item in as_array(items) if (paper := read(item)) is not None]
