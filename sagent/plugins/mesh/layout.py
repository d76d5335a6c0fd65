"""The streams and buckets of a bus, as they are made."""

from dataclasses import replace
from typing import TYPE_CHECKING

from sagent.plugins.mesh import names
from sagent.plugins.mesh.connection import MAX_INBOX_MESSAGES

if TYPE_CHECKING:
    from nats.js.api import StreamConfig

PARCEL_LIFE_SECONDS = 7 * 86_400.0  # seconds
REPLY_LIFE_SECONDS = 3_600.0  # seconds


def every_stream() -> "list[StreamConfig]":
    """Return the streams, including those that implement the buckets (laid out by ADR-8 and ADR-20)."""
    from nats.js.api import DiscardPolicy, RetentionPolicy, StreamConfig

    inbox = StreamConfig(
        name=names.INBOX,
        subjects=["sagent.inbox.>"],
        retention=RetentionPolicy.WORK_QUEUE,
        discard=DiscardPolicy.NEW,
        discard_new_per_subject=True,
        max_msgs_per_subject=MAX_INBOX_MESSAGES,
        allow_msg_ttl=True,
    )
    return [
        StreamConfig(name=names.LOG, subjects=["sagent.log.>"], allow_direct=True, deny_delete=True),
        inbox,
        StreamConfig(name=names.WORK, subjects=["sagent.work.>"], retention=RetentionPolicy.WORK_QUEUE),
        StreamConfig(name=names.REPLIES, subjects=["sagent.replies.>"], max_age=REPLY_LIFE_SECONDS, allow_direct=True),
        _bucket(names.LEASES, names.MAX_LEASE_TTL),
        _bucket(names.CARDS, names.CARD_TTL),
        _bucket(names.SESSIONS),
        _bucket(names.BUDGETS),
        _once(names.FATES, PARCEL_LIFE_SECONDS),
        _objects(names.BLOBS),
        _objects(names.PARCELS, PARCEL_LIFE_SECONDS),
    ]


def _bucket(name: str, ttl: float | None = None) -> "StreamConfig":
    """Return the configuration of a bucket. If its keys expire, the server leaves a marker that watchers see."""
    from nats.js.api import DiscardPolicy, StreamConfig

    return StreamConfig(
        name=f"KV_{name}",
        subjects=[f"$KV.{name}.>"],
        max_msgs_per_subject=1,
        max_age=ttl,
        duplicate_window=min(ttl or 120.0, 120.0),
        discard=DiscardPolicy.NEW,
        allow_rollup_hdrs=True,
        allow_direct=True,
        allow_msg_ttl=True,
        subject_delete_marker_ttl=None if ttl is None else max(1.0, 2 * min(ttl, 30.0)),
        deny_delete=True,
    )


def _once(name: str, ttl: float) -> "StreamConfig":
    """Return a bucket whose existing keys nobody may change."""
    return replace(
        _bucket(name, ttl),
        discard_new_per_subject=True,
        allow_rollup_hdrs=False,
        allow_msg_ttl=False,
        subject_delete_marker_ttl=None,
    )


def _objects(name: str, ttl: float | None = None) -> "StreamConfig":
    from nats.js.api import DiscardPolicy, StreamConfig

    return StreamConfig(
        name=f"OBJ_{name}",
        subjects=[f"$O.{name}.C.>", f"$O.{name}.M.>"],
        max_age=ttl,
        discard=DiscardPolicy.NEW,
        allow_rollup_hdrs=True,
        allow_direct=True,
    )
