"""The names of things on the bus: streams, buckets and subjects, for the code and for the permissions made of them.

Everything of one tenant is in one account of the server, so names need no tenant.
"""

import re

VERSION = 1
"""Of messages, cards and records. What carries another is refused with a sentence, never guessed at."""

LOG, INBOX, WORK, REPLIES = "SAGENT_LOG", "SAGENT_INBOX", "SAGENT_WORK", "SAGENT_REPLIES"
LEASES, CARDS, SESSIONS, FATES = "sagent-leases", "sagent-cards", "sagent-sessions", "sagent-fates"
BLOBS, PARCELS = "sagent-blobs", "sagent-parcels"
"""Blobs of sessions are kept; parcels are bodies of messages that were too large for one, for a week at most."""

ANYBODY = "_"
"""The user in subjects where there is no public key."""

SYNCED = "sagent-synced"
"""With what the name of a server begins that syncs what it acknowledges."""

CLUSTER, REPLICAS = "sagent-r3", 3
"""What our servers call their cluster, and how many of them then have a copy of each stream."""

LEASE_TTL, CARD_TTL = 4.0, 15.0
"""Seconds after which a lease, or a card, is gone that nobody has renewed."""

NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
"""What a node, a label and a session may be called."""

_ODD = re.compile(rb"[^A-Za-z0-9_-]")


def token(text: str) -> str:
    """Any text as one token of a subject, or a part of a key: what is not a letter, a digit, _ or - becomes =XX."""
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
    """Return the subject for those who answer what agents want to know: another subject, so that whoever only
    approves calls is not waited for."""
    return f"{asking_subject(session)}.inquiry"


def cancel_subject(name: str) -> str:
    """Return the subject on which a receiver at an address learns that an answer is not wanted any more."""
    return f"sagent.cancel.{'.'.join(map(token, name.split('.')))}"


def reply_subject(client: str, name: str = "*", request: str = "*") -> str:
    """Return the subject of an address's answers to one request of a bus client, or to all. A client is "USER.ID". The
    answering address is in it so that an agent can be held to answering in its own name."""
    user, _, own = client.partition(".")
    of = (text if text == "*" else token(text) for text in (name, request))
    return f"sagent.replies.{token(user)}.{token(own)}.{'.'.join(of)}"


def private_inbox(user: str) -> str:
    """Return the prefix of the subjects on which the server answers a user, and nobody else may listen."""
    return "_INBOX" if user == ANYBODY else f"_INBOX_{user}"


def stream_of(subject: str) -> str:
    """Return the stream in which what is published on a subject is kept."""
    if subject.startswith("$KV."):
        return f"KV_{subject.split('.')[1]}"
    return {"log": LOG, "inbox": INBOX, "work": WORK, "replies": REPLIES}[subject.split(".")[1]]
