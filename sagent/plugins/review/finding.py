"""A finding of a review: its place, its severity, the fault, and a suggestion."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_int, as_object, as_str
from sagent.plugins.review.changes import Changes, FileDiff

Severity: TypeAlias = Literal["critical", "high", "medium", "low"]
SEVERITIES: tuple[Severity, ...] = ("critical", "high", "medium", "low")
NEAR = 3  # a finding this many lines from a diff's shown line is moved there

SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "summary": {"type": "string", "description": "What the change does and whether it is sound, in 1-3 sentences"},
        "findings": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "file": {"type": "string", "description": "Path as in the diff"},
                    "line": {"type": "integer", "description": "Line of the new file, as numbered in the diff"},
                    "end_line": {"type": "integer", "description": "Last line, the same for one line"},
                    "severity": {"type": "string", "enum": list(SEVERITIES)},
                    "title": {"type": "string", "description": "The fault in a few words"},
                    "message": {"type": "string", "description": "What goes wrong, when, and why"},
                    "suggestion": {
                        "type": "string",
                        "description": "The exact text that replaces these lines; empty if no such edit fixes it",
                    },
                },
                "required": ["file", "line", "end_line", "severity", "title", "message", "suggestion"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["summary", "findings"],
    "additionalProperties": False,
}
"""The form of the model's answer."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Lines count from 1, on the new side. `in_diff`: the diff shows the line. `moved_from` is the line that the model
    gave, 0 if it is the same. `old_file` is the file's name before the change, and `old_line` the number of `end_line`
    there, 0 if the line is new. `mark` is the same for the same fault in another review of the same code."""

    file: str
    line: int
    end_line: int
    severity: Severity
    title: str
    message: str
    suggestion: str = ""
    in_diff: bool = True
    moved_from: int = 0
    old_file: str = ""
    old_line: int = 0
    mark: str = ""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Review:
    """The outcome of a review. `usd` is a minimum if `unpriced` models were asked. `left_out` are files whose changes
    the model was not shown: files that did not fit, and files that are not text."""

    base: str
    head: str
    summary: str = ""
    findings: Sequence[Finding] = ()
    model: str = ""
    usd: str = "0"
    unpriced: bool = False
    turns: int = 0
    session: str = ""
    left_out: Sequence[str] = field(default_factory=tuple[str, ...])

    def at_least(self, severity: str) -> Sequence[Finding]:
        """Return the findings of at least a severity; none for "none"."""
        worst = SEVERITIES.index(severity) + 1 if severity in SEVERITIES else 0
        return [finding for finding in self.findings if finding.severity in SEVERITIES[:worst]]


def read_findings(data: Mapping[str, object], changes: Changes) -> Sequence[Finding]:
    """Return the findings in a model's answer, worst first and without duplicates. Each is moved to a near line that
    the diff shows."""
    found = [_placed(decode_finding(as_object(finding)), changes) for finding in as_array(data.get("findings"))]
    found = list({(each.file, each.line, each.title): each for each in found}.values())
    found.sort(key=lambda each: (SEVERITIES.index(each.severity), each.file, each.line))
    seen = Counter[str]()
    for place, each in enumerate(found):  # the order tells several at one line apart
        seen[each.mark] += 1
        if (number := seen[each.mark]) > 1:
            found[place] = replace(each, mark=_mark(f"{each.mark} {number}"))
    return found


def decode_finding(members: Mapping[str, object]) -> Finding:
    """Return a finding from JSON. Missing members get their defaults."""
    line = max(1, as_int(members.get("line")))
    severity = as_str(members.get("severity"))
    return Finding(
        file=as_str(members.get("file")).removeprefix("./"),
        line=line,
        end_line=max(line, as_int(members.get("end_line"))),
        severity=severity if severity in SEVERITIES else "medium",
        title=as_str(members.get("title")),
        message=as_str(members.get("message")),
        suggestion=as_str(members.get("suggestion")),
        in_diff=members.get("in_diff") is not False,
        moved_from=as_int(members.get("moved_from")),
        old_file=as_str(members.get("old_file")),
        old_line=as_int(members.get("old_line")),
        mark=as_str(members.get("mark")),
    )


def _placed(finding: Finding, changes: Changes) -> Finding:
    """Return a finding with its line in the diff, or marked as outside of it. A suggestion stays only if the diff shows
    all the lines that it replaces."""
    file = changes.files.get(finding.file)
    if file is None or not file.lines:
        return _marked(replace(finding, in_diff=False, suggestion=""), "")
    nearest = min(file.lines, key=lambda line: abs(line - finding.line))
    if abs(nearest - finding.line) > NEAR:
        return _marked(replace(finding, in_diff=False, suggestion=""), "")
    moved = finding.line if nearest != finding.line else 0
    last = finding.end_line if not moved and _shows(file, finding) else nearest
    suggestion = finding.suggestion if last == finding.end_line and not moved else ""
    placed = replace(finding, line=nearest, end_line=last, moved_from=moved, suggestion=suggestion)
    placed = replace(placed, old_file=file.old_path, old_line=file.old.get(last, 0))
    return _marked(placed, file.lines[nearest])


def _shows(file: FileDiff, finding: Finding) -> bool:
    return finding.end_line - finding.line < len(file.lines) and all(
        line in file.lines for line in range(finding.line, finding.end_line + 1)
    )


def _marked(finding: Finding, code: str) -> Finding:
    """Mark a finding by its file and the code of its line, because numbers and words differ between reviews. Outside of
    the diff, its title counts."""
    return replace(finding, mark=_mark(f"{finding.file}\0{code.strip() or f'{finding.line} {finding.title}'}"))


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
