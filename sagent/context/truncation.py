"""Head and tail of what is too long, with the whole kept where the model can read it."""

from dataclasses import replace

from sagent.context.calls import valid_parts
from sagent.errors import ToolError
from sagent.lib.json import as_array, valid_text
from sagent.messages import Text
from sagent.tool import Blobs, Media, ToolOutput

MOST_OUTPUT = 60_000  # characters of text one call may put into the context; tools bound themselves lower


def bound_output(output: ToolOutput, blobs: Blobs) -> ToolOutput:
    """Return the output as valid Unicode with its text held to MOST_OUTPUT characters; media pass. Raises ToolError for
    what is no output: not every tool is checked for types."""
    if not _is_output(output):
        given = f"ToolOutput({output.content!r:.60})" if hasattr(output, "content") else f"{output!r:.60}"
        raise ToolError(
            f'the tool gave {given}: it may return a string, ToolOutput.of("text"), or a ToolOutput with a tuple of '
            "Text, Image and Document, whose data are bytes"
        )
    output = _valid(output)
    whole = "".join(part.text for part in output.content if isinstance(part, Text))
    if len(whole) <= MOST_OUTPUT:
        return output
    path = blobs.show(blobs.put(whole.encode()))
    media = tuple(part for part in output.content if not isinstance(part, Text))
    short: tuple[Media, ...] = (Text(head_and_tail(whole, MOST_OUTPUT, f"the full text is in {path}")), *media)
    return replace(output, content=short)


def _valid(output: ToolOutput) -> ToolOutput:
    content = valid_parts(output.content)
    summary, diff = map(valid_text, (output.summary, output.diff))
    same = content is output.content and (summary, diff) == (output.summary, output.diff)
    return output if same else replace(output, content=content, summary=summary, diff=diff)


def _is_output(output: object) -> bool:
    parts: object = output.content if isinstance(output, ToolOutput) else None
    return isinstance(parts, tuple | list) and all(
        isinstance(getattr(part, "text", None), str)
        if isinstance(part, Text)
        else isinstance(getattr(part, "data", None), bytes)
        for part in as_array(parts)
    )


def head_and_tail(text: str, most: int, where: str) -> str:
    """At most about `most` characters: the first two thirds and the last third, cut at line ends where one is near."""
    if len(text) <= most:
        return text
    head, tail = text[: most * 2 // 3], text[-(most // 3) :]
    line_end, line_start = head.rfind("\n"), tail.find("\n")
    if line_end > len(head) * 3 // 4:
        head = head[: line_end + 1]
    if 0 <= line_start < len(tail) // 4:
        tail = tail[line_start + 1 :]
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n[... {left_out} characters left out; {where} ...]\n{tail}"
