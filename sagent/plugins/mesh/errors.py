"""Errors between machines. Every message says what happened, which thing is concerned, and what to do next."""

from sagent.errors import SagentError


class MeshError(SagentError):
    """Failure on the bus, of any kind."""

    kind = "mesh"


class Unavailable(MeshError):
    """Failure to reach the bus in time: the request may or may not have been carried out."""

    kind = "unavailable"


class NoRoom(Unavailable):
    """Lack of room on the bus; nothing was stored."""

    kind = "no_room"


class Refused(MeshError):
    """Refusal of a user or of a request by the bus."""

    kind = "refused"


class Missing(Refused):
    """Loss of a stream that the bus had, with its disk."""


class Fenced(MeshError):
    """Loss of a lease or record to another writer, who has written since."""

    kind = "fenced"


class Full(MeshError):
    """Lack of room in the inbox of an address; nothing was sent."""

    kind = "full"


class TooLarge(MeshError):
    """Message larger than the bus carries; nothing was sent."""

    kind = "too_large"


class NobodyThere(MeshError):
    """Expiry of a message that nobody has taken."""

    kind = "nobody_there"


class DeadlineExceeded(MeshError):
    """Lack of an answer in time. The receiver was told to stop."""

    kind = "deadline_exceeded"


class Cancelled(MeshError):
    """Cancellation of a request by its sender."""

    kind = "cancelled"


class WrongVersion(MeshError):
    """Message in a version that this sagent does not know."""

    kind = "wrong_version"


class Failed(MeshError):
    """Failure of the other side. `failure` is its own kind of error."""

    kind = "failed"

    def __init__(self, message: str, failure: str = "failed") -> None:
        super().__init__(message)
        self.failure = failure
