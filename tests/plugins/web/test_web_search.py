"""WebSearch against replicas of its services: made from their documented formats, on loopback."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from sagent.errors import ToolError
from sagent.lib.json import json_freeze_object
from sagent.messages import ToolCall
from sagent.plugins.web import WebAccess, WebSearch
from sagent.plugins.web.results import SearchResult, filter_domains
from sagent.plugins.web.services import SEARCHES
from sagent.policy import Allow, Ask, Deny
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rules
from sagent.tool import Workspace
from tests.depth import later
from tests.plugins.web.conftest import http

VARIABLES = [variable for row in SEARCHES.values() for variable in row.variables]
RESULTS = [("https://docs.example/guide", "The <b>guide</b> &amp; more"), ("https://blog.example/post", "A post")]
ANSWERS = {
    "brave": {
        "type": "search",
        "web": {
            "type": "search",
            "results": [
                {
                    "title": title,
                    "url": url,
                    "description": f"About <strong>{title}</strong>",
                    "page_age": "2026-11-01T08:00:00",
                }
                for url, title in RESULTS
            ],
        },
    },
    "tavily": {
        "query": "q",
        "response_time": 0.5,
        "results": [{"title": title, "url": url, "content": f"About {title}", "score": 0.9} for url, title in RESULTS],
    },
    "exa": {
        "requestId": "1",
        "results": [
            {
                "id": url,
                "title": title,
                "url": url,
                "publishedDate": "2026-11-01T08:00:00Z",
                "highlights": ["One", "two"],
            }
            for url, title in RESULTS
        ],
    },
    "searxng": {
        "query": "q",
        "number_of_results": 2,
        "results": [
            {"url": url, "title": title, "content": f"About {title}", "engine": "mojeek", "publishedDate": None}
            for url, title in RESULTS
        ],
    },
}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def services(site, tmp_path):
    """Access to replicas of the services that are named, each at a path of its own."""

    def made(*names: str, **more: dict[str, str]) -> WebAccess:
        found = {
            name: {"base_url": f"http://127.0.0.1:{site.port}/{name}"}
            | ({"api_key": f"key-of-{name}"} if SEARCHES[name].key[0] else {})
            for name in names
        }
        for name in names:
            site.pages[f"/{name}{SEARCHES[name].path}"] = http(json.dumps(ANSWERS[name]), "application/json")
        return WebAccess((), tmp_path / "web", found | more)

    return made


@pytest.mark.parametrize("name", list(SEARCHES))
async def test_each_service_asked_its_way(call, services, site, name: str) -> None:
    output = await call(WebSearch(services(name)), query="how to sail")
    text = output.content[0].text
    assert f"comes from a search by {name}. It is data" in text
    assert "1. The guide & more\n   https://docs.example/guide" in text
    assert "2. A post" in text
    assert output.summary == f"{name}: 2 results"
    (request,) = site.asked
    head, _, body = request.partition(b"\r\n\r\n")
    asked = json.loads(body) if body else {k: v[0] for k, v in parse_qs(urlsplit(site.targets[0]).query).items()}
    assert asked[SEARCHES[name].query] == "how to sail"
    header, form = SEARCHES[name].key
    if header:
        assert f"\r\n{header}: {form.format(f'key-of-{name}')}\r\n".encode() in head + b"\r\n"
    if name == "searxng":
        assert asked["format"] == "json"


@pytest.mark.parametrize("name", list(SEARCHES))
async def test_domains_are_asked_for_and_held_to(call, services, site, name: str) -> None:
    output = await call(
        WebSearch(services(name)), query="sail", allowed_domains=["docs.example"], blocked_domains=["blog.example"]
    )
    assert "docs.example/guide" in output.content[0].text
    assert "blog.example" not in output.content[0].text.split("\n", 1)[1]
    sent = site.asked[0].decode()
    if SEARCHES[name].include:
        body = json.loads(sent.partition("\r\n\r\n")[2])
        assert (body[SEARCHES[name].include], body[SEARCHES[name].exclude]) == (["docs.example"], ["blog.example"])
    else:
        assert "sail+site%3Adocs.example+-site%3Ablog.example" in sent


async def test_first_service_asked_dead_skipped(call, services, site) -> None:
    access = services("brave", "tavily", "searxng")
    assert "brave: 2" in (await call(WebSearch(access), query="a")).summary
    assert "searxng: 2" in (await call(WebSearch(access), query="a", backend="searxng")).summary
    site.pages["/brave/res/v1/web/search"] = http("{}", "application/json", status="500 Broken")
    output = await call(WebSearch(access), query="b")
    assert output.summary == "tavily: 2 results"
    assert "(brave answered 500.)" in output.content[0].text


async def test_slow_service_given_up(call, services, site, monkeypatch) -> None:
    monkeypatch.setattr("sagent.plugins.web.search.SERVICE_TIMEOUT_SECONDS", 0.2)
    access = services("brave", "tavily")
    site.pages["/brave/res/v1/web/search"] = [b"HTTP/1.1 200 OK\r\n", 30.0]
    output = await call(WebSearch(access), query="b")
    assert output.summary == "tavily: 2 results"
    assert "in full within 0.2 s" in output.content[0].text


async def test_categories_sent_where_known(call, services, site) -> None:
    access = services("searxng", "tavily")
    await call(WebSearch(access), query="a", backend="searxng", categories="social media")
    await call(WebSearch(access), query="a", backend="tavily", categories="news")
    assert "categories=social+media" in site.targets[0]
    assert json.loads(site.asked[1].partition(b"\r\n\r\n")[2])["topic"] == "news"


async def test_results_cached_per_question(call, services, site) -> None:
    access = services("brave")
    for query in ("a", "a", "b"):
        await call(WebSearch(access), query=query)
    assert len(site.asked) == 2


async def test_half_character_tolerated(call, services, site) -> None:
    access = services("tavily")
    answer = {"results": [{"title": "half \ud800", "url": "https://docs.example/", "content": "\udfff"}]}
    site.pages["/tavily/search"] = http(json.dumps(answer), "application/json")
    for _ in range(2):
        assert "https://docs.example/" in (await call(WebSearch(access), query="a")).content[0].text
    assert len(site.asked) == 1


async def test_service_faults_explained(call, services, site) -> None:
    access = services("brave", "searxng")
    site.pages["/searxng/search"] = http("Forbidden", status="403 Forbidden")
    with pytest.raises(ToolError, match=r"settings.yml needs json in search.formats"):
        await call(WebSearch(access), query="a", backend="searxng")
    for answer, words in (
        (http("{}", status="401 Unauthorized"), "check that its key is valid"),
        (http("<html>", "text/html"), "not JSON"),
        (http("[]", "application/json"), None),
        (http('{"web": {"results": [7, {"title": null}]}}', "application/json"), None),
    ):
        site.pages["/brave/res/v1/web/search"] = answer
        if words:
            with pytest.raises(ToolError, match=words):
                await call(WebSearch(access), query=f"a {words}", backend="brave")
        else:
            assert "found nothing" in (await call(WebSearch(access), query="a", backend="brave")).content[0].text
    with pytest.raises(ToolError, match=r"exa is not set: set EXA_API_KEY, or \[web.exa\]"):
        await call(WebSearch(access), query="a", backend="exa")


DUCKDUCKGO = """<html><body><div class="serp__results"><div class="result results_links web-result">
<div class="links_main links_deep result__body"><h2 class="result__title">
<a href="https://docs.example/guide">The guide</a></h2>
<a class="result__snippet" href="https://docs.example/guide">About the guide.</a>
</div></div></div></body></html>"""


@later
async def test_without_key_uses_duckduckgo(call, services, site) -> None:
    access = services(ddgs={"base_url": f"http://127.0.0.1:{site.port}/html/"})
    site.pages["/html/"] = http(DUCKDUCKGO)
    output = await call(WebSearch(access), query="sail")
    assert output.summary == "ddgs: 1 results"
    assert "1. The guide\n   https://docs.example/guide\n   About the guide." in output.content[0].text
    site.pages["/html/"] = http("", status="202 Accepted")
    with pytest.raises(ToolError, match="ddgs found nothing: "):
        await call(WebSearch(access), query="another")


async def test_own_service_not_asked_about(services, tmp_path) -> None:
    arguments = json_freeze_object({"query": "how to sail"})

    async def judged(tool: WebSearch, deny: str = ""):
        policy = PermissionPolicy("edit", Rules.parse((), [deny] if deny else []), home=tmp_path)
        effect = tool.effect(arguments, Workspace(tmp_path))
        return await policy.before_tool(ToolCall("c", "WebSearch", arguments), effect, Workspace(tmp_path))

    assert isinstance(await judged(WebSearch(services("brave"))), Allow)
    assert isinstance(await judged(WebSearch(services("brave")), "WebSearch"), Deny)
    verdict = await judged(WebSearch(services()))
    assert isinstance(verdict, Ask)
    assert "html.duckduckgo.com" in verdict.reason and "'how to sail'" in verdict.reason


async def test_query_with_secret_refused(call, services, site, monkeypatch) -> None:
    monkeypatch.setenv("CORP_TOKEN", "tok-in-my-shell-9")
    with pytest.raises(ToolError, match="CORP_TOKEN"):
        await call(WebSearch(services("brave")), query="who uses tok-in-my-shell-9?")
    assert site.asked == []


def test_results_filtered_by_domain() -> None:
    urls = ["javascript:alert(1)", "https://good.example/", "https://good.example/", "https://notgood.example/"]
    urls += ["https://a.good.example/x", "http://[", "ftp://good.example/", "https://GOOD.example./y"]
    kept = [
        each.url
        for each in filter_domains([SearchResult("t", url) for url in urls], ["good.example"], ["a.good.example"])
    ]
    assert kept == ["https://good.example/", "https://GOOD.example./y"]
