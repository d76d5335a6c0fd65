"""Which rewind of files can be undone."""

from sagent.plugins.branches.undo import UndoPoint, way_back
from sagent.rewind.plan import REWIND
from sagent.session.contents import Unknown
from sagent.session.log import MemoryLog
from sagent.session.touches import Touched


def test_undo_possible_until_next_message() -> None:
    log = MemoryLog()
    log.append(Unknown("opened", {}))
    first = log.append(Unknown("label", {})).id
    last = log.append(Unknown("label", {})).id
    assert way_back(log.entries()) is None
    log.append(Touched("rewind-1", REWIND, False))
    log.append(Touched("rewind-1", REWIND, True))
    found = way_back(log.entries())
    assert found is not None
    assert (found.files, found.conversation) == (last, "")
    left = log.head
    forked = log.fork(first).id
    log.append(Touched("rewind-2", REWIND, False))
    found = way_back(log.entries())
    assert isinstance(found, UndoPoint)
    assert (found.files, found.conversation) == (forked, left)
    log.append(Unknown("message", {}))
    assert way_back(log.entries()) is None
