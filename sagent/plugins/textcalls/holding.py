"""Hold back streamed text while it may still become a call."""

import re

from sagent.context.calls import WrittenCalls
from sagent.messages import Message
from sagent.model import Request
from sagent.plugins.textcalls.marks import ARGUMENTS, CALL_FENCES, MARKS, NAMES
from sagent.plugins.textcalls.offered import is_tool, plain_name

_QUOTED = r"[\"']"
_NAME_KEYS = "|".join(NAMES)
_OBJECT = (
    rf"\[?\s*\{{\s*\{{?\s*{_QUOTED}(?:(?:{_NAME_KEYS}){_QUOTED}\s*:\s*{_QUOTED}(?P<name>[\w.:/-]{{1,100}}){_QUOTED}"
    rf"(?:\s*,\s*{_QUOTED}(?P<next>\w+){_QUOTED}\s*:)?"
    rf"|(?:type|id){_QUOTED}\s*:\s*{_QUOTED}[^\"'\n]{{0,100}}{_QUOTED}\s*,\s*"
    rf"{_QUOTED}(?:{_NAME_KEYS}|type|{'|'.join(ARGUMENTS)}){_QUOTED}"
    rf"|(?P<first>{'|'.join(ARGUMENTS)}|tool_calls|function){_QUOTED}\s*:\s*[{{\[]"
    rf"|(?P<only>[\w.:-]{{1,100}}){_QUOTED}\s*:\s*\{{)"
)
_ALL_MARKS = (*MARKS, "<|channel|>", "<|start|>assistant")
_OPENING = "|".join(map(re.escape, _ALL_MARKS))
_SIGN = re.compile(r"[<`{\[]")
_BEGUN = re.compile(
    rf"^[ \t]*```(?:{'|'.join(CALL_FENCES)})\b"
    rf"|(?:^[ \t]*```\w*[ \t]*\n\s*|(?<!`))(?:{_OPENING})"
    rf"|^[ \t]*(?:```\w*[ \t]*\n\s*)?{_OBJECT}"
    r"|^[ \t]*(?:```\w*[ \t]*\n\s*)?(?:\[\s*|(?<=\n)(?:\w+\s*=\s*)?(?:print\s*\(\s*)?)"
    r"(?P<python>[A-Za-z_][\w.:-]*)\s*\(",
    re.MULTILINE,
)
_MAX_BEGINNING_CHARS = 300  # characters at the beginning of a possible call
_MAYBE = re.compile(  # the beginning of a possible call, at the end of the text so far
    rf"^[ \t]*(?:`{{1,3}}|```\w*[ \t]*\n?\s*|(?:```\w*[ \t]*\n\s*)?(?:"
    rf"\[?\s*(?:\{{\s*\{{?\s*(?:{_QUOTED}(?:[\w.:-]*(?:{_QUOTED}\s*(?::\s*(?:{_QUOTED}(?:[\w.:/-]*"
    rf"(?:{_QUOTED}\s*(?:,\s*(?:{_QUOTED}(?:\w*(?:{_QUOTED}\s*)?)?)?)?)?)?)?)?)?)?)?)?"
    r"|\[\s*[A-Za-z_]?[\w.:-]*\s*"
    r"))\Z"
    r"|^[ \t]*```(?:python|py)[ \t]*\n\s*[\w.:= -]*(?:\([\w.:]*)?\Z",
    re.MULTILINE,
)
_FENCE_BEFORE = re.compile(r"^[ \t]*```\w*[ \t]*\n\s*\Z", re.MULTILINE)
_KEYS = frozenset((*ARGUMENTS, "type", "id"))


class Holder:
    """Shows a text as it comes. It keeps a possible call until the reply ends."""

    def __init__(self, request: Request, before: str) -> None:
        """`before` is the end of the text that was already shown of the reply."""
        self._request = request
        self._names = {plain_name(tool.name) for tool in request.tools}
        self._line = before.rpartition("\n")[2]  # the part of the line that was shown
        self._waiting = ""
        self._held: list[str] = []

    @property
    def holds(self) -> bool:
        """True if a call seems to have begun: nothing more is shown."""
        return bool(self._held)

    @property
    def open(self) -> bool:
        """True if something is kept back."""
        return bool(self._held or self._waiting)

    def feed(self, text: str) -> str:
        """Take some text and return what can be shown."""
        if self._held:
            self._held.append(text)
            return ""
        if not self._waiting and not _SIGN.search(text):
            return self._shown(text)
        text, self._waiting = self._waiting + text, ""
        line = self._line if self._line.strip() else ""  # white space does not matter
        at = self._begin(f"{line}{text}", len(line))
        if at >= 0:
            self._held.append(text[at:])
            return self._shown(text[:at])
        at = self._doubt(f"{line}{text}", len(line))
        self._waiting = text[at:]
        return self._shown(text[:at])

    def rest(self) -> str:
        """Return the text that was kept back."""
        return "".join((*self._held, self._waiting))

    def calls_in(self, text: str, reply: Message) -> WrittenCalls | None:
        """Return the calls that the text of the reply is, None if it is an answer."""
        from sagent.plugins.textcalls.recognition import recognise  # with 120 regular expressions, 50 ms

        return recognise(text, self._request, reply)

    def _shown(self, text: str) -> str:
        before, newline, after = text.rpartition("\n")
        self._line = after[-_MAX_BEGINNING_CHARS:] if newline else (self._line + before + after)[-_MAX_BEGINNING_CHARS:]
        return text

    def _begin(self, text: str, start: int) -> int:
        """Return where a call begins in the text after the start, -1 if there is none."""
        for match in _BEGUN.finditer(text):
            if match.end() > start and self._is_call(match):
                return max(0, match.start() - start)
        return -1

    def _is_call(self, match: re.Match[str]) -> bool:
        if (name := match["python"] or match["only"]) is not None:
            return is_tool(name, self._names)
        if (name := match["name"]) is not None:
            return is_tool(name, self._names) or match["next"] in _KEYS
        return True

    def _doubt(self, text: str, start: int) -> int:
        """Return where a possible call begins in the text after the start; the text's length if there is none."""
        at = len(text)
        tail = max(start, len(text) - _MAX_BEGINNING_CHARS)
        if maybe := _MAYBE.search(text, text.rfind("\n", 0, tail) + 1):
            at = maybe.start()
        for sign in "<[":
            found = text.rfind(sign)
            if found >= 0 and any(mark.startswith(text[found:]) for mark in _ALL_MARKS):
                fence = _FENCE_BEFORE.search(text, max(0, found - _MAX_BEGINNING_CHARS), found)
                at = min(at, fence.start() if fence else found)
        return max(0, at - start)
