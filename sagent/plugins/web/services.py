"""The services that can be configured by name: for searching pages and papers, and the reader of pages."""

from collections.abc import Mapping
from dataclasses import field
from typing import cast

from sagent.config.files import GivenTable
from sagent.config.values import text_of, url
from sagent.lib.dataclass import dataclass
from sagent.plugin import RefusedError


@dataclass(frozen=True, slots=True)
class SearchService:
    """A service that finds pages, as data: its address, request, and the places of results in its answer.

    `query`, `include` and `exclude` name members of the request, in the URL or, if `posted`, in JSON; a service without
    the latter two gets "site:" terms in the query. `key` is a header, with "{}" for the key, and `variables` those that
    may have the key, or the address of a service without key. `found` is the path to the list of results, the others
    are members of each. `categories` are members to add for one, "*" for any.
    """

    base_url: str
    path: str
    query: str
    found: str
    text: tuple[str, ...]
    variables: tuple[str, ...]
    key: tuple[str, str] = ("", "")
    posted: bool = False
    members: Mapping[str, object] = field(default_factory=dict[str, object])
    include: str = ""
    exclude: str = ""
    date: tuple[str, ...] = ()
    categories: Mapping[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])
    interval: float = 1.0


SEARCHES: Mapping[str, SearchService] = {
    # https://api-dashboard.search.brave.com/app/documentation/web-search
    "brave": SearchService(
        base_url="https://api.search.brave.com",
        path="/res/v1/web/search",
        query="q",
        members={"count": 10},
        found="web.results",
        text=("description",),
        date=("page_age", "age"),
        variables=("BRAVE_API_KEY", "BRAVE_SEARCH_API_KEY"),
        key=("x-subscription-token", "{}"),
        categories={"news": {"result_filter": "web,news"}},
        interval=0.1,
    ),
    # https://docs.tavily.com/documentation/api-reference/endpoint/search
    "tavily": SearchService(
        base_url="https://api.tavily.com",
        path="/search",
        query="query",
        posted=True,
        members={"max_results": 10, "search_depth": "basic"},
        include="include_domains",
        exclude="exclude_domains",
        found="results",
        text=("content",),
        date=("published_date",),
        variables=("TAVILY_API_KEY",),
        key=("authorization", "Bearer {}"),
        categories={"news": {"topic": "news"}},
        interval=0.1,
    ),
    # https://docs.exa.ai/reference/search
    "exa": SearchService(
        base_url="https://api.exa.ai",
        path="/search",
        query="query",
        posted=True,
        members={"type": "auto", "numResults": 10, "contents": {"highlights": True}},
        include="includeDomains",
        exclude="excludeDomains",
        found="results",
        text=("highlights", "text"),
        date=("publishedDate",),
        variables=("EXA_API_KEY",),
        key=("x-api-key", "{}"),
        categories={"news": {"category": "news"}, "science": {"category": "research paper"}},
        interval=0.2,
    ),
    # https://docs.searxng.org/dev/search_api.html
    "searxng": SearchService(
        base_url="",
        path="/search",
        query="q",
        members={"format": "json"},
        found="results",
        text=("content",),
        date=("publishedDate",),
        variables=("SEARXNG_URL",),
        categories={"*": {"categories": "{}"}},
        interval=0.5,
    ),
}
"""In the order in which configured ones are asked."""

PAPERS = ("arxiv", "semanticscholar", "openalex", "crossref", "unpaywall")
SERVICES = ("reader", *SEARCHES, "native", "ddgs", *PAPERS)
_MEMBERS = ("base_url", "api_key", "email", "model")


def read_services(given_table: GivenTable) -> Mapping[str, Mapping[str, str]]:
    """Read `[web.NAME]`: a service of searches or papers, by its `base_url`, `api_key` and `email`, or the "reader" of
    pages, by its `model`. Raises ConfigError with file and line."""
    file, table = given_table.file, given_table.rows()
    for name, given in table.items():
        if name not in SERVICES:
            raise file.unknown(("web", name), tuple(SERVICES))
        for key, value in given.items():
            if key not in _MEMBERS:
                raise file.unknown(("web", name, key), _MEMBERS)
            try:
                (url if key == "base_url" else text_of)(value)
            except RefusedError as error:
                raise file.error(("web", name, key), f"web.{name}.{key} is not accepted: {error}") from None
    return cast("Mapping[str, Mapping[str, str]]", table)


def is_configured(services: object, environ: Mapping[str, str]) -> bool:
    """Return True if the settings or the environment name a service that searches."""
    named = cast("Mapping[str, Mapping[str, str]]", services)
    variables = (variable for row in SEARCHES.values() for variable in row.variables)
    return "native" in named or not SEARCHES.keys().isdisjoint(named) or any(map(environ.get, variables))
