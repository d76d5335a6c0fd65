"""Text by unknown authors: hidden characters are removed before a model reads it, and active parts of a page before it
is posted."""

import re

from sagent.lib.text import fenced, printable
from sagent.transcript.redaction import Redaction

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_HIDDEN = re.compile(
    "[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff\ufff9-\ufffb]"
)
_MENTION = re.compile(r"(?<![\w`/.])@(?=[A-Za-z0-9])")
_LOADED = re.compile(r"<(?=/?(?:img|picture|source|video|audio|svg|a)\b|!)", re.IGNORECASE)
COMMAND = re.compile(r"^([^\S\n]*)/(?=\r*[A-Za-z])", re.MULTILINE)
"""A line that GitLab carries out with the rights of who posts it (docs.gitlab.com, quick actions), without regard to
carriage returns."""


def without_hidden(text: str) -> str:
    """Remove HTML comments and invisible characters."""
    return _HIDDEN.sub("", _COMMENT.sub("", text))


def for_page(text: str) -> str:
    """Return a model's words as Markdown for a page. They have no secrets, no comments that could forge a mark, no
    mentions of people, no pictures or links from elsewhere, and no lines that are commands."""
    clean = Redaction().text(printable(without_hidden(text)))
    clean = COMMAND.sub(r"\1&#47;", clean)
    clean = _LOADED.sub("&lt;", clean).replace("![", "!\\[")
    return _MENTION.sub("@\u200b", clean)


def block_for_page(text: str, language: str) -> str:
    """Return a text as it is, without secrets and invisible characters."""
    return fenced(Redaction().text(_HIDDEN.sub("", text)), language)
