"""Keys and permissions: who may do what on the bus."""

from secrets import token_bytes
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:

    class _KeyPair(Protocol):
        seed: bytes | bytearray
        public_key: bytes


def new_seed() -> str:
    """A new user's secret seed: an Ed25519 key as NATS writes it, "SU..."."""
    import nkeys  # pyright: ignore[reportMissingTypeStubs] -- it has none

    return bytes(nkeys.encode_seed(token_bytes(32), nkeys.PREFIX_BYTE_USER)).decode()  # pyright: ignore[reportUnknownMemberType] -- untyped


def public_key(seed: str) -> str:
    """The public key, "U...", of a seed. Raises ValueError."""
    import nkeys  # pyright: ignore[reportMissingTypeStubs] -- it has none

    try:
        pair = cast("_KeyPair", nkeys.from_seed(bytearray(seed, "ascii")))  # pyright: ignore[reportUnknownMemberType] -- untyped
    except nkeys.NkeysError as error:
        raise ValueError(f"not the seed of a user's key: {error}") from None
    return pair.public_key.decode()
