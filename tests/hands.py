"""The least that changes of files can be recorded of: an agent that works somewhere and has a log."""

from dataclasses import dataclass

from sagent.session.contents import Content
from sagent.session.log import MemoryLog
from sagent.tool import Workspace


@dataclass
class Hand:
    """An agent, and its log."""

    log: MemoryLog
    workspace: Workspace
    lost: bool = False

    @property
    def journal(self) -> "Hand":
        return self

    def record(self, content: Content) -> str:
        return self.log.append(content).id

    def is_detached(self) -> bool:
        return False
