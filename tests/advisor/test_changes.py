"""What a command would do is told from its words where they act, and not where they are only quoted."""

import pytest

from sagent.advisor.changes import destroys, runs_tests, writes


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf build",
        "sudo rm -r x",
        "/bin/rm -f x",
        "timeout 5 rm -rf x",
        "cd a && git reset --hard HEAD~1",
        "git push --force origin main",
        "git push origin +main -f",
        "git checkout -- .",
        "git clean -fdx",
        "find . -name '*.pyc' -delete",
        "ls | xargs rm -f",
        "bash -c 'rm -rf /tmp/x'",
        "for d in a b; do rm -rf $d; done",
        "(cd x; rm -rf y)",
        "psql -c 'DROP TABLE x'",
        "terraform apply -auto-approve",
        "kubectl delete pod x",
        "dd if=/dev/zero of=/dev/sda",
        "chmod -R 777 .",
        "truncate -s 0 log",
    ],
)
def test_what_takes_things_away_for_good_is_known(command: str) -> None:
    assert destroys(command)


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m 'rm -rf the old code'",
        "echo 'drop table x'",
        "grep -rn 'delete from' .",
        'grep "git reset --hard" docs',
        "git push origin main",
        "git checkout main",
        "rm one_file",
        "cat > x <<EOF\nrm -rf /\nEOF",
        "# rm -rf /\nls",
        "ls -R",
        "",
        "'",
    ],
)
def test_words_that_are_only_quoted_take_nothing_away(command: str) -> None:
    assert not destroys(command)


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
def test_a_command_that_changes_files_is_a_change(command: str, does: bool) -> None:
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
def test_a_command_that_runs_tests_is_known_by_its_program(command: str, does: bool) -> None:
    assert runs_tests(command) is does
