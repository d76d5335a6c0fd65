"""A session as Markdown, to read or paste. Its texts stay text: possible markup is fenced."""

import re
from collections.abc import Iterator, Sequence
from typing import assert_never

from sagent.lib.json import json_dump, valid_text
from sagent.lib.text import fenced
from sagent.plugins.exports.session_page import VerificationSummary
from sagent.plugins.exports.steps import Consulted, MessageStep, Remark
from sagent.plugins.exports.timeline import Call, Shown, Timeline, TurnShown, advisor_of, verdict_of, words_of
from sagent.transcript.redaction import Redaction
from sagent.usage import Sum

_MARKUP = re.compile(r"[<&\\]|\]\s*[:(]|https?:|^ {0,3}(?:[#>|=~-]|```)|^\t| {4}", re.MULTILINE)
"""Anything that may not be plain words: markup, links, images, headings, rules."""


def write_markdown(timeline: Timeline, redaction: Redaction, checked: VerificationSummary) -> str:
    page = _Document(redaction)
    body = "".join(f"{line}\n" for each in timeline.shown for line in page.shown(each))
    found = redaction.count
    head = "".join(f"{line}\n" for line in page.head(timeline, checked))
    redaction.count = found  # secrets in a title are counted in its message
    return head + body


class _Document:
    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction

    def head(self, timeline: Timeline, checked: VerificationSummary) -> Iterator[str]:
        yield f"# {self._word(timeline.heading(self._redaction) or timeline.session or 'A session')}"
        yield ""
        git = str(timeline.environment.get("git_commit", ""))
        dirty = " with changes not committed" if timeline.environment.get("git_dirty") else ""
        rows = (
            ("Session", timeline.session), ("Directory", timeline.cwd), ("From", timeline.first), ("To", timeline.last),
            ("Git commit", f"{git}{dirty}" if git else ""), ("Cost", _usd(timeline.spent.whole)),
            ("Verified", checked.summary),
        )  # fmt: skip
        for name, value in rows:
            if value:
                yield f"- {name}: {self._word(value)}"
        if self._redaction.count:
            yield f"- Secrets taken out, recognized by their form: {self._redaction.count}"
        for problem in (*checked.problems, *timeline.damaged):
            yield f"- Problem: {self._word(problem)}"
        yield ""
        if timeline.spent.by_role:
            yield "| role | calls | tokens in | tokens out | cost |"
            yield "|---|---|---|---|---|"
            for role, sums in timeline.spent.by_role.items():
                usage = sums.usage
                yield f"| {self._word(role)} | {sums.charges} | {usage.total_input} | {usage.output} | {_usd(sums)} |"
            yield ""

    def shown(self, shown: Shown) -> Iterator[str]:
        calls: Sequence[Call] = ()
        match shown:
            case MessageStep(agent, text, sender):
                title = f"{sender or 'person'} to {agent}"
            case TurnShown(turn, number, calls):
                title, text = f"{turn.agent}, turn {number}: {turn.model}", turn.text
            case Consulted(agent, advice):
                title, text = f"{advisor_of(shown)} advises {agent}: {verdict_of(shown)}", advice.text
            case Remark(agent, kind):
                title, text = f"{agent}: {kind}", words_of(shown)
            case _:
                assert_never(shown)
        yield f"## {self._word(title)}"
        yield ""
        yield from self._text(text)
        for call in calls:
            yield from self._call(call)

    def _call(self, call: Call) -> Iterator[str]:
        yield f"Call of {self._word(call.name)}, {call.state or 'no result'}:"
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
        """Return a text within a line, as it is."""
        line = " ".join(self._clean(text).split())
        return re.sub(r"([\\`*_{}\[\]()#!|<>&~])", r"\\\1", line)


def _fenced(text: str, language: str = "text") -> Iterator[str]:
    yield fenced(text.replace("\r\n", "\n").replace("\r", "\n"), language)
    yield ""


def _usd(sums: Sum) -> str:
    return f"{'at least ' if sums.unpriced else ''}${sums.usd:.6f}"
