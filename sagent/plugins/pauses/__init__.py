"""Approvals that outlive the process: a call waits in the session's log until somebody answers."""

from typing import TYPE_CHECKING

from sagent.plugin import Plugin

if TYPE_CHECKING:
    from sagent.plugins.pauses.pauses import Pauses as Pauses
    from sagent.plugins.pauses.pauses import WaitingCall as WaitingCall
    from sagent.plugins.pauses.pauses import original_id as original_id

__all__ = ["Pauses", "WaitingCall", "original_id", "plugin"]

plugin = Plugin("pauses", "approvals that outlive the process, for programs")


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sagent.plugins.pauses import pauses

    return getattr(pauses, name)
