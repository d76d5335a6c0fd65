"""A repository whose files are none, or have no end, or lie elsewhere: it delays nobody, and shows nothing."""

import os
import socket
import sys
from pathlib import Path

import pytest

from sagent.config.files import read_file
from sagent.errors import ConfigError
from sagent.lib.regular import read_regular
from sagent.tools.walk import walk
from tests.forks import CHECKOUT, Forks

READ = """
import sys
from pathlib import Path
from sagent.config.files import read_file
from sagent.context.commands import find_commands
from sagent.context.instructions import gather
from sagent.context.skills import find_skills
from sagent.errors import ConfigError
from sagent.repl.project import branch_of
from sagent.tools.walk import walk

root = Path(sys.argv[1])
said = []
found = gather(root, root.parent / "user")
print(found.text, *found.notices, sep="\\n")
print(find_skills(root, root.parent / "user", said), *said, sep="\\n")
print(find_commands(root, root.parent / "user"), list(walk(str(root), lambda: False)), branch_of(root))
try:
    read_file(root / ".sagent/config.toml", root)
except ConfigError as error:
    print(error)
"""


def run(code: str, path: Path, forks: Forks) -> str:
    """What a program prints that is given a path, within twenty seconds."""
    file = path.parent / "program.py"
    file.write_text(code)
    environment = {"PATH": os.environ["PATH"], "HOME": str(path.parent), "PYTHONPATH": str(CHECKOUT)}
    done = forks.run(str(path), cwd=path.parent, environment=environment, file=file, patience=20)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


READ_UNASKED = ("AGENTS.md", ".claude/skills/x/SKILL.md", ".sagent/config.toml", ".sagent/commands/x.md", ".gitignore")


def make_odd(kind: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a directory":
        path.mkdir()
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as server:
            place = os.open(path.parent, os.O_RDONLY)  # a socket's whole path may have 108 bytes
            server.bind(f"/proc/self/fd/{place}/{path.name}")
            os.close(place)
    else:
        path.symlink_to("/dev/zero")


@pytest.mark.costly
@pytest.mark.skipif(sys.platform != "linux", reason="sockets are bound by way of /proc")
@pytest.mark.parametrize("kind", ["a FIFO", "a directory", "a socket", "/dev/zero"])
def test_non_regular_file_is_not_waited_for(tmp_path: Path, kind: str, forks: Forks) -> None:
    root = tmp_path.resolve() / "tree"
    (root / ".git").mkdir(parents=True)
    for name in (*READ_UNASKED, ".git/HEAD", ".git/info/exclude"):
        make_odd(kind, root / name)
    said = run(READ, root, forks)
    why = f"it leads out of the project {root}" if kind == "/dev/zero" else f"it is {kind}, not a file"
    assert f"{root}/AGENTS.md is not used: {why}." in said
    assert f"{root}/.claude/skills/x/SKILL.md could not be read: {why}." in said
    assert f"{root}/.sagent/config.toml: cannot be read: {why}." in said


def test_links_stay_within_the_project(tmp_path):
    root, outside = tmp_path / "tree", tmp_path / "outside"
    root.mkdir()
    outside.write_bytes(b"key")
    (root / "real").write_bytes(b"0123456789")
    (root / "out").symlink_to(outside)
    (root / "within").symlink_to("real")
    assert read_regular(root / "within", root) == b"0123456789"
    assert read_regular(root / "within", root, max_bytes=4, cut=True) == b"0123"
    assert read_regular(root / "out") == b"key"
    with pytest.raises(OSError, match="leads out of the project"):
        read_regular(root / "out", root)
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_regular(root / "real", max_bytes=4)


def test_long_file_names_its_lines_soon(tmp_path: Path, forks: Forks) -> None:
    text = (
        "# comment\n" * 6_000
        + '[a]\nb = """\n[\n""""\n# [\nc = [\n  "]", # {\n  2,\n]\n[[d]]\n[[d]]\ne = 1\n'
        + "#\n" * 6_000
    )
    path = tmp_path / "config.toml"
    path.write_text(text)
    code = """
import sys
from pathlib import Path
from sagent.config.files import read_file
file = read_file(Path(sys.argv[1]))
print([file.line(*keys) - 6000 for keys in (("a",), ("a", "b"), ("a", "c"), ("d",), ("d", "1"), ("d", "1", "e"))])
"""
    assert run(code, path, forks) == "[1, 2, 6, 10, 11, 12]\n"


def test_endless_settings_file_is_not_read(tmp_path):
    path = tmp_path / "config.toml"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ConfigError, match="it has more than 262,144 bytes"):
        read_file(path, tmp_path)


def test_odd_ignore_file_ignores_nothing(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "a").write_text("")
    os.mkfifo(tmp_path / ".gitignore")
    assert list(walk(str(tmp_path), lambda: False)) == ["a"]
