"""Changes of text files: complete or none, shown as a diff for people and as numbered lines for the model."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sagent.errors import ToolError
from sagent.lib.dataclass import dataclass
from sagent.lib.diff import LEFT_OUT, hunks, unified
from sagent.lib.encoding import UTF8, Binary, Encoding, decode
from sagent.lib.json import valid_text
from sagent.lib.lookalike import canonical
from sagent.lib.names import quote_path
from sagent.lib.regular import open_regular
from sagent.tool import ToolOutput, Workspace
from sagent.tools.paths import as_tool_errors, missing_error, quoted_name, short_path
from sagent.tools.replacement import Replacement, replace_all
from sagent.tools.textfile import broken_link, check_writable, encode, write_atomic

_MAX_BYTES = 50_000_000  # larger files are not edited by quoting, and their old content is not read
_MAX_DIFF_LINES = 400
_MAX_SHOWN_LINES = 40


@dataclass(frozen=True, slots=True)
class Change:
    """A change to the file that really is at `real`: its present text, None if it is missing, its new text, and its
    encoding. `description` describes it, and `shows` is True if the changed lines are shown."""

    path: Path
    real: Path
    before: str | None
    after: str
    encoding: Encoding
    description: str
    shows: bool

    def output(self, name: str) -> ToolOutput:
        """Return the call's output, once the change is made."""
        before = self.before or ""
        shown = f"{self.description}\n{_changed_lines(before, self.after)}" if self.shows else self.description
        return ToolOutput.of(shown, summary=self.description, diff=unified_diff(before, self.after, name))


def make(change: Change, workspace: Workspace) -> ToolOutput:
    """Write the file. Raises ToolError."""
    with as_tool_errors(change.path):
        data = encode(change.after, change.encoding)
        broken = broken_link(change.real)
        workspace.saw(change.real, data, write_atomic(change.real, data))
    change = replace(change, description=change.description + broken)
    return change.output(quote_path(short_path(change.path, workspace)))


def plan_write(path: Path, real: Path, content: str, workspace: Workspace) -> Change:
    """Plan to create or replace a file. Raises ToolError if it was not read, or has changed since."""
    with as_tool_errors(path):
        before, after, encoding, note = _as_before(real, content)
        workspace.check_unchanged(real)
        check_writable(real)
    done, name = "Created" if before is None else "Wrote", quote_path(short_path(path, workspace))
    compared = "" if before is None else f", before {_count(before)}"
    if before == after:
        said = f"{name} holds exactly this already: nothing was changed."
    else:
        note = f"{note}{_written_as(encoding, content)}"
        said = f"{done} {name} ({_count(content)} lines{compared}).{note}"
    return Change(path, real, before, after, encoding, said, shows=False)


def plan_edit(
    path: Path, real: Path, replacements: Sequence[Replacement], workspace: Workspace, unsaved: str | None = None
) -> Change:
    """Plan replacements in order, all or none, in a file or an editor's `unsaved` version. Raises ToolError."""
    name = quote_path(short_path(path, workspace))
    with as_tool_errors(path):
        before, encoding = _read(path, real, workspace, creates=replacements[0].old == "")
        before = before if unsaved is None else unsaved
        try:
            after, count = replace_all(before, replacements, real.name)
        except ToolError as error:
            raise ToolError(f"{error} {name} was not changed.") from None
    added = "".join(replacement.new for replacement in replacements)
    said = f"Edited {name}: {count} replacement{'s' if count > 1 else ''}."
    said += _written_as(encoding, added) + _found_as(before, replacements)
    return Change(path, real, before, after, encoding, said, shows=True)


def _as_before(real: Path, content: str) -> tuple[str | None, str, Encoding, str]:
    """Return the old text, the new text with the old line ends, the encoding, and a note about them."""
    try:
        with open_regular(real) as file:
            existing = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return None, content, UTF8, ""
    decoded = decode(existing)
    if isinstance(decoded, Binary) or len(existing) > _MAX_BYTES:
        return "", content, UTF8, ""
    old = decoded.text
    note = ""
    if "\r\n" in old and old.count("\n") == old.count("\r\n"):
        content = content.replace("\r\n", "\n").replace("\n", "\r\n")
        note = " Its CRLF line ends were kept."
    try:
        encode(content, decoded.encoding)
    except ToolError:
        return old, content, UTF8, f"{note} It was {decoded.encoding.name} and is UTF-8 now."
    return old, content, decoded.encoding, note


def _written_as(encoding: Encoding, added: str) -> str:
    """Return a note on new text with a guessed encoding."""
    if not encoding.guess or added.isascii():
        return ""
    return f" Its text is written in the encoding that the file had, {encoding.name}, guessed from its bytes."


def _found_as(before: str, replacements: Sequence[Replacement]) -> str:
    """Return what to say of an edit that quoted letters otherwise composed than the file has them."""
    if before.isascii():
        return ""
    if not any(
        canonical(before).count(canonical(edit.old)) > (count := before.count(edit.old))
        and (edit.everywhere or not count)
        for edit in replacements
    ):
        return ""
    return (
        " The file has letters of old_string composed otherwise (as é can be one character or two); what the edit left "
        "alone was kept as it was."
    )


def _count(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") and text != "")


def _read(path: Path, real: Path, workspace: Workspace, *, creates: bool) -> tuple[str, Encoding]:
    """Return the text to edit: the file's, which the agent must have seen in its present state; "" for a new file."""
    try:
        with open_regular(real) as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        if creates:
            return "", UTF8
        raise missing_error(path, workspace) from None
    if creates and data:
        raise ToolError(
            f"{quoted_name(path)} exists; an empty old_string creates files. Quote the text to replace, or use Write."
        )
    if len(data) > _MAX_BYTES:
        raise ToolError(f"{quoted_name(path)} is larger than {_MAX_BYTES // 1_000_000} MB. Change it with a command.")
    workspace.check_unchanged(real)
    check_writable(real)
    decoded = decode(data)
    if isinstance(decoded, Binary):
        raise ToolError(f"{quoted_name(path)} is not text: it is {decoded.kind}. Change it with a command.")
    return decoded.text, decoded.encoding


def unified_diff(before: str, after: str, name: str, *, max_lines: int | None = _MAX_DIFF_LINES) -> str:
    """Return the change as a unified diff of at most about so many lines; "" if nothing changed."""
    if not (diff := unified(_lines(before), _lines(after))):
        return ""
    lines = diff.split("\n")
    if max_lines is not None and len(lines) > max_lines:
        lines = [*lines[:max_lines], LEFT_OUT]
    return valid_text("\n".join([f"--- a/{name}", f"+++ b/{name}", *lines]) + "\n")


def _changed_lines(before: str, after: str) -> str:
    """Return the changed places as they are now, with line numbers and a little around them."""
    shown: list[str] = []
    for _, _, new, _, rows in hunks(_lines(before), _lines(after)):
        if shown:
            shown.append("...")
        number = new
        for mark, text in rows:
            if mark != "-":
                number += 1
                line, _, _ = text.partition("\n")
                shown.append(f"{number}\t{line[:300]}")
        if len(shown) > _MAX_SHOWN_LINES:
            shown = [*shown[:_MAX_SHOWN_LINES], "..."]
            break
    return valid_text("\n".join(shown))


def _lines(text: str) -> list[str]:
    """Return lines without ends. A missing last line end is noted in a further line, as in diff."""
    if not text:
        return []
    lines = (text.replace("\r\n", "\n") if "\n" in text else text.replace("\r", "\n")).split("\n")
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], lines[-1] + "\n\\ No newline at end of file"]
