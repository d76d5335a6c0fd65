"""Records attached files as read, as if the agent had called Read on them."""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.events import Event, Received
from sagent.messages import Text

if TYPE_CHECKING:
    from sagent.agent import Agent
    from sagent.app.builder import AgentBuilder
    from sagent.tool import Workspace

_HEAD = re.compile(r'\n<file path="([^"\n]+)"(?: encoding="[^"\n]+")?>\n')
_END = "\n</file>"


async def add(builder: "AgentBuilder") -> None:
    """Record files from each message of the person's."""
    builder.started.append(lambda agent: _listen(agent, builder.settings.cwd))


def _listen(agent: "Agent", directory: Path) -> None:
    def on_event(event: Event) -> None:
        if not isinstance(event, Received) or event.message.sender:
            return
        texts = [part.text for part in event.message.parts if isinstance(part, Text)]
        if texts[1:] and (node := agent.tree.get(event.agent)) is not None:
            for text in texts[1:]:
                record_attached(text, directory, node.state.workspace)

    agent.listen(on_event)


def record_attached(text: str, directory: Path, workspace: "Workspace") -> None:
    """Record the file of an attachment as seen, if the text shows all of it as it is now."""
    head = _HEAD.match(text)
    if head is None or not text.endswith(_END):
        return
    from sagent.lib.encoding import Binary, decode
    from sagent.lib.json import valid_text
    from sagent.lib.names import path_of
    from sagent.lib.regular import open_regular

    shown = text[head.end() : -len(_END)]
    path = Path(os.path.realpath(directory / path_of(head[1])))
    with suppress(OSError, ValueError), open_regular(path) as file:
        stat, most = os.fstat(file.fileno()), 4 * len(shown) + 4  # with a byte order mark
        if stat.st_size <= most:
            data = file.read(most)
            decoded = decode(data)
            if not isinstance(decoded, Binary) and valid_text(decoded.text) == shown:
                workspace.saw(path, data, stat)
