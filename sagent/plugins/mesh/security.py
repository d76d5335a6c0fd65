"""Keys and permissions on the bus.

One tenant is one account of the server, and no other account sees its subjects and streams. Within it a user has a
role, and may publish to and listen to the subjects of that role only. Nobody may delete or empty a stream, or change a
stored log; the server's answers go to subjects that only their user may listen to.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, cast

from sagent.errors import UsageError
from sagent.lib.atomic import put
from sagent.lib.dataclass import dataclass
from sagent.lib.filelock import in_turn
from sagent.lib.json import as_array, as_object, as_str, json_load
from sagent.lib.regular import read_given
from sagent.plugins.mesh import names
from sagent.plugins.mesh.cards import check_name

if TYPE_CHECKING:

    class _KeyPair(Protocol):
        seed: bytes | bytearray
        public_key: bytes


Role: TypeAlias = Literal["node", "person", "agent", "observer"]
ROLES: Mapping[Role, str] = {
    "node": "runs sessions: writes logs, leases and files; makes the streams",
    "person": "starts sessions, attaches to them, sends messages, reads logs",
    "agent": "receives and answers at its own addresses, and sends messages",
    "observer": "reads cards, logs and events",
}
_LIST, _CONFIGURATION = "users.json", "users.conf"


@dataclass(frozen=True, slots=True)
class User:
    """A user who may connect: by public key, with a role of a tenant. An agent receives at `addresses`."""

    tenant: str
    name: str
    role: Role
    key: str
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Permissions:
    """Subjects, with wildcards, that a user may publish to and listen to."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def new_seed() -> str:
    """Return a new user's secret seed: an Ed25519 key as NATS writes it, "SU..."."""
    import nkeys  # pyright: ignore[reportMissingTypeStubs] -- it has none

    return bytes(nkeys.encode_seed(token_bytes(32), nkeys.PREFIX_BYTE_USER)).decode()  # pyright: ignore[reportUnknownMemberType] -- untyped


def public_key(seed: str) -> str:
    """Return the public key, "U...", of a seed. Raises ValueError."""
    import nkeys  # pyright: ignore[reportMissingTypeStubs] -- it has none

    try:
        pair = cast("_KeyPair", nkeys.from_seed(bytearray(seed, "ascii")))  # pyright: ignore[reportUnknownMemberType] -- untyped
    except (nkeys.NkeysError, ValueError) as error:
        raise ValueError(f"not the seed of a key: {error}") from None
    return pair.public_key.decode()


def permissions(user: User) -> Permissions:
    """Return the permissions of a user, by its role."""
    own = f"sagent.replies.{user.key}.>"
    reading = [
        "$JS.API.INFO",
        "$JS.API.STREAM.INFO.*",
        "$JS.API.CONSUMER.INFO.*.*",
        *_reads(*(f"KV_{name}" for name in (names.CARDS, names.SESSIONS, names.LEASES))),
    ]
    listening = [f"{names.private_inbox(user.key)}.>"]
    logs = _reads(names.LOG, f"OBJ_{names.BLOBS}")
    events = ["sagent.events.>"]
    if user.role == "observer":
        return Permissions((*reading, *logs), (*listening, *events))
    listening.append(own)
    sending = [
        "sagent.inbox.>",
        "sagent.cancel.>",
        f"$KV.{names.FATES}.>",
        f"$O.{names.PARCELS}.>",
        f"$JS.API.STREAM.PURGE.OBJ_{names.PARCELS}",
        f"$JS.API.CONSUMER.CREATE.{names.REPLIES}.*.{own}",
        f"$JS.API.CONSUMER.MSG.NEXT.{names.REPLIES}.*",
        *_reads(f"KV_{names.FATES}", f"OBJ_{names.PARCELS}"),
    ]
    match user.role:
        case "person":
            files = [f"$O.{names.BLOBS}.>", f"$JS.API.STREAM.PURGE.OBJ_{names.BLOBS}"]
            work = ["sagent.work.>", "sagent.control.>", f"$KV.{names.SESSIONS}.>", *files]
            work += [f"$KV.{names.BUDGETS}.>", *_reads(f"KV_{names.BUDGETS}")]
            return Permissions((*reading, *logs, *sending, *work), (*listening, *events, "sagent.asking.>"))
        case "agent":
            receiving, cancels = _receiving(user.addresses)
            return Permissions((*reading, *sending, *receiving), (*listening, *cancels))
        case "node":
            everything = ["sagent.>", "$KV.>", "$O.>", "$JS.ACK.>", "$JS.API.STREAM.CREATE.*"]
            everything += [f"$JS.API.STREAM.PURGE.OBJ_{name}" for name in (names.BLOBS, names.PARCELS)]
            everything += ["$JS.API.STREAM.MSG.GET.*", "$JS.API.DIRECT.GET.>"]
            everything += [f"$JS.API.CONSUMER.{what}.>" for what in ("CREATE", "DURABLE.CREATE", "MSG.NEXT", "DELETE")]
            return Permissions((*reading, *everything), (*listening, "sagent.>"))


