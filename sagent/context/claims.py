"""Recognition of claims: what a reply says that its author did, and requests about what was done."""

import re

ABOUT_PAST = re.compile(
    r"\b(?:did|have|has|was|were|had)\b|\b(?:summar|recap|explain|why|what|which|report|describe|list)", re.IGNORECASE
)
_VERB = (
    "updated|created|fixed|changed|modified|edited|added|removed|deleted|replaced|renamed|moved|rewritten|rewrote|"
    "written|wrote|implemented|refactored|ran|run|executed|installed|committed|saved|corrected|applied|inserted"
)
_OBJECT = (
    r"[\w./\\-]*\w\.[A-Za-z]\w{0,4}\b|files?|code(?:base)?|functions?|methods?|class(?:es)?|modules?|tests?|test suite|"
    r"bugs?|typos?|scripts?|commands?|programs?|repository|repo|projects?|packages?|dependenc(?:y|ies)|director(?:y|ies)|"
    r"folders?|lines?|imports?|config(?:uration)?|changes?|fix(?:es)?|values?|keys?|parameters?|variables?"
)
_MADE = re.compile(
    rf"\bI(?:['\u2019]ve|\s+have)?\s+(?:(?:now|just|also|successfully|already|then)\s+)*(?:{_VERB})\b(?P<rest>[^.!?\n]*"
    rf"(?:\.\w[^.!?\n]*)*)"
    rf"|\b(?:the|your|all|this)\s+(?P<subject>[^.!?\n]{{0,60}}?)\s+(?:has|have)\s+(?:now\s+)?been\s+(?:successfully\s+)?"
    rf"(?:{_VERB})\b",
    re.IGNORECASE,
)
_OBJECTS = re.compile(rf"(?<![\w/.])(?:{_OBJECT})(?!\w)", re.IGNORECASE)
_HEDGED = re.compile(
    r"\b(?:if|once|when|after|until|unless|before|would|could|should|earlier|previously|last time|yesterday|"
    r"already told|had|imagine|suppose|example|can(?:not|'t)|below|following|here(?:'s| is| are)|above)\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|\"[^\"\n]*\"|^\s*>[^\n]*", re.DOTALL | re.MULTILINE)


def claims_work(text: str) -> bool:
    """Return True if a reply says that its author changed files or ran something."""
    if len(text) > 20_000:
        return False
    names = _CODE.sub(lambda match: "\n" if re.search(r"\s", match[0]) else match[0].strip('`"'), text)
    for match in _MADE.finditer(names):
        begin = max(names.rfind(mark, 0, match.start()) for mark in ".!?\n") + 1
        before = names[begin : match.start()]
        claim = match["rest"] if match["rest"] is not None else match["subject"]
        if _OBJECTS.search(claim) and not _HEDGED.search(before) and not _HEDGED.search(claim):
            return True
    return False
