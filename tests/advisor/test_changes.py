"""What a command would do is told from its words where they act, and not where they are only quoted."""

import pytest

from sagent.advisor.changes import runs_tests, writes


@pytest.mark.parametrize(
    ("command", "does"),
    [
        ("echo x > file", True),
        ("sed -i s/a/b/ f", True),
        ("git commit -am x", True),
        ("mkdir -p a/b", True),
        ("cat a | tee b", True),
        ("python x.py 2>/dev/null", False),
        ("pytest -q", False),
        ("git log -p", False),
        ("git -C x diff", False),
        ("grep -r 'touch me' .", False),
        ("sed -n 1,5p f", False),
        ("cat f", False),
    ],
)
def test_changing_command_is_a_change(command: str, does: bool) -> None:
    assert writes(command) is does


@pytest.mark.parametrize(
    ("command", "does"),
    [
        ("pytest -q", True),
        ("cd x && PYTHONPATH=. .venv/bin/pytest", True),
        ("python -m pytest tests", True),
        ("uv run pytest -x", True),
        ("npm run test:unit", True),
        ("cargo test", True),
        ("make check", True),
        ("go test ./...", True),
        ("test -f x", False),
        ("git checkout test", False),
        ("grep test x", False),
        ("cat tests/test_x.py", False),
        ("echo pytest", False),
    ],
)
def test_test_command_is_known_by_program(command: str, does: bool) -> None:
    assert runs_tests(command) is does
