"""The head of a Markdown file: `key: value` lines between two lines of dashes, parsed as people write them."""

import re
from collections.abc import Mapping
from typing import NamedTuple

MARKDOWN = frozenset((".md", ".markdown", ".mdown", ".mdwn", ".mdtext", ".mdtxt", ".mdx", ".mdc", ".mkd", ".mkdn"))
_BEGUN = re.compile(
    r"(?:[ \t]*(?:<!--.*-->|%YAML.*|`{3}\w*)?\n)*[ \t]*(?:[-–—+]{3,}|`{3}ya?ml)[ \t]*\n[ \t\"']*\w[\w-]*[\"']?\s*[:=]"
)
_KEY = re.compile(r"[\"']?([A-Za-z_][\w-]*)[\"']?\s*:(?:\s+(.*))?$")
_YAML_ONLY = re.compile(r"\*[\w-]+|(?:&|!!?)[\w-]+(?:\s.*)?")  # an alias, an anchor or a tag


class Document(NamedTuple):
    """A file's head and body. A list is its items, one a line. `fault` describes a part of the head that was not
    understood."""

    fields: Mapping[str, str]
    body: str
    fault: str = ""

    def flag(self, name: str, default: bool) -> bool:  # noqa: FBT001 -- what it is where it is not there
        """Return a field that is true or false."""
        return {"true": True, "false": False}.get(self.fields.get(name, "").lower(), default)

    def words(self, name: str) -> tuple[str, ...] | None:
        """Return the words of a field: a list, or text split at commas and blanks outside parentheses; None if none."""
        if name not in self.fields:
            return None
        found = re.findall(r"(?:[^\s,()\[\]]+(?:\([^)]{0,500}\))?)+", self.fields[name])
        return tuple(word.strip("\"'") for word in found)


def read_document(text: str) -> Document:
    """Return a text's head and body. Without a complete head all of it is body."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").lstrip("\n")
    lines = text.split("\n")
    ends = [number for number, line in enumerate(lines) if line.strip() == "---"]
    if len(ends) < 2 or ends[0]:
        return Document({}, text, "its head is not between two lines of ---, from line 1" if _BEGUN.match(text) else "")
    found: dict[str, str] = {}
    faults: list[str] = []
    folded: set[str] = set()
    key = fold = ""
    for number, line in enumerate(lines[1 : ends[1]], 2):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        is_key = line.startswith("\t") and key not in folded and _KEY.match(line.strip())
        if (line[:1].isspace() or line.startswith("- ")) and key and not is_key:
            item = line.strip()
            if item.startswith("- "):
                found[key] = f"{found[key]}\n{_plain(item[2:])}".strip()
            else:
                found[key] = f"{found[key]}{chr(10) if fold == '|' else ' '}{item}".strip()
        elif match := _KEY.match(line):
            key, value = match[1], (match[2] or "").strip()
            if key in found:
                faults.append(f"line {number} gives {key} again, and counts")
            fold = value[:1] if re.fullmatch(r"[|>][+-]?\d?", value) else ""
            found[key] = "" if fold else _plain(value)
            if _YAML_ONLY.fullmatch(value):
                faults.append(f"line {number} is read as it is written, {value!r:.40}: & and * and ! mean nothing here")
            folded |= {key} if fold else set()
        else:
            faults.append(f"line {number} is ignored, {line.rstrip()!r:.60}: it is not `key: value`")
    for key in [each for each in found if each not in folded]:  # a quoted text may continue over several lines
        value = found[key]
        if len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]:
            found[key] = _plain(value)
        elif value.startswith(('"', "'")):
            faults.append(f"the quotes of {key} are not closed")
    return Document(found, "\n".join(lines[ends[1] + 1 :]), "; ".join(faults[:3]))


def _plain(value: str) -> str:
    """Return a value without its quotes, or without the comment that ends it."""
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1].replace("''", "'") if value[0] == "'" else value[1:-1].replace('\\"', '"')
    return re.sub(r"\A(?:~|null)\Z", "", re.split(r"\s#", value, maxsplit=1)[0].strip())
