"""A session as Markdown, to be read or pasted. Texts of the session stay text: what could be markup is fenced."""

import re
from collections.abc import Iterator

from sagent.lib.json import json_dump, valid_text
from sagent.transcript.export_html import Checked
from sagent.transcript.export_record import Block, Call, Record, Sums
from sagent.transcript.export_redaction import Redaction

_MARKUP = re.compile(r"[<&\\]|\]\s*[:(]|https?:|^ {0,3}(?:[#>|=~-]|```)|^\t| {4}", re.MULTILINE)
"""What could be anything but plain words: markup, links, images, headings, rules."""


def write_markdown(record: Record, redaction: Redaction, checked: Checked) -> str:
    """The document."""
    page = _Document(redaction)
    body = "".join(f"{line}\n" for block in record.blocks for line in page.block(block))
    found = redaction.count
    head = "".join(f"{line}\n" for line in page.head(record, checked))
    redaction.count = found  # what was taken out of a title is counted where it was said
    return head + body


class _Document:
    """The lines of one document."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction

    def head(self, record: Record, checked: Checked) -> Iterator[str]:
        """What it was and what it cost."""
        yield f"# {self._word(record.title or record.session or 'A session')}"
        yield ""
        git = str(record.environment.get("git_commit", ""))
        dirty = " with changes not committed" if record.environment.get("git_dirty") else ""
        rows = (
            ("Session", record.session), ("Directory", record.cwd), ("From", record.first), ("To", record.last),
            ("Git commit", f"{git}{dirty}" if git else ""), ("Cost", _usd(record.total)), ("Verified", checked.summary),
        )  # fmt: skip
        for name, value in rows:
            if value:
                yield f"- {name}: {self._word(value)}"
        if self._redaction.count:
            yield f"- Secrets taken out, by their shape: {self._redaction.count}"
        for problem in (*checked.problems, *record.damaged):
            yield f"- Problem: {self._word(problem)}"
        yield ""
        if record.by_role:
            yield "| role | calls | tokens in | tokens out | cost |"
            yield "|---|---|---|---|---|"
            for role, sums in record.by_role.items():
                usage = sums.usage
                yield f"| {self._word(role)} | {sums.calls} | {usage.total_input} | {usage.output} | {_usd(sums)} |"
            yield ""

    def block(self, block: Block) -> Iterator[str]:
        """One thing that happened."""
        match block.kind:
            case "said":
                title = f"{block.title} to {block.agent}"
            case "turn":
                title = f"{block.agent}, turn {block.number}: {block.title}"
            case "advice":
                title = f"{block.title} advises {block.agent}: {block.status}"
            case _:
                title = f"{block.agent}: {block.title}"
        yield f"## {self._word(title)}"
        yield ""
        yield from self._text(block.text)
        for call in block.calls:
            yield from self._call(call)

    def _call(self, call: Call) -> Iterator[str]:
        state = "denied" if call.denied else "failed" if call.failed else "done" if call.done else "no result"
        yield f"Call of {self._word(call.name)}, {state}:"
        yield ""
        arguments = self._redaction.value(dict(call.arguments))
        yield from _fenced(valid_text(json_dump(arguments)))
        if call.diff:
            yield from _fenced(self._clean(call.diff), "diff")
        if call.result:
            yield from _fenced(self._clean(call.result))

    def _text(self, text: str) -> Iterator[str]:
        clean = self._clean(text).strip("\n")
        if not clean.strip():
            return
        if _MARKUP.search(clean):
            yield from _fenced(clean)
        else:
            yield clean
            yield ""

    def _clean(self, text: str) -> str:
        return valid_text(self._redaction.text(text))

    def _word(self, text: str) -> str:
        """A text within a line, as it is."""
        line = " ".join(self._clean(text).split())
        return re.sub(r"([\\`*_{}\[\]()#!|<>&~])", r"\\\1", line)


def _fenced(text: str, language: str = "text") -> Iterator[str]:
    """A block that ends where it should, whatever is in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}{language}"
    yield text.replace("\r\n", "\n").replace("\r", "\n")
    yield fence
    yield ""


def _usd(sums: Sums) -> str:
    return f"{'at least ' if sums.unpriced else ''}{sums.usd:.6f} USD"
