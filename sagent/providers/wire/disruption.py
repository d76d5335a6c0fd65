"""What fails below HTTP."""

from sagent.errors import ModelErrorKind


class Disrupted(Exception):
    """The exchange failed. `kind` is how a ModelError calls it, `reason` says it in words; `final`, `sent` as there."""

    def __init__(self, kind: ModelErrorKind, reason: str, *, final: bool = False, sent: bool = False) -> None:
        super().__init__(reason)
        self.final, self.sent = final, sent
        self.kind: ModelErrorKind = kind
        self.reason = reason
