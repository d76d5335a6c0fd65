"""Search results: parsed from a service's answer, filtered by domain, and listed."""

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_object, as_str
from sagent.plugins.web.services import SearchService

MAX_RESULTS = 10
_MAX_TEXT_CHARS = 500  # of a result's text
_TAG = re.compile(r"<[^<>]{0,200}>")


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A search result."""

    title: str
    url: str
    text: str = ""
    date: str = ""


def read_found(answer: object, service: SearchService) -> Iterator[SearchResult]:
    """Yield the valid results in an answer."""
    for name in service.found.split("."):
        answer = as_object(answer).get(name)
    for item in map(as_object, as_array(answer)):
        text = next(filter(None, (_text(item.get(name)) for name in service.text)), "")
        date = next(filter(None, (as_str(item.get(name)) for name in service.date)), "")
        yield SearchResult(_text(item.get("title")), as_str(item.get("url")), text, date)


def _text(value: object) -> str:
    """Return a text without markup, on one line."""
    joined = value if isinstance(value, str) else " … ".join(map(as_str, as_array(value)))
    return " ".join(html.unescape(_TAG.sub("", joined)).split())


def filter_domains(
    results: Iterable[SearchResult], allowed: Sequence[str], blocked: Sequence[str]
) -> Iterator[SearchResult]:
    """Yield the results in allowed domains, if there are any such, and outside blocked ones; each once."""
    seen = set[str]()
    for result in results:
        try:
            parts = urlsplit(result.url)
            host = (parts.hostname or "").lower().rstrip(".")
        except ValueError:
            continue
        if parts.scheme not in ("http", "https") or not host or result.url in seen:
            continue
        if (not allowed or any(_lies_in(host, name) for name in allowed)) and not any(
            _lies_in(host, name) for name in blocked
        ):
            seen.add(result.url)
            yield result


def _lies_in(host: str, domain: str) -> bool:
    domain = domain.lower().removeprefix("*.").strip(".")
    return host == domain or host.endswith(f".{domain}")


def format_results(results: Sequence[SearchResult]) -> str:
    """Results as a numbered list."""
    lines: list[str] = []
    for number, each in enumerate(results[:MAX_RESULTS], 1):
        lines.append(f"{number}. {each.title or '(no title)'}\n   {each.url}")
        said = " · ".join(filter(None, (each.date[:10], each.text[:_MAX_TEXT_CHARS])))
        lines += [f"   {said}"] if said else []
    return "\n".join(lines)


def encode(results: Sequence[SearchResult]) -> dict[str, object]:
    """Results as JSON."""
    return {"found": [[result.title, result.url, result.text, result.date] for result in results]}


def decode(stored: Mapping[str, object]) -> list[SearchResult]:
    """Results of `encode`."""
    return [SearchResult(*map(as_str, as_array(each))) for each in as_array(stored.get("found"))]
