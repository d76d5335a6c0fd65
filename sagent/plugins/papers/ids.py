"""Ids of papers, of every kind, read from text and from addresses."""

import re
from typing import Literal, TypeAlias, cast

from sagent.errors import ToolError
from sagent.lib.dataclass import dataclass

Kind: TypeAlias = Literal["arxiv", "doi", "s2", "corpus", "openalex", "pmid", "pmc"]

_ARXIV = r"(?P<arxiv>\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})(?:v\d+)?"
_DOI = r"(?P<doi>10\.\d{4,9}/[^\s?#]+)"
_SHAPES = tuple(
    re.compile(shape, re.IGNORECASE)
    for shape in (
        rf"(?:arxiv:\s*|https?://(?:www\.|export\.)?arxiv\.org/(?:abs|pdf|html)/)?{_ARXIV}(?:\.pdf)?/?",
        rf"(?:doi:\s*|https?://(?:dx\.|www\.)?doi\.org/)?{_DOI}",
        r"(?:s2:\s*|https?://(?:www\.|api\.)?semanticscholar\.org/\S*?)?(?P<s2>[0-9a-f]{40})",
        r"corpus(?:id)?:\s*(?P<corpus>\d+)",
        r"(?:openalex:\s*|https?://(?:api\.)?openalex\.org/(?:works/)?)?(?P<openalex>W\d{3,})",
        r"(?:pmid:\s*|https?://(?:www\.)?pubmed\.ncbi\.nlm\.nih\.gov/)(?P<pmid>\d{1,9})/?",
        r"(?:pmc(?:id)?:\s*|https?://\S*?/)?(?P<pmc>PMC\d{3,})/?",
        r"https?://[^\s/]+/\S*?" + _DOI,  # publishers put it into their addresses
    )
)
_ARXIV_DOI = "10.48550/arxiv."
_AT_S2 = {"arxiv": "ARXIV", "doi": "DOI", "corpus": "CorpusId", "pmid": "PMID", "pmc": "PMCID"}
_AT_OPENALEX = {"doi": "doi", "pmid": "pmid", "pmc": "pmcid"}


@dataclass(frozen=True, slots=True)
class PaperId:
    """The id of a paper, in its normal spelling: arXiv ids without a version, DOIs in lower case."""

    kind: Kind
    value: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.value}"

    @property
    def at_s2(self) -> str:
        """The id in Semantic Scholar's form; "" if it knows no ids of this kind."""
        return self.value if self.kind == "s2" else f"{_AT_S2[self.kind]}:{self.value}" if self.kind in _AT_S2 else ""

    @property
    def at_openalex(self) -> str:
        """The id in OpenAlex's form; "" if it knows no ids of this kind."""
        if self.kind == "openalex":
            return self.value
        if self.kind == "arxiv":
            return f"doi:{_ARXIV_DOI}{self.value}"
        return f"{_AT_OPENALEX[self.kind]}:{self.value}" if self.kind in _AT_OPENALEX else ""


def parse_id(text: str) -> PaperId:
    """Read an id or the address of a paper. Raises ToolError that lists the accepted forms."""
    plain = text.strip().rstrip(".,;")
    for shape in _SHAPES:
        if (match := shape.fullmatch(plain)) is None:
            continue
        kind, value = next((kind, value) for kind, value in match.groupdict().items() if value)
        if kind == "doi":
            value = value.lower()
            if value.startswith(_ARXIV_DOI):
                return PaperId("arxiv", value.removeprefix(_ARXIV_DOI))
        elif kind in ("openalex", "pmc"):
            value = value.upper()
        elif kind == "s2":
            value = value.lower()
        return PaperId(cast("Kind", kind), value)
    raise ToolError(
        f"{text[:100]!r} is not the id of a paper. Give an arXiv id (2401.00001, hep-th/9901001), a DOI (10.1000/x), "
        "PMID:123, PMC123, an id of Semantic Scholar or OpenAlex, or the address of one of these."
    )
