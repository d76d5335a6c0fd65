"""What is advised where no sandbox could be made."""

import errno
import os

import pytest

from sagent.sandbox.bubblewrap import _advise


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT])
def test_lack_of_room_is_no_reason_to_do_without(number: int) -> None:
    assert "sandbox = 'off'" not in _advise(str(OSError(number, os.strerror(number), "/tmp/x")))


def test_other_reasons_leave_the_choice() -> None:
    assert "sandbox = 'off'" in _advise("bwrap: setting up uid map: Permission denied")
