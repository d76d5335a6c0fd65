"""Readers of the services' answers, each in its own format."""

import re
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree as ET

from sagent.errors import ToolError
from sagent.lib.json import as_array, as_int, as_object, as_str
from sagent.plugins.papers.paper import Paper

_ATOM = {"a": "http://www.w3.org/2005/Atom", "x": "http://arxiv.org/schemas/atom"}
_TAG = re.compile(r"<[^<>]{1,200}>")


def read_arxiv(data: bytes) -> list[Paper]:
    """Return an Atom feed. Errors come as a feed, too, with any status. Raises ToolError."""
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise ToolError("arXiv's answer is not Atom.")
    try:
        feed = ET.fromstring(data)  # noqa: S314 -- without entities, which are refused above
    except ET.ParseError:
        raise ToolError("arXiv's answer is not Atom.") from None
    return list(_arxiv_entries(feed))


def _arxiv_entries(feed: ET.Element) -> Iterator[Paper]:
    for entry in feed.iterfind("a:entry", _ATOM):
        address = _line(entry.findtext("a:id", "", _ATOM))
        if "/api/errors" in address:
            raise ToolError(f"arXiv says: {_line(entry.findtext('a:summary', '', _ATOM))}")
        match = re.search(r"/abs/(.+?)(?:v\d+)?$", address)
        if match is None:
            continue
        names = (_line(name.text or "") for name in entry.iterfind("a:author/a:name", _ATOM))
        year = _line(entry.findtext("a:published", "", _ATOM))[:4]
        yield Paper(
            title=_line(entry.findtext("a:title", "", _ATOM)),
            authors=tuple(names),
            year=int(year) if year.isdecimal() else 0,
            venue=_line(entry.findtext("x:journal_ref", "", _ATOM)) or "arXiv",
            abstract=_line(entry.findtext("a:summary", "", _ATOM)),
            doi=_line(entry.findtext("x:doi", "", _ATOM)).lower(),
            arxiv=match[1],
            pdf=f"https://arxiv.org/pdf/{match[1]}",
        )


def read_s2(item: object) -> Paper | None:
    """Return a paper of Semantic Scholar; None for a paper that it does not know."""
    found = as_object(item)
    if not found.get("title"):
        return None
    ids = as_object(found.get("externalIds"))
    return Paper(
        title=_line(as_str(found.get("title"))),
        authors=tuple(as_str(as_object(author).get("name")) for author in as_array(found.get("authors"))),
        year=as_int(found.get("year")),
        venue=as_str(found.get("venue")),
        abstract=_line(as_str(found.get("abstract"))),
        doi=as_str(ids.get("DOI")).lower(),
        arxiv=as_str(ids.get("ArXiv")),
        s2=as_str(found.get("paperId")),
        pmid=as_str(ids.get("PubMed")),
        citations=as_int(found.get("citationCount"), -1),
        pdf=as_str(as_object(found.get("openAccessPdf")).get("url")),
    )


def read_openalex(item: object) -> Paper | None:
    """Return a work of OpenAlex."""
    found = as_object(item)
    if not (title := as_str(found.get("title")) or as_str(found.get("display_name"))):
        return None
    ids, best = as_object(found.get("ids")), as_object(found.get("best_oa_location"))
    place = as_object(as_object(found.get("primary_location")).get("source"))
    doi = as_str(found.get("doi")).lower().removeprefix("https://doi.org/")
    arxiv = doi.removeprefix("10.48550/arxiv.") if doi.startswith("10.48550/arxiv.") else ""
    people = (as_object(as_object(authorship).get("author")) for authorship in as_array(found.get("authorships")))
    return Paper(
        title=_line(title),
        authors=tuple(as_str(person.get("display_name")) for person in people),
        year=as_int(found.get("publication_year")),
        venue=as_str(place.get("display_name")),
        abstract=_rebuilt(as_object(found.get("abstract_inverted_index"))),
        doi="" if arxiv else doi,
        arxiv=arxiv,
        openalex=as_str(found.get("id")).rpartition("/")[2],
        pmid=as_str(ids.get("pmid")).rpartition("/")[2],
        citations=as_int(found.get("cited_by_count"), -1),
        pdf=as_str(best.get("pdf_url")) or as_str(as_object(found.get("open_access")).get("oa_url")),
    )


def read_crossref(item: object) -> Paper | None:
    """Return a work of Crossref."""
    found = as_object(item)
    titles = [as_str(each) for each in as_array(found.get("title"))]
    if not titles:
        return None
    people = (as_object(each) for each in as_array(found.get("author")))
    names = (
        " ".join(filter(None, (as_str(each.get("given")), as_str(each.get("family")) or as_str(each.get("name")))))
        for each in people
    )
    dates = as_array(as_object(found.get("issued")).get("date-parts"))
    return Paper(
        title=_line(titles[0]),
        authors=tuple(names),
        year=as_int(next(iter(as_array(next(iter(dates), ()))), 0)),
        venue=next(map(as_str, as_array(found.get("container-title"))), ""),
        abstract=_line(as_str(found.get("abstract"))),
        doi=as_str(found.get("DOI")).lower(),
        citations=as_int(found.get("is-referenced-by-count"), -1),
    )


def _rebuilt(index: Mapping[str, object]) -> str:
    """Return an abstract from the places of its words."""
    places = {as_int(place, -1): word for word, at in index.items() for place in as_array(at)}
    return " ".join(places[place] for place in sorted(places))


def _line(text: str) -> str:
    """Return a text on one line, without markup (Crossref sends JATS)."""
    return " ".join(_TAG.sub(" ", text).split())
