"""Files of the receivers of notifications, over restarts: `a2a/SESSION.push.json` in the state directory, for its owner
alone.

They have the tokens that clients gave, so they are not part of a session's log.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from a2a.types.a2a_pb2 import TaskPushNotificationConfig
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from sagent.lib.atomic import put
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_object, json_load, wire_bytes
from sagent.lib.regular import read_regular
from sagent.session.log import make_directory

_ENDING = ".push.json"
_MAX_FILE_BYTES = 32 << 20  # of a file


@dataclass(frozen=True, slots=True)
class KeptReceiver:
    """An address that a client named for a task; `done` after the notification of the task's end."""

    config: TaskPushNotificationConfig
    done: bool = False


class ReceiverFiles:
    """The files of receivers, one for each session with any."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, session: str) -> Sequence[KeptReceiver]:
        """Read the valid receivers of a session."""
        found: list[KeptReceiver] = []
        for row in self._rows(session):
            with suppress(ValueError, TypeError, ParseError):
                found.append(_decode(row))
        return found

    def put(self, session: str, receiver: KeptReceiver) -> None:
        """Save one, replacing the one with its id; it is synced to disk. Raises OSError."""
        row = {"config": MessageToDict(receiver.config), "done": receiver.done}
        self._write(session, [*self._others(session, receiver.config.task_id, receiver.config.id), row])

    def remove(self, session: str, task: str, name: str) -> None:
        """Forget one, if it exists. Raises OSError."""
        if others := self._others(session, task, name):
            self._write(session, others)
        else:
            self._file(session).unlink(missing_ok=True)

    def sweep(self, sessions: Iterable[Path]) -> None:
        """Remove those of deleted sessions. `sessions`, the existing ones, is read after the files."""
        files = {file.name.removesuffix(_ENDING): file for file in self._directory.glob(f"*{_ENDING}")}
        if files:
            for gone in files.keys() - {path.name for path in sessions}:
                files[gone].unlink(missing_ok=True)

    def _rows(self, session: str) -> Sequence[object]:
        try:
            return as_array(json_load(read_regular(self._file(session), max_bytes=_MAX_FILE_BYTES)))
        except (OSError, ValueError):
            return []

    def _others(self, session: str, task: str, name: str) -> Sequence[object]:
        """Return all receivers in the file but one."""
        configs = [(row, as_object(as_object(row).get("config"))) for row in self._rows(session)]
        return [row for row, config in configs if (config.get("taskId"), config.get("id")) != (task, name)]

    def _write(self, session: str, rows: Sequence[object]) -> None:
        make_directory(self._directory)
        put(self._file(session), wire_bytes(rows))

    def _file(self, session: str) -> Path:
        return self._directory / f"{session}{_ENDING}"


def _decode(row: object) -> KeptReceiver:
    """Decode a receiver. Raises ValueError, TypeError and ParseError."""
    members = as_object(row)
    config = ParseDict(dict(as_object(members.get("config"))), TaskPushNotificationConfig())
    if not config.task_id:
        raise ValueError("a receiver of no task")
    return KeptReceiver(config, members.get("done") is True)