def _reads(*streams: str) -> list[str]:
    """Return the subjects needed to read streams."""
    calls = ("STREAM.MSG.GET.{0}", "DIRECT.GET.{0}", "DIRECT.GET.{0}.>", "CONSUMER.CREATE.{0}.>")
    calls += ("CONSUMER.MSG.NEXT.{0}.*",)
    return [f"$JS.API.{call.format(stream)}" for stream in streams for call in calls]


def _receiving(addresses: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the subjects that an agent publishes and listens to in order to receive at its own addresses only."""
    publish, subscribe = list[str](), list[str]()
    for address in addresses:
        own, subject = names.token(address), names.inbox_subject(address)
        publish += [
            f"$JS.API.CONSUMER.CREATE.{names.INBOX}.{own}.{subject}",
            f"$JS.API.CONSUMER.MSG.NEXT.{names.INBOX}.{own}",
            f"$JS.ACK.{names.INBOX}.{own}.>",
            f"$KV.{names.CARDS}.{address}",
            (answers := f"sagent.replies.*.*.{own}.*"),  # it may read its own answers again
            f"$JS.API.DIRECT.GET.{names.REPLIES}.{answers}",
        ]
        subscribe.append(names.cancel_subject(address))
    return publish, subscribe


def configuration(users: Sequence[User]) -> str:
    """Return the accounts of a server, with their users and what these may do: a file for `sagent bus --users`."""
    lines = ["# Made by `sagent nodes permissions`.", "accounts {"]
    for tenant in dict.fromkeys(user.tenant for user in users):
        lines.append(f"  {json.dumps(tenant)} {{ jetstream: enabled, users: [")
        for user in users:
            if user.tenant == tenant:
                allowed = permissions(user)
                may = f"publish: {json.dumps(allowed.publish)}, subscribe: {json.dumps(allowed.subscribe)}"
                answers = ', allow_responses: { max: 1000, expires: "1h" }' if user.role != "observer" else ""
                lines.append(f"    # {user.role} {user.name}")
                lines.append(f"    {{ nkey: {user.key}, permissions: {{ {may}{answers} }} }}")
        lines.append("  ] }")
    return "\n".join([*lines, "}", ""])


class Users:
    """The users of a bus, in a directory: a list of public keys and roles, the configuration made from it, and each
    secret key in its own file, to be moved to its user and removed here."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def configuration(self) -> Path:
        return self.folder / _CONFIGURATION

    def all(self) -> list[User]:
        """Return all users. Raises UsageError if the list cannot be read."""
        path = self.folder / _LIST
        if not path.exists():
            return []
        try:
            return [_decode(value) for value in as_array(json_load(read_given(path)))]
        except (ValueError, OSError) as error:
            raise UsageError(f"{path} cannot be read: {error}") from None

    def key_file(self, user: User) -> Path:
        return self.folder / f"{user.tenant}.{user.name}.nk"

    def change(self, tenant: str, added: Sequence[tuple[Role, str, tuple[str, ...]]], removed: Sequence[str]) -> None:
        """Add users, each with a new key, and remove others by their names, in turn with other processes. Raises
        UsageError."""
        if added:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with in_turn(self.folder):
            self._change(tenant, added, removed)

    def _change(self, tenant: str, added: Sequence[tuple[Role, str, tuple[str, ...]]], removed: Sequence[str]) -> None:
        users = self.all()
        known = {user.name for user in users if user.tenant == tenant}
        if unknown := [name for name in removed if name not in known]:
            raise UsageError(
                f"There is no user {unknown[0]} in {tenant}. The users are: {', '.join(sorted(known)) or '-'}."
            )
        users = [user for user in users if user.tenant != tenant or user.name not in removed]
        for role, name, addresses in added:
            if any((user.tenant, user.name) == (tenant, name) for user in users):
                raise UsageError(f"There is a user {name} in {tenant} already. To give it a new key, remove it first.")
            seed = new_seed()
            user = User(tenant, check_name(name), role, public_key(seed), addresses)
            put(self.key_file(user), seed.encode() + b"\n")
            users.append(user)
        put(self.folder / _LIST, json.dumps(list(map(asdict, users))).encode())
        put(self.configuration, configuration(users).encode())


def _decode(value: object) -> User:
    found = as_object(value)
    role: Role | None = next((each for each in ROLES if each == found.get("role")), None)
    texts = [as_str(found.get(name)) for name in ("tenant", "name", "key")]
    if role is None or not all(texts):
        raise ValueError(f"not a user: {value}")
    return User(texts[0], texts[1], role, texts[2], tuple(map(str, as_array(found.get("addresses")))))
