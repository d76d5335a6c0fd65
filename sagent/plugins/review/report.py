"""A review as text, Markdown, JSON, SARIF 2.1.0, a code quality report of GitLab, or annotations of a GitHub job."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from urllib.parse import quote

from sagent.errors import UsageError
from sagent.lib.json import as_array, as_int, as_object, as_str, json_load, wire_bytes
from sagent.lib.text import count, escaped, printable
from sagent.plugins.review.finding import SEVERITIES, Finding, Review, Severity, decode_finding
from sagent.plugins.review.untrusted import COMMAND, block_for_page, for_page
from sagent.transcript.redaction import Redaction
from sagent.version import __version__

_SARIF_LEVEL: Mapping[Severity, str] = {"critical": "error", "high": "error", "medium": "warning", "low": "note"}
_SARIF_RANK: Mapping[Severity, float] = {"critical": 95.0, "high": 80.0, "medium": 50.0, "low": 20.0}
_QUALITY: Mapping[Severity, str] = {"critical": "blocker", "high": "critical", "medium": "major", "low": "minor"}
MAX_NAMED_FILES = 10  # files that were left out
MAX_ANNOTATIONS = 10  # that GitHub accepts from one step, for each level


def as_text(review: Review) -> str:
    """Format a review for a terminal."""
    lines = [printable(review.summary), ""] if review.summary else []
    for each in review.findings:
        lines += [printable(f"{each.severity}: {each.place}: {each.title}{_moved(each)}"), *_indented(each.message)]
        lines += [f"  suggestion:\n{chr(10).join(_indented(each.suggestion, 4))}"] if each.suggestion else []
        lines.append("")
    return "\n".join([*lines, figures(review)]) + "\n"


def as_markdown(review: Review) -> str:
    """Format a review as Markdown, the worst findings first."""
    rows = [
        f"| {finding.severity} | `{_place(finding)}` | {_cell(for_page(finding.title))}{_moved(finding)} |"
        for finding in review.findings
    ]
    table = ["", "| severity | place | what |", "|---|---|---|", *rows] if rows else []
    outside = [finding for finding in review.findings if not finding.in_diff]
    more = [f"\n**{for_page(each.title)}** (`{_place(each)}`)\n\n{for_page(each.message)}" for each in outside]
    return "\n".join([for_page(review.summary), *table, *more, "", f"<sub>{for_page(figures(review))}</sub>"]) + "\n"


def comment(finding: Finding, block: str = "suggestion") -> str:
    """Return a finding as a comment at its line. `block` begins a suggestion. Suggestions that GitLab could read as a
    command are left out."""
    shown = f"\n\n{block_for_page(finding.suggestion, block)}" if finding.suggestion else ""
    shown = "" if COMMAND.search(shown) else shown
    return f"**{finding.severity}: {for_page(finding.title)}**\n\n{for_page(finding.message)}{shown}"


def as_json(review: Review) -> str:
    """Return the whole review as JSON, which `read_review` reads back."""
    value: dict[str, object] = {"version": 1, **asdict(review)}
    value["cost_usd"] = float(review.usd)
    del value["usd"]
    return _as_json(value)


def read_review(text: str) -> Review:
    """Read what `as_json` wrote. Raises UsageError for anything else."""
    try:
        value = as_object(json_load(wire_bytes(json_load(text))))  # written once, for halves of letters are lost so
    except (ValueError, RecursionError) as error:
        raise UsageError(f"This is not a review: {error}.") from error
    if value.get("version") != 1 or "findings" not in value or not isinstance(value.get("cost_usd", 0), int | float):
        raise UsageError("This is not a review: `sagent review --format json` writes one.")
    return Review(
        as_str(value.get("base")),
        as_str(value.get("head")),
        as_str(value.get("summary")),
        tuple(decode_finding(as_object(finding)) for finding in as_array(value["findings"])),
        as_str(value.get("model")),
        str(value.get("cost_usd", 0)),
        value.get("unpriced") is True,
        as_int(value.get("turns")),
        as_str(value.get("session")),
        tuple(map(str, as_array(value.get("left_out")))),
    )


def as_sarif(review: Review) -> str:
    """SARIF 2.1.0 (OASIS), for code scanning."""
    rules = [_sarif_rule(each) for each in SEVERITIES]
    run = {
        "tool": {"driver": {"name": "sagent review", "version": __version__, "rules": rules}},
        "results": [_sarif(finding) for finding in review.findings],
        "columnKind": "unicodeCodePoints",
        "properties": {"cost_usd": float(review.usd), "model": review.model, "summary": review.summary},
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    whole = {"$schema": schema, "version": "2.1.0", "runs": [run]}
    return _as_json(whole)


def _sarif_rule(severity: Severity) -> dict[str, object]:
    """Return the rule for findings of a severity, with all that code scanning of GitHub requires."""
    short = f"A finding of severity {severity}"
    about = f"{short}, found by a model that read the change. Its message says what goes wrong and when."
    return {
        "id": f"review/{severity}",
        "shortDescription": {"text": short},
        "fullDescription": {"text": about},
        "help": {"text": "Judge the finding: a model may be wrong. Then change the code, or dismiss the alert."},
        "defaultConfiguration": {"level": _SARIF_LEVEL[severity]},
    }


def _sarif(finding: Finding) -> dict[str, object]:
    region: dict[str, object] = {"startLine": finding.line, "endLine": finding.end_line}
    place = {"artifactLocation": {"uri": quote(finding.file), "uriBaseId": "%SRCROOT%"}, "region": region}
    found: dict[str, object] = {
        "ruleId": f"review/{finding.severity}",
        "level": _SARIF_LEVEL[finding.severity],
        "rank": _SARIF_RANK[finding.severity],
        "message": {"text": f"{finding.title}: {finding.message}"},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"sagent/v1": finding.mark},
        "properties": {"in_diff": finding.in_diff},
    }
    if finding.suggestion:
        change = {"deletedRegion": region, "insertedContent": {"text": finding.suggestion + "\n"}}
        found["fixes"] = [
            {"artifactChanges": [{"artifactLocation": place["artifactLocation"], "replacements": [change]}]}
        ]
    return found


def as_quality(review: Review) -> str:
    """Return a report of code quality. GitLab shows it at the lines of a merge request."""
    rows = [
        {
            "description": f"{finding.title}: {finding.message}",
            "check_name": f"sagent-review-{finding.severity}",
            "fingerprint": finding.mark,
            "severity": _QUALITY[finding.severity],
            "location": {"path": finding.file, "lines": {"begin": finding.line}},
        }
        for finding in review.findings
    ]
    return _as_json(rows)


def as_annotations(review: Review) -> str:
    """Workflow commands that give a job of GitHub annotations."""
    words: Mapping[Severity, str] = {"critical": "error", "high": "error", "medium": "warning", "low": "notice"}
    lines: dict[str, list[str]] = {"error": [], "warning": [], "notice": []}
    for each in review.findings:
        where = f"file={_property(each.file)},line={each.line},endLine={each.end_line},title={_property(each.title)}"
        lines[words[each.severity]].append(f"::{words[each.severity]} {where}::{_data(each.message)}")
    return "".join(f"{line}\n" for kind in lines.values() for line in kind[:MAX_ANNOTATIONS])


FORMATS: Mapping[str, Callable[[Review], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "json": as_json,
    "sarif": as_sarif,
    "codequality": as_quality,
    "annotations": as_annotations,
}


def _as_json(value: object) -> str:
    """Encode a value for a file and for a terminal."""
    return escaped(json.dumps(Redaction().value(value), ensure_ascii=False, indent=1)) + "\n"


def _place(finding: Finding) -> str:
    return _cell(printable(finding.place))


def figures(review: Review) -> str:
    """Describe the figures of a review in a line."""
    cost = f"{'at least ' if review.unpriced else ''}${float(review.usd):.4f}"
    more = f" and {len(review.left_out) - MAX_NAMED_FILES} more" if len(review.left_out) > MAX_NAMED_FILES else ""
    named = f"{', '.join(review.left_out[:MAX_NAMED_FILES])}{more}"
    left = f"; not shown to the model, being too large or binary: {named}" if named else ""
    where = f"{review.base[:12]}..{review.head[:12] or 'working tree'}"
    return printable(f"{count(len(review.findings), 'finding')} in {where}; {review.model}, {cost}{left}")


def _moved(finding: Finding) -> str:
    if not finding.in_diff:
        return " (outside of the changes)"
    return f" (moved from line {finding.moved_from})" if finding.moved_from else ""


def _indented(text: str, by: int = 2) -> Sequence[str]:
    return [f"{' ' * by}{line}" for line in printable(text).split("\n")]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("`", "'")


def _data(text: str) -> str:
    """Return the text of a workflow command, as its documentation has it."""
    clean = printable(Redaction().text(text))
    return clean.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
