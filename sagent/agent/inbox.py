"""One way in: messages wait here until the loop reads them."""

from sagent.messages import Message
from sagent.peer import Moment


class Inbox:
    """Messages by the moment they are to be read. Putting never blocks."""

    def __init__(self) -> None:
        self._waiting: dict[Moment, list[Message]] = {"now": [], "idle": []}

    def put(self, message: Message, moment: Moment = "now") -> None:
        """Leave a message."""
        self._waiting[moment].append(message)

    def take(self, moment: Moment) -> list[Message]:
        """What is to be read now; at "idle" that is everything. Each message is given out once."""
        taken = self._waiting["now"]
        self._waiting["now"] = []
        if moment == "idle":
            taken += self._waiting["idle"]
            self._waiting["idle"] = []
        return taken

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))
