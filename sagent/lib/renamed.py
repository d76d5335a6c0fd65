"""Old public names: each works and warns in the version that renamed it and in the one after (docs/versions.md)."""

from warnings import warn


def warn_renamed(old: str, new: str, since: str) -> None:
    """Warn the caller's caller that it uses an old name; `since` is the version that renamed it, such as "0.3"."""
    warn(f"{old} is {new} since sagent {since}.", DeprecationWarning, stacklevel=3)
