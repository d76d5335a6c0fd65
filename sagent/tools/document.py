"""PDF files and notebooks, parsed in a separate process, because a kilobyte of either can take hours and gigabytes.

That process is killed with its group when its caller is cancelled.
"""

import json
import signal
import sys
from typing import TYPE_CHECKING, Literal

from sagent.codec import decode_result_part, encode_result_part
from sagent.errors import ToolError
from sagent.lib import isolated
from sagent.lib.json import as_array, as_str
from sagent.messages import Text, ToolResult
from sagent.tool import ToolOutput

if TYPE_CHECKING:
    from sagent.lib.process import Finished

_TIMEOUT_SECONDS = 40  # on the clock
_MAX_ANSWER_BYTES = 100_000_000
_INSTEAD = {
    "pdf": 'Give fewer pages, as pages="1", or turn it into text with a command, as pdftotext.',
    "notebook": "Read its JSON with offset and limit.",
}


async def show_document(form: Literal["pdf", "notebook"], data: bytes, name: str, pages: str = "") -> ToolOutput | None:
    """Return a document for the model; None if the data are no notebook. Raises ToolError for a damaged one, and for
    one that takes too much memory or time."""
    question = json.dumps([form, name, pages]).encode() + b"\n"
    summary, part = as_array(json.loads(await take_apart(__name__, question + data, name, f" {_INSTEAD[form]}")))
    result = decode_result_part(part, None)
    if result.is_error:
        raise ToolError(result.text)
    return ToolOutput(result.content, summary=as_str(summary)) if result.content else None


async def take_apart(module: str, data: bytes, name: str, instead: str = "") -> bytes:
    """Return the output of a module's `answer` about a document, run in a separate process. Raises ToolError, as
    `show_document`, which says what to do `instead`."""
    why = "needs a process of its own, which could not be started"
    try:
        done = await isolated.run_isolated(module, data, seconds=_TIMEOUT_SECONDS, max_bytes=_MAX_ANSWER_BYTES)
    except TimeoutError:
        done, why = None, f"takes longer than {_TIMEOUT_SECONDS} s"
    if done is None or done.code or len(done.output) > _MAX_ANSWER_BYTES:
        raise ToolError(f"{name} {_failure(done) if done else why}; it could not be shown.{instead}")
    return done.output


def _failure(done: "Finished") -> str:
    """Return why an ended process has no result."""
    if len(done.output) > _MAX_ANSWER_BYTES:
        return f"becomes more than {_MAX_ANSWER_BYTES // 1_000_000} MB"
    if done.code == -signal.SIGXCPU:
        return f"takes longer than {isolated.MAX_CPU_SECONDS} s of a processor"
    ended = signal.Signals(-done.code).name if done.code < 0 else f"exit code {done.code}"
    return f"needs more than {isolated.MAX_MEMORY_BYTES // 1_000_000} MB of memory or is damaged ({ended})"


def answer() -> None:
    """Read the document on standard input, and write the part to show. Runs in the other process."""
    isolated.limit()
    form, name, pages = map(as_str, as_array(json.loads(sys.stdin.buffer.readline())))
    data = sys.stdin.buffer.read()
    try:
        if form == "pdf":
            from sagent.tools.pdf import show_pdf

            shown = show_pdf(data, name, pages)
        else:
            from sagent.tools.notebook import show_notebook

            shown = show_notebook(data) or ToolOutput(())
    except ToolError as error:
        shown = ToolOutput((Text(str(error)),), is_error=True)
    part = encode_result_part(ToolResult("", shown.content, shown.is_error), None)
    sys.stdout.write(json.dumps([shown.summary, part]))
