"""The parts of a self-contained page: no network, no other file, and no script but its own.

Everything from a model, a tool or a file is text: escaped, and the page's policy only runs and loads parts named by
their sha256.
"""

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sagent.lib.json import valid_text

UNSAFE = {
    **{code: 0x2400 + code for code in range(32) if code not in (9, 10)},
    127: 0x2421,
    **{code: f"[U+{code:04X}]" for code in range(0x80, 0xA0)},
    **{code: f"[U+{code:04X}]" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)},
}
"""Pictures of control characters, and names of characters that change a text's direction."""


def escape(text: str) -> str:
    """Return a text of theirs as text of a page."""
    return html.escape(valid_text(text).translate(UNSAFE))


def page(title: str, header: str, main: str, footer: str, skip_to: str, *, style: str = "", script: str = "") -> str:
    """Return the whole page; a link at its top skips to the section `skip_to`. `style` is added to the common one."""
    style = Path(__file__).with_name("page.css").read_text("utf-8") + style
    scripts, code, images = f"script-src '{_source(script)}'; ", f"<script>{script}</script>\n", "img-src data:; "
    policy = (
        f"default-src 'none'; style-src '{_source(style)}'; {scripts + images if script else ''}"
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title} · sagent</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<a class="skip" href="#{skip_to}">Skip to the {skip_to}</a>\n'
        f"<header>\n<h1>{title}</h1>\n{header}</header>\n<main>\n{main}"
        f"</main>\n<footer>{footer}</footer>\n{code if script else ''}</body>\n</html>\n"
    )


def policy_of(page: str) -> str:
    """Return the policy of a page, for servers to send in a header too."""
    match = _POLICY.search(page)
    return html.unescape(match[1]) if match else "default-src 'none'"


_POLICY = re.compile('<meta http-equiv="Content-Security-Policy" content="([^"]*)">')


def section(name: str, title: str, *parts: str) -> str:
    """Return a part of the page with its heading; "" if it is empty."""
    head = f'<section aria-labelledby="{name}">\n<h2 id="{name}" tabindex="-1">{title}</h2>\n'
    return "".join((head, *parts, "</section>\n")) if any(parts) else ""


def contents(main: str) -> str:
    """Return the way to the sections of a page."""
    links = "".join(f'<a href="#{name}">{title}</a>\n' for name, title in _HEADING.findall(main))
    return f'<nav aria-label="Sections">{links}</nav>\n'


_HEADING = re.compile(r'<h2 id="(\w+)" tabindex="-1">([^<]*)</h2>')


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], label: str, caption: str = "", kind: str = "") -> str:
    """Return a table of HTML cells, which scrolls separately if it is wide. The first cell of a row is its title."""
    columns = "".join(f'<th scope="col">{name}</th>' for name in heads)
    body = "".join(f"<tr>{''.join(_cells(heads, row))}</tr>\n" for row in rows)
    named = f"<caption>{caption}</caption>" if caption else ""
    start = f'<table class="{kind}">' if kind else "<table>"
    return (
        f'<div class="wide" tabindex="0" role="group" aria-label="{label}">{start}{named}'
        f"<thead><tr>{columns}</tr></thead><tbody>\n{body}</tbody></table></div>\n"
    )


def _cells(heads: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    """Yield each with the name of its column, which precedes it on a narrow screen."""
    yield f'<th scope="row">{row[0]}</th>'
    for name, cell in zip(heads[1:], row[1:], strict=True):
        yield f'<td data-name="{name}">{cell}</td>'


def _source(text: str) -> str:
    """Return the hash-source of an inline style or script for a content security policy (CSP level 3)."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
