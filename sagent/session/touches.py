"""Changes of files by calls, as a log stores them: before and after, by blob."""

from collections.abc import Iterator, Mapping
from typing import Literal

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_object, as_str
from sagent.lib.names import quote_path, unquote_path

NOT_SEEN = "the call that was to change it was not seen to end"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of a path: missing, a file (its content by the name of its `blob`, its permission bits), a symbolic link, a
    directory. With a `why` the state or the content is unknown."""

    kind: Literal["absent", "file", "link", "directory", "unknown"]
    blob: str = ""
    mode: int = 0
    target: str = ""
    why: str = ""


ABSENT = Snapshot("absent")
DIRECTORY = Snapshot("directory")


def unknown(reason: str) -> Snapshot:
    """Return a snapshot of an unknown state, with the reason."""
    return Snapshot("unknown", why=reason)


@dataclass(frozen=True, slots=True)
class Touch:
    """One file, by its absolute path, before and after a call. For an unfinished call, `after` is the intended state,
    if known."""

    path: str
    before: Snapshot
    after: Snapshot


@dataclass(frozen=True, slots=True)
class Omission:
    """A file or a directory that is not covered, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Touched:
    """Known changes of one call to files: logged when it begins and when it has ended. `made` and `gone` are
    directories; `trees` are the searched directories; `beside` are concurrent calls, which may have made the changes
    too."""

    call: str
    tool: str
    ended: bool
    files: tuple[Touch, ...] = ()
    made: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    omitted: tuple[Omission, ...] = ()
    trees: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    @property
    def blobs(self) -> Iterator[str]:
        """The names of all blobs it needs."""
        return (each.blob for touch in self.files for each in (touch.before, touch.after) if each.blob)


def encode_touched(touched: Touched) -> dict[str, object]:
    """Encode touched files for the log."""
    lists: dict[str, object] = {
        "files": tuple(_encode_touch(touch, ended=touched.ended) for touch in touched.files),
        "made": tuple(map(quote_path, touched.made)),
        "gone": tuple(map(quote_path, touched.gone)),
        "omitted": tuple({"path": quote_path(each.path), "why": each.why} for each in touched.omitted),
        "trees": tuple(map(quote_path, touched.trees)),
        "beside": touched.beside,
    }
    state = "ended" if touched.ended else "begun"
    filled = {name: value for name, value in lists.items() if value}
    return {"call": touched.call, "tool": touched.tool, "state": state, **filled}


def decode_touched(body: Mapping[str, object]) -> Touched:
    """Decode changes. Unreadable ones become unknown and so are never restored."""
    return Touched(
        as_str(body.get("call")),
        as_str(body.get("tool")),
        body.get("state") == "ended",
        tuple(_decode_touch(as_object(file)) for file in as_array(body.get("files"))),
        _paths(body.get("made")),
        _paths(body.get("gone")),
        tuple(
            Omission(unquote_path(as_str(each.get("path"))), as_str(each.get("why")))
            for each in map(as_object, as_array(body.get("omitted")))
        ),
        _paths(body.get("trees")),
        tuple(map(as_str, as_array(body.get("beside")))),
    )


def _encode_touch(touch: Touch, *, ended: bool) -> Mapping[str, object]:
    after = {"after": _encode(touch.after)} if ended or touch.after.kind != "unknown" else {}
    return {"path": quote_path(touch.path), "before": _encode(touch.before), **after}


def _decode_touch(touch: Mapping[str, object]) -> Touch:
    after = _decode(touch["after"]) if "after" in touch else unknown(NOT_SEEN)
    return Touch(unquote_path(as_str(touch.get("path"))), _decode(touch.get("before")), after)


def _encode(snapshot: Snapshot) -> Mapping[str, object] | None:
    match snapshot.kind:
        case "absent":
            return None
        case "file":
            return {"blob": snapshot.blob, "mode": f"{snapshot.mode:o}"}
        case "link":
            return {"link": quote_path(snapshot.target)}
        case "directory":
            return {"directory": True}
        case "unknown":
            return {"unknown": snapshot.why}


def _decode(value: object) -> Snapshot:
    if value is None:
        return ABSENT
    body = as_object(value)
    if blob := as_str(body.get("blob")):
        try:
            return Snapshot("file", blob, int(as_str(body.get("mode")), 8) & 0o7777)
        except ValueError:
            return unknown("its mode is none")
    if "link" in body:
        return Snapshot("link", target=unquote_path(as_str(body["link"])))
    if body.get("directory") is True:
        return DIRECTORY
    return unknown(as_str(body.get("unknown")) or "it is logged in a way that this version does not know")


def _paths(value: object) -> tuple[str, ...]:
    return tuple(unquote_path(as_str(each)) for each in as_array(value))
