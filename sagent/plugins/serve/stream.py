"""Events on the wire: server-sent events, as the HTML standard has them."""

import json

from sagent.lib.json import as_array, as_object, as_str, wire_bytes
from sagent.plugins.exports.cards import Fetch, changes
from sagent.plugins.serve.feed import Item
from sagent.plugins.serve.fragments import fragment, plan_fragment

HEARTBEAT_SECONDS = 15.0  # seconds of silence before a sign of life


def encode(item: Item, fetch: Fetch | None = None) -> bytes:
    """Encode an event for the wire; JSON has no line ends. With `fetch`, which returns images, its HTML is included."""
    data = item.data
    if fetch is not None and item.name in ("", "status"):
        data = _with_html(item, fetch)
    head = (f"event: {item.name}\n" if item.name else "") + (f"id: {item.id}\n" if item.id else "")
    return b"%bdata: %b\n\n" % (head.encode(), data)


_SHOWN = (b'"received"', b'"reply_finished"', b'"tool_finished"', b'"advice"')


def _with_html(item: Item, fetch: Fetch) -> bytes:
    if not item.name and not any(kind in item.data[:40] for kind in _SHOWN):
        return item.data
    event = dict(as_object(json.loads(item.data)))
    if item.name:
        questions = [dict(as_object(question)) for question in as_array(event.get("questions"))]
        for question in questions:
            if plan := as_str(question.get("plan")):
                question["html"] = plan_fragment(plan)
            elif diff := as_str(question.get("diff")):
                question["html"] = changes(diff, as_str(question.get("path")))
        event["questions"] = questions
    elif html := fragment(event, fetch):
        event["html"] = html
    return wire_bytes(event)
