"""What is said of programs that the sandbox may have stopped."""

from pathlib import Path

import pytest

from sagent.sandbox.profile import Profile
from sagent.sandbox.signs import was_held_back, within


@pytest.mark.parametrize(
    "said",
    [
        "chmod: changing permissions of 'sub': Operation not permitted",
        "cp: preserving permissions for ‘sub2’: Operation not permitted",
        "shutil.Error: [('sub', 'q', \"[Errno 1] Operation not permitted: 'q'\")]",
        "Error: EPERM: operation not permitted, chmod 'sub'",
        "fatal: Could not make /w/r/.git/hooks/ writable by group",
    ],
)
def test_refused_mode_is_explained(tmp_path: Path, said: str) -> None:
    assert was_held_back(said, failed=True)
    assert "`chmod g-s`" in within(Profile(), [tmp_path], said=said)


def test_other_failures_say_nothing_of_modes(tmp_path: Path) -> None:
    for said in ("touch: cannot touch '/etc/x': Read-only file system", "curl: (6) Could not resolve host: a", ""):
        assert "chmod" not in within(Profile(), [tmp_path], said=said)
