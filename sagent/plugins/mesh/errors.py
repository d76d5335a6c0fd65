"""Errors between machines. Every message says what happened, which thing is concerned, and what to do next."""

from sagent.errors import SagentError


class MeshError(SagentError):
    """Root of what fails on the bus."""

    kind = "mesh"


class Unavailable(MeshError):
    """The bus is unreachable, or did not answer in time: the request may or may not have been carried out."""

    kind = "unavailable"


class NoRoom(Unavailable):
    """The bus has no room for anything; nothing was stored."""

    kind = "no_room"


class Refused(MeshError):
    """The bus does not admit this user, or does not let it do this."""

    kind = "refused"


class Missing(Refused):
    """The bus lacks a stream that it had: its disk was lost."""


class Fenced(MeshError):
    """Somebody else has written since: whoever meets this does not hold the thing any more."""

    kind = "fenced"


class Full(MeshError):
    """The inbox of an address is full; nothing was sent."""

    kind = "full"


class TooLarge(MeshError):
    """A message is larger than the bus carries; nothing was sent."""

    kind = "too_large"


class NobodyThere(MeshError):
    """Nobody took a message in the time it was kept."""

    kind = "nobody_there"


class DeadlineExceeded(MeshError):
    """No answer in time. The receiver was told to stop."""

    kind = "deadline_exceeded"


class Cancelled(MeshError):
    """Cancellation of a request by its sender."""

    kind = "cancelled"


class WrongVersion(MeshError):
    """A message in a version that this sagent does not know."""

    kind = "wrong_version"


class Failed(MeshError):
    """The other side has failed. `failure` is its own kind of error."""

    kind = "failed"

    def __init__(self, message: str, failure: str = "failed") -> None:
        super().__init__(message)
        self.failure = failure
