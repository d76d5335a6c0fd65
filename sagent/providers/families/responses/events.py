"""OpenAI Responses: events in. Pure reading of plain JSON: no clock, no network."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, as_array, as_int, as_object, as_str, json_dump, json_freeze, valid_text
from sagent.messages import Message, Opaque, Part, StopReason, Text, Thinking, ToolCall
from sagent.model import Delta, TextPart, ThinkingPart
from sagent.providers.families.billing import own_price, source_fees, tier_named, tokens_of
from sagent.providers.families.openai_models import efforts_of
from sagent.providers.handover import describe_input, excerpt, words_in
from sagent.providers.wire.faults import Origin, from_event
from sagent.providers.wire.reply import ReplyReader, count_of, stop_of
from sagent.usage import Charge

MAX_ID_CHARS = 64  # of an item's or a call's id: longer ones are refused
CLIENT_CALLS = ("computer_call", "local_shell_call", "shell_call", "apply_patch_call")  # we would owe outputs

_READABLE = (
    *("filename", "title", "text", "logs", "stdout", "stderr", "message"),
    *("output", "outputs", "results", "error", "content"),
)
_GAP = "\n\n"  # between two parts of a summary
_STOPS: Mapping[str, StopReason] = {"max_output_tokens": "max_tokens", "content_filter": "content_filter"}
_STREAMED = {
    "response.output_text": "output_text",
    "response.refusal": "refusal",
    "response.reasoning_summary_text": "summary",
    "response.reasoning_text": "reasoning_text",
}
_OWNERS = {
    "output_text": "message",
    "refusal": "message",
    "function_call_arguments": "function_call",
    "custom_tool_call_input": "custom_tool_call",
}
_FEES = {
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "image_generation_call": "image_generation",
}
_UNFINISHED = ("queued", "in_progress")
_BROKEN_OFF = ("incomplete", "failed", "cancelled")
_ID_STARTS = {"message": "msg", "function_call": "fc", "reasoning": "rs"}


@dataclass(slots=True, eq=False)
class _Item:
    """An output item while it arrives: its streamed parts, and its newest form."""

    whole: Mapping[str, object]  # that form
    is_final: bool = False  # it is the last
    reported: bool = False  # its arguments are reported complete
    parts: dict[tuple[str, int], list[str]] = field(default_factory=dict[tuple[str, int], list[str]])
    """Streamed text by kind of part and its number."""
    arguments: list[str] = field(default_factory=list[str])
    annotations: dict[int, list[object]] = field(default_factory=dict[int, list[object]])

    @property
    def type(self) -> str:
        return as_str(self.whole.get("type"))

    @property
    def closed(self) -> bool:
        """True if the provider reports that all of it has arrived; some omit its status, or repeat the first one."""
        status = as_str(self.whole.get("status"))
        return status == "completed" or (status != "incomplete" and (self.reported or (self.is_final and not status)))

    def raw_arguments(self) -> str:
        member = "input" if self.type == "custom_tool_call" else "arguments"
        value = self.whole.get(member)
        if value is not None and not isinstance(value, str):  # an object instead of the protocol's string
            return json_dump(value)
        return as_str(value) or "".join(self.arguments)


class ResponsesReplyReader(ReplyReader):
    """A reply taking shape from the events of the Responses API. `family` labels what only it may read back."""

    def __init__(self, origin: Origin, family: str) -> None:
        super().__init__(origin, family)
        self._items: dict[int, _Item] = {}
        self._moved: dict[int, int] = {}  # position of the newest of several items with one number
        self._status = ""
        self._reason = ""  # why it is incomplete
        self._tool_usage: Mapping[str, object] = EMPTY
        self._older_search = False
        self._offered: Sequence[Mapping[str, object]] | None = None  # the tools, if the answer repeats them

    def feed(self, event: Mapping[str, object], out: list[Delta]) -> None:
        """Take one event and append its deltas. Raises ModelError if the response failed."""
        kind = as_str(event.get("type"))
        if streamed := _STREAMED.get(kind.removesuffix(".delta").removesuffix(".done")):
            number = as_int(event.get("summary_index" if streamed == "summary" else "content_index"))
            self._text(event, (streamed, number), out)
            return
        match kind.removeprefix("response."):
            case "function_call_arguments.delta" | "custom_tool_call_input.delta":
                self._arguments(event, as_str(event.get("delta")))
            case "function_call_arguments.done" | "custom_tool_call_input.done":
                self._item(event).reported = True
                if not self._item(event).arguments:
                    self._arguments(event, as_str(event.get("arguments")) or as_str(event.get("input")))
            case "output_item.added":
                self._open(event)
            case "output_item.done":
                self._close(self._item(event), as_object(event.get("item")), out)
            case "output_text.annotation.added":
                noted = self._item(event).annotations
                cited = noted.setdefault(as_int(event.get("content_index")), [])
                cited.append(event.get("annotation"))
                self._bound(cited)
            case "completed" | "incomplete" | "failed" | "cancelled" | "done":  # the last from gateways
                self._end({"status": "completed", **as_object(event.get("response"))}, kind.partition(".")[2], out)
            case "created" | "in_progress":
                self.response_id = as_str(as_object(event.get("response")).get("id"))
            case _:
                pass  # progress of server tools, and repetitions

    def whole(self, body: Mapping[str, object], out: list[Delta]) -> None:
        if isinstance(body.get("output"), list) and body.get("status") not in _UNFINISHED:
            self._end(body, "", out)

    def failed(self, event: Mapping[str, object], out: list[Delta]) -> None:
        response = as_object(event.get("response")) or event
        if self._cost is None:
            self._cost = own_price(as_object(response.get("usage")), response)
        super().failed(response, out)

    def message(self) -> Message:
        """Return the finished message: its parts in the order of the output items."""
        parts = tuple(part for number in sorted(self._items) for part in self._parts(self._items[number]))
        texts = [as_object(part.private.data) for part in parts if isinstance(part, Text) and part.private]
        refused = any(data.get("refusal") for data in texts)
        return self._assembled(parts, "refusal" if refused else stop_of(self._reason, _STOPS))

    def charges(self) -> tuple[Charge, ...]:
        if not self._usage:
            return ()
        usage = replace(tokens_of(self._usage), fees=self._fees())
        return (Charge(self._origin.model, usage, tier_named(self._tier), self._cost),)

    def _fees(self) -> Mapping[str, int]:
        """Return the fees of server tools that are billed by use. Opening a found page is free (OpenAI's guide)."""
        if fees := source_fees(self._usage):
            return fees
        used = [kind for item in self._items.values() if (kind := _FEES.get(item.type)) and _is_billed(item.whole)]
        fees = {kind: used.count(kind) for kind in used}
        ran = [item.whole for item in self._items.values() if item.type == "code_interpreter_call"]
        if ran:  # a container is billed once, however often code runs in it
            fees["code_container"] = len({as_str(each.get("container_id")) for each in ran})
        if searches := count_of(as_object(self._tool_usage.get("web_search")).get("num_requests")):
            fees["web_search"] = searches
        if "web_search" in fees and self._older_search and not efforts_of(self._origin.model):
            fees["web_search_preview"] = fees.pop("web_search")
        return fees

    def notes(self) -> tuple[str, ...]:
        """Return the reason why the provider stopped the reply, if nothing else tells it."""
        if self._status == "incomplete" and self._reason not in _STOPS:
            return (f"the provider ended the reply early: {self._reason or 'it gave no reason'}",)
        return ()

    # What arrives

    def _open(self, event: Mapping[str, object]) -> None:
        start, index = as_object(event.get("item")), self._index(event)
        known = self._items.get(index)
        if known is not None and (known.is_final or known.whole.get("id") not in (None, start.get("id"))):
            index = self._moved[as_int(event.get("output_index"))] = max(self._items) + 1  # all have the number 0
        self._items.setdefault(index, _Item(start)).whole = start
        self._bound(self._items)
        self.reasoning = start.get("type") not in ("message", "function_call", "custom_tool_call")

    def _item(self, event: Mapping[str, object]) -> _Item:
        """Return the item an event belongs to; some servers announce none."""
        index = self._index(event)
        item = self._items.get(index)
        if item is None:
            item = self._items[index] = _Item(
                {"type": _OWNERS.get(as_str(event.get("type")).split(".")[1], "reasoning")}
            )
        return item

    def _index(self, event: Mapping[str, object]) -> int:
        """Return an item's index by its number, as ids differ between events at Copilot; without one, by its id."""
        number = event.get("output_index")
        if isinstance(number, int) and number not in self._moved:
            return number
        given = as_str(event.get("item_id")) or as_str(as_object(event.get("item")).get("id"))
        known = next((index for index, item in self._items.items() if given and item.whole.get("id") == given), None)
        if known is not None:
            return known
        if isinstance(number, int):
            return self._moved[number]
        last = max(self._items, default=-1)
        begins = event.get("type") == "response.output_item.added" or last < 0 or self._items[last].is_final
        return last + 1 if begins else last

    def _say(self, item: _Item, part: tuple[str, int], text: str, out: list[Delta]) -> None:
        if not text:
            return
        thinks = part[0] in ("summary", "reasoning_text")
        if part not in item.parts and thinks and item.parts:
            out.append(ThinkingPart(_GAP))
        self.reasoning = thinks
        self._show(ThinkingPart(text) if thinks else TextPart(text), item.parts.setdefault(part, []), out)

    def _text(self, event: Mapping[str, object], part: tuple[str, int], out: list[Delta]) -> None:
        """Take a piece of a text; or the whole text, if no pieces came."""
        item = self._item(event)
        if as_str(event.get("type")).endswith(".delta"):
            self._say(item, part, as_str(event.get("delta")), out)
        elif part not in item.parts and not item.is_final:
            self._say(item, part, as_str(event.get("refusal" if part[0] == "refusal" else "text")), out)

    def _arguments(self, event: Mapping[str, object], piece: str) -> None:
        self._item(event).arguments.append(piece)
        self._count(piece)

    def _close(self, item: _Item, final: Mapping[str, object], out: list[Delta]) -> None:
        """Take an item in its final form; the parts that were not streamed come now."""
        if final.get("status") == "incomplete":
            item.whole = {**item.whole, "status": "incomplete"}
        if item.is_final or not final:
            return
        item.whole, item.is_final = final, True
        for part, text in _texts_of(final):
            if part not in item.parts and not (part[0] == "reasoning_text" and item.parts):
                self._say(item, part, text, out)
        self.reasoning = True  # until the next item says otherwise

    def _end(self, response: Mapping[str, object], ended: str, out: list[Delta]) -> None:
        self.response_id = as_str(response.get("id")) or self.response_id
        self._reason = as_str(as_object(response.get("incomplete_details")).get("reason"))
        said = (ended, as_str(response.get("status")), "incomplete" if self._reason else "")
        self._status = next((each for each in said if each in _BROKEN_OFF), "completed")  # whoever of them says so
        self._settle([as_object(final) for final in as_array(response.get("output"))], out)
        self._tier = as_str(response.get("service_tier"))
        self._tool_usage = as_object(response.get("tool_usage"))
        if response.get("tools") is not None:
            self._offered = [as_object(tool) for tool in as_array(response["tools"])]
        kinds = [as_str(tool.get("type")) for tool in self._offered or ()]
        self._older_search = any(kind.startswith("web_search_preview") for kind in kinds)
        if usage := as_object(response.get("usage")):
            self._cost = own_price(usage, response)
            self._bill(usage, out)
        if error := response.get("error"):
            raise from_event(self._origin, {"error": as_object(error) or {"message": str(error)}})
        if self._status in ("failed", "cancelled"):
            words = f"the provider says that the response was {self._status}, without a reason"
            raise from_event(self._origin, {"error": {"type": "server_error", "message": words}})
        self.complete = self.closed = True

    def _settle(self, output: Sequence[Mapping[str, object]], out: list[Delta]) -> None:
        """Take all items in their final form: each closes the item with its id or at its place, or is new."""
        taken: set[int] = set()
        for index, final in enumerate(output):
            given = as_str(final.get("id"))
            same = (
                at for at, item in self._items.items() if given and item.whole.get("id") == given and at not in taken
            )
            place = next(same, index if index not in taken else max(self._items) + 1)
            taken.add(place)
            item = self._items.setdefault(place, _Item(final))
            if item.type == final.get("type"):
                self._close(item, final, out)

    # What it comes to

    def _parts(self, item: _Item) -> Iterator[Part]:
        match item.type:
            case "message":
                yield from self._texts(item)
            case "reasoning":
                thought = valid_text(_GAP.join("".join(pieces) for pieces in item.parts.values()))
                kept = _reasoning_kept(item.whole) if item.is_final else None
                if thought or kept:
                    yield Thinking(thought, self._private(kept) if kept else None)
            case "function_call":
                yield self._call(item)
            case "custom_tool_call" if self._is_ours(item):
                yield self._call(item)
            case "":
                pass
            case _:
                if item.is_final:
                    data = {name: value for name, value in item.whole.items() if name != "created_by"}
                    yield Opaque(_excerpt(data), self._private(data))

    def _is_ours(self, item: _Item) -> bool:
        """Return True if a custom tool was in our request: xAI reports its own tools' runs as custom calls too."""
        name = item.whole.get("name")
        return self._offered is None or any(
            tool.get("type") == "custom" and tool.get("name") == name for tool in self._offered
        )

    def _texts(self, item: _Item) -> Iterator[Text]:
        """Return one part for each part of the message, with the data to reassemble it."""
        left = "completed" if self._status == "completed" else "incomplete"
        about = {
            "id": item_id(item.whole),
            "phase": item.whole.get("phase"),
            "status": item.whole.get("status") if item.is_final else left,
        }
        cited = {
            number: as_array(as_object(part).get("annotations"))
            for number, part in enumerate(as_array(item.whole.get("content")))
        }
        for kind, number in sorted(item.parts, key=lambda part: part[1]):
            text = valid_text("".join(item.parts[kind, number]))
            notes = cited.get(number) or item.annotations.get(number)
            private = {**about, "annotations": notes, "refusal": kind == "refusal"}
            yield Text(text, self._private({name: value for name, value in private.items() if value}))

    def _call(self, item: _Item) -> ToolCall:
        """Return a call. A custom tool's input, any text, is its only argument."""
        raw, name = item.raw_arguments(), as_str(item.whole.get("name"))
        call_id = as_str(item.whole.get("call_id")) or as_str(item.whole.get("id"))
        whole = item.closed and (self._status != "incomplete" or self._reason in _STOPS)
        if item.type == "custom_tool_call":
            return ToolCall(call_id, name, json_freeze({"input": valid_text(raw)}), whole=whole)
        arguments, malformed = self._parsed(name, raw) if raw.strip() else (EMPTY, None)
        private = {name: value for name in ("namespace", "caller") if (value := item.whole.get(name))}
        if kept_id := item_id(item.whole):
            private["id"] = kept_id
        if malformed is None and raw.strip() and raw != json_dump(arguments):
            private["arguments"] = valid_text(raw)  # as the model wrote them, for its cache
        return ToolCall(call_id, name, arguments, malformed, self._private(private) if private else None, whole=whole)


def item_id(item: Mapping[str, object]) -> str:
    """Return an item's id if the API would accept it: short, and with the prefix of its kind; else ""."""
    given = as_str(item.get("id"))
    sound = 0 < len(given) <= MAX_ID_CHARS and given.isascii() and given.replace("-", "_").replace("_", "a").isalnum()
    return given if sound and given.startswith(_ID_STARTS.get(as_str(item.get("type")), "")) else ""


def _reasoning_kept(item: Mapping[str, object]) -> Mapping[str, object] | None:
    """Return a reasoning item as it is sent back. Without encrypted or plain content the server could only look it up,
    and nothing is stored there."""
    if not (item.get("encrypted_content") or item.get("content")):
        return None
    kept = {name: value for name, value in item.items() if value is not None and name not in ("status", "id")}
    if not kept.get("content"):
        kept.pop("content", None)
    own = item_id(item)
    return {"type": "reasoning", **({"id": own} if own else {}), "summary": (), **kept}


def _is_billed(item: Mapping[str, object]) -> bool:
    return as_str(as_object(item.get("action")).get("type"), "search") == "search"


def _texts_of(item: Mapping[str, object]) -> Iterator[tuple[tuple[str, int], str]]:
    """Yield the texts in a message or a reasoning item, with the kind and number of their parts."""
    for member in ("summary", "content") if item.get("type") == "reasoning" else ("content",):
        content = item.get(member)
        listed = [{"type": "output_text", "text": content}] if isinstance(content, str) else as_array(content)
        for number, entry in enumerate(listed):
            part = as_object(entry)
            kind = "summary" if member == "summary" else as_str(part.get("type"))
            text = as_str(part.get("refusal") if kind == "refusal" else part.get("text"))
            if text:
                yield (("output_text" if kind == "text" else kind), number), text


def _excerpt(item: Mapping[str, object]) -> str:
    """Summarize a server tool's result for a person and for other providers; for a search, its query."""
    if item.get("type") == "web_search_call":
        return describe_input("web_search", as_object(item.get("action")))
    if item.get("type") == "image_generation_call":
        return describe_input("image_generation", {"query": item.get("revised_prompt")})
    results = {name: item.get(name) for name in ("output", "outputs", "results", "error")}
    words = " ".join(words_in(results, _READABLE))
    return excerpt(words) if words or "code" not in item else describe_input("code_interpreter", item)
