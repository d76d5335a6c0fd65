"""Signed statement about a session: the heads of its logs, and its blobs."""

from collections.abc import Mapping

from sagent.lib.dataclass import dataclass
from sagent.lib.json import Thawed, as_array, as_object, as_str, canonical_bytes, json_load

STATEMENT = "signed.json"  # signed data in a session, because its logs may grow


@dataclass(frozen=True, slots=True)
class Statement:
    """Signed statement about a session: the heads of its logs by agent, and the names of its blobs."""

    session: str
    heads: Mapping[str, str]
    blobs: tuple[str, ...]


def state(statement: Statement) -> bytes:
    """Return the file that is signed: canonical JSON and a new line."""
    heads: dict[str, Thawed] = dict(statement.heads)
    members = {"version": 1, "session": statement.session, "heads": heads, "blobs": list(statement.blobs)}
    return canonical_bytes(members) + b"\n"


def read_statement(data: bytes) -> Statement:
    """Return the statement of a file. Raises ValueError for what `state` does not write."""
    members = as_object(json_load(data))
    heads = {agent: as_str(head) for agent, head in as_object(members.get("heads")).items()}
    found = Statement(as_str(members.get("session")), heads, tuple(map(as_str, as_array(members.get("blobs")))))
    if state(found) != data:
        raise ValueError("it is not a signed statement of sagent")
    return found
