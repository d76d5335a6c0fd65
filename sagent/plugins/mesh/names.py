"""Names of streams, buckets and subjects on the bus, for code and permissions.

One tenant is one account of the server, so names need no tenant.
"""

import re

VERSION = 1
"""Version of messages, cards and records. Other versions are rejected with a message, never guessed."""

LOG, INBOX, WORK, REPLIES = "SAGENT_LOG", "SAGENT_INBOX", "SAGENT_WORK", "SAGENT_REPLIES"
LEASES, CARDS, SESSIONS, FATES = "sagent-leases", "sagent-cards", "sagent-sessions", "sagent-fates"
BUDGETS = "sagent-budgets"
BLOBS, PARCELS = "sagent-blobs", "sagent-parcels"
"""Blobs of sessions are kept; those too large for a message, for a week at most."""

ANYBODY = "_"
"""The user in subjects if there is no public key."""

SYNCED = "sagent-synced"
"""Prefix of names of servers that sync what they acknowledge."""

CLUSTER, REPLICAS = "sagent-r3", 3
"""Name of our servers' cluster, and the number of copies of each stream there."""

LEASE_TTL, MAX_LEASE_TTL, CARD_TTL = 4.0, 60.0, 15.0
"""Seconds after which a lease (more if its holder pauses for long) or card expires unless renewed."""

NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
"""Valid names of nodes, labels and sessions."""

_ODD = re.compile(rb"[^A-Za-z0-9_-]")


def token(text: str) -> str:
    """Encode any text as one token of a subject or key: other characters than letters, digits, _ and - become =XX."""
    return _ODD.sub(lambda odd: b"=%02X" % ord(odd[0]), text.encode("utf-8", "surrogatepass")).decode() or "="


def log_subject(session: str) -> str:
    """Return the subject of a session's logs, shared by its agents."""
    return f"sagent.log.{token(session)}.root"


def inbox_subject(name: str) -> str:
    """Return the subject of messages waiting for an address; a dotted name has as many tokens."""
    return f"sagent.inbox.{'.'.join(map(token, name.split('.')))}"


def work_subject(label: str = "") -> str:
    """Return the subject of work waiting for a node with a label, or for any node."""
    return f"sagent.work.{token(label) if label else '_'}"


def events_subject(session: str) -> str:
    """Return the subject of a session's events, which are not kept."""
    return f"sagent.events.{token(session)}"


def control_subject(target: str) -> str:
    """Return the subject on which a node or a session answers requests."""
    return f"sagent.control.{token(target)}"


def asking_subject(session: str) -> str:
    """Return the subject for those who approve calls of a session."""
    return f"sagent.asking.{token(session)}"


def inquiry_subject(session: str) -> str:
    """Return the subject for those who answer agents' questions: a separate one, so that nobody waits for a client that
    only approves calls."""
    return f"{asking_subject(session)}.inquiry"


def cancel_subject(name: str) -> str:
    """Return the subject on which a receiver at an address learns that an answer is no longer wanted."""
    return f"sagent.cancel.{'.'.join(map(token, name.split('.')))}"


def reply_subject(client: str, name: str = "*", request: str = "*") -> str:
    """Return the subject of an address's answers to one request of a bus client, or to all. A client is "USER.ID". The
    answering address is included so that permissions can restrict agents to their own."""
    user, _, own = client.partition(".")
    of = (text if text == "*" else token(text) for text in (name, request))
    return f"sagent.replies.{token(user)}.{token(own)}.{'.'.join(of)}"


def private_inbox(user: str) -> str:
    """Return the prefix of the subjects on which the server answers a user, and nobody else may listen."""
    return "_INBOX" if user == ANYBODY else f"_INBOX_{user}"


def stream_of(subject: str) -> str:
    """Return the stream that stores a subject's messages."""
    if subject.startswith("$KV."):
        return f"KV_{subject.split('.')[1]}"
    return {"log": LOG, "inbox": INBOX, "work": WORK, "replies": REPLIES}[subject.split(".")[1]]
