"""The session on disk given to an agent by its path: started there, or continued."""

from pathlib import Path

from sagent.agent.tree import Node
from sagent.errors import SessionNotFound, UsageError
from sagent.session.folds import history, last_model
from sagent.session.log import read_contents
from sagent.session.names import agent_of, is_session_id
from sagent.session.store import Session, check_log, check_version, is_damaged, is_session, log_files


def model_named(session: Path) -> str:
    """Return the model that a session used last. Raises SessionNotFound, SessionCorrupt and UsageError."""
    check_log(session)
    if not is_session(session):
        raise SessionNotFound(f"no session at {session}")
    check_version(session, "continue it")
    name = last_model(read_contents(session / "root.jsonl"))
    if not name:
        raise UsageError(f"The session at {session} has no model yet: give the model to continue it with.")
    return name


class SavedSession:
    """A session held for writing until it is closed. Raises SessionBusy, SessionCorrupt and UsageError."""

    def __init__(self, path: str | Path, cwd: Path) -> None:
        self._path, self._cwd, self.closed = Path(path).absolute(), cwd, False
        try:
            self._open()
        except OSError as error:
            raise UsageError(f"The session cannot be opened: {self._path}: {error.strerror or error}.") from error

    def _open(self) -> None:
        path, cwd = self._path, self._cwd
        known = is_session(path) or is_damaged(path) or is_session_id(path.name)
        self._session = Session.open(path) if known else Session.create_at(path)
        self._first = ""  # first entry of a session started here
        try:
            self.log = self._session.log()
            if not self.log.head:
                self._first = self._session.begin(cwd)
        except BaseException:
            self._session.close()
            raise

    @property
    def resumed(self) -> bool:
        """True if the session existed before."""
        return not self._first

    def losses(self) -> list[str]:
        """Return a sentence for each loss."""
        return self._session.losses()

    def restore(self, agent: Node) -> None:
        """Restore an agent's conversation, its ledger's charges, and the names of its tree's agents. Raises
        SessionCorrupt."""
        try:
            for file in log_files(self._session.path):
                agent.tree.register(agent_of(self._session.path, file))
            agent.ledger.restore(self._session.charges())
            agent.restore(history(self.log.contents(), self.log.blobs.get))
        except BaseException:
            self._session.close()
            raise

    def reopen(self, agent: Node) -> None:
        """Let a closed agent save its next run as well. Raises UsageError if its session was continued elsewhere, and
        SessionBusy."""
        head = self.log.head
        self._open()
        if self.log.head != head and not self._first:
            self._session.close()
            raise UsageError(f"The session at {self._path} was continued elsewhere: make a new agent for it.")
        self.closed = False
        agent.state.journal.log, agent.state.journal.lost = self.log, False

    def close(self) -> None:
        """Release it for others. A session that was started here without any event is removed."""
        self.closed = True
        self._session.close_begun(self._first)
