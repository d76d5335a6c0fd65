"""Reads an advisor's answer, leniently, because it is a model's prose."""

import json
import re
from typing import NamedTuple

from sagent.events import AdviceVerdict
from sagent.lib.json import as_array, as_object, as_str

MAX_GAPS = 3
_WORDS: dict[str, AdviceVerdict] = {
    "proceed": "proceed", "continue": "proceed", "adjust": "adjust", "revise": "adjust",
    "stop": "stop", "halt": "stop", "abort": "stop",
}  # fmt: skip
_FIRST: dict[str, AdviceVerdict] = {"go": "proceed", "ok": "proceed", "change": "adjust", "correction": "adjust"}
"""Words that are a verdict only at the beginning."""
_NOT = frozenset({"not", "don", "never", "no", "nothing", "without", "cannot", "isn", "needn"})
_ALONE = re.compile(r"\W*(\w+)\W*(?:[.:!\u2014]|$)", re.MULTILINE)
_LINE = re.compile(
    r"\s*+(?:[-*#>]++\s*+)?[*_`]*+(verdict|status|gaps?|risks?|next(?:[ _]steps?)?|do[ -]next|check)"
    r"\s*+\d*+[*_`]*+\s*+[:=]\s*+[*_]*+\s*+(.*)$",
    re.IGNORECASE,
)
_ITEM = re.compile(r"^\s*(?:[-*]|\d+[.)])\s+(.*)$")
_FENCE = re.compile(r"^\s*```\w*\s*$")
_NOTHING = frozenset({"", "none", "none.", "n/a", "-", "no", "nothing"})


class Reading(NamedTuple):
    """The parts of an answer; missing ones are "" or ()."""

    verdict: AdviceVerdict = ""
    gaps: tuple[str, ...] = ()
    next: str = ""
    check: str = ""


def read_advice(text: str) -> Reading:
    """Parse an answer. Without any of the expected words it is still advice, with empty parts."""
    lines = _read_lines(text)
    if lines.verdict:
        return lines
    if found := _read_json(text):
        return found
    first = _ALONE.match(text.strip())  # "Proceed." or "STOP: ..." has no other recognizable words
    return lines._replace(verdict=_WORDS.get(first[1].lower(), "")) if first else lines


def _read_lines(text: str) -> Reading:
    found: dict[str, list[str]] = {"verdict": [], "gap": [], "next": [], "check": []}
    at = ""
    for line in text.splitlines():
        if _FENCE.match(line):
            continue
        if match := _LINE.match(line):
            at = _section(match[1])
            if match[2].strip():
                found[at].append(_plain(match[2]))
        elif at == "gap" and (item := _ITEM.match(line)):
            found["gap"].append(_plain(item[1]))
        elif not line.strip():
            at = at if not found.get(at) else ""
        elif at == "gap" and found["gap"]:  # a line that was broken
            found["gap"][-1] += f" {_plain(line)}"
        elif at in ("next", "check"):
            found[at].append(_plain(line))
    gaps = [gap for gap in found["gap"] if gap.lower() not in _NOTHING]
    check = "\n".join(found["check"])
    return Reading(
        _verdict(" ".join(found["verdict"])),
        tuple(gaps[:MAX_GAPS]),
        " ".join(found["next"]),
        "" if check.lower() in _NOTHING else check,
    )


def _read_json(text: str) -> Reading | None:
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        body = as_object(json.loads(text[start : end + 1]))
    except (ValueError, RecursionError):
        return None
    verdict = _verdict(as_str(body.get("verdict")) or as_str(body.get("status")))
    if not verdict:
        return None
    gaps = body.get("gaps", body.get("risks"))
    return Reading(
        verdict,
        tuple(str(gap) for gap in ([gaps] if isinstance(gaps, str) else as_array(gaps)))[:MAX_GAPS],
        as_str(body.get("next")) or as_str(body.get("next_step")),
        as_str(body.get("check")),
    )


def _section(word: str) -> str:
    first = word.lower()[:2]
    return {"ve": "verdict", "st": "verdict", "ga": "gap", "ri": "gap", "ch": "check"}.get(first, "next")


def _verdict(text: str) -> AdviceVerdict:
    """Return the first verdict that is not negated ("no need to stop"). A list of all three is none."""
    low = text.lower()
    words = re.findall(r"[a-z]+", low)
    if len({_WORDS[word] for word in words if word in _WORDS}) > 2:
        return ""
    if words and words[0] in _FIRST:
        return _FIRST[words[0]]
    for clause in re.split(r"[,;.:!?\u2014]", low):
        words = re.findall(r"[a-z]+", clause)
        for place, word in enumerate(words):
            if word in _WORDS and _NOT.isdisjoint(words[:place]):
                return _WORDS[word]
    return ""


def _plain(text: str) -> str:
    """Return a line without markdown marks, including backticks around all of it."""
    line = text.strip().strip("*_").strip()
    return line[1:-1] if len(line) > 1 and line[0] == line[-1] == "`" and "`" not in line[1:-1] else line
