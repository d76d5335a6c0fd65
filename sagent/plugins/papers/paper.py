"""The data of a paper, joined from several services, listed, and as BibTeX."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace

from sagent.lib.dataclass import dataclass

_K = 60  # of reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009)
_SPECIAL = re.compile(r"([&%$#_{}])")
_MAX_AUTHORS = 8


@dataclass(frozen=True, slots=True)
class Paper:
    """`pdf` is the address of its free PDF."""

    title: str
    authors: tuple[str, ...] = ()
    year: int = 0
    venue: str = ""
    abstract: str = ""
    doi: str = ""
    arxiv: str = ""
    s2: str = ""
    openalex: str = ""
    pmid: str = ""
    citations: int = -1
    pdf: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that identify the same paper at another service."""
        found = (("doi", self.doi), ("arxiv", self.arxiv), ("title", f"{_plain(self.title)} {self.year or ''}"))
        return tuple(f"{kind}:{value}" for kind, value in found if value.strip())

    def merged(self, other: "Paper") -> "Paper":
        """Return the paper, its missing fields filled from another."""
        empty = Paper("")
        missing = {
            field.name: getattr(other, field.name)
            for field in fields(self)
            if getattr(self, field.name) == getattr(empty, field.name)
        }
        return replace(self, **missing)

    def listed(self, number: int, most_abstract: int) -> str:
        """Return a few lines for a model."""
        more = len(self.authors) - _MAX_AUTHORS
        who = ", ".join(self.authors[:_MAX_AUTHORS]) + (f" and {more} more" if more > 0 else "")
        ids = {"arXiv": self.arxiv, "doi": self.doi, "S2": self.s2, "OpenAlex": self.openalex, "PMID": self.pmid}
        named = "  ".join(f"{name}:{value}" for name, value in ids.items() if value)
        cited = f"cited {self.citations} times" if self.citations >= 0 else ""
        facts = " · ".join(filter(None, (who, str(self.year or ""), self.venue, cited)))
        abstract = self.abstract[:most_abstract] + ("…" if len(self.abstract) > most_abstract else "")
        lines = [facts, named, f"pdf: {self.pdf}" if self.pdf else "", abstract]
        return "\n   ".join([f"{number}. {self.title or '(no title)'}", *filter(None, lines)])

    def bibtex(self) -> str:
        """Return an entry for BibTeX."""
        last = _plain(next(iter("".join(self.authors[:1]).split()[-1:]), "")) or "anon"
        word = next((word for word in _plain(self.title).split() if len(word) > 3), "paper")
        members = {
            "title": f"{{{_escape(self.title)}}}",
            "author": " and ".join(map(_escape, self.authors)),
            "year": str(self.year or ""),
            "journal": "" if self._is_preprint else _escape(self.venue),
            "doi": self.doi,
            "eprint": self.arxiv,
            "archiveprefix": "arXiv" if self.arxiv else "",
        }
        body = ",\n".join(f"  {name} = {{{value}}}" for name, value in members.items() if value)
        return f"@{'misc' if self._is_preprint else 'article'}{{{last}{self.year or ''}{word},\n{body}\n}}"

    @property
    def _is_preprint(self) -> bool:
        return bool(self.arxiv) and self.venue.lower() in ("", "arxiv", "arxiv.org", "arxiv (cornell university)")


def listed(papers: Sequence[Paper], most_abstract: int = 0) -> str:
    """Return a numbered list for a model, with this many characters of each abstract."""
    lines = (paper.listed(number, most_abstract) for number, paper in enumerate(papers, 1))
    return "\n".join(lines) or "(none are known)"


def fuse(rankings: Iterable[Sequence[Paper]]) -> list[Paper]:
    """Combine rankings into one, by reciprocal ranks. A paper in several of them counts once."""
    papers: dict[int, Paper] = {}
    scores: dict[int, float] = {}
    known: dict[str, int] = {}
    for ranking in rankings:
        for rank, paper in enumerate(ranking):
            place = next((known[key] for key in paper.keys if key in known), len(papers))
            papers[place] = papers[place].merged(paper) if place in papers else paper
            scores[place] = scores.get(place, 0.0) + 1 / (_K + rank)
            known |= dict.fromkeys((*paper.keys, *papers[place].keys), place)
    return [papers[place] for place in sorted(papers, key=lambda place: -scores[place])]


def _plain(text: str) -> str:
    """Letters and digits in lower case, without accents."""
    letters = unicodedata.normalize("NFKD", text.lower())
    return " ".join(re.sub(r"[^a-z0-9 ]", "", re.sub(r"[\s_-]+", " ", letters)).split())


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text.replace("\\", ""))
