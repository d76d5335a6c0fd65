"""What is installed: the wheel has every file the program needs, and `import sagent` does no work."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from sagent.version import __version__
from tests.depth import slow
from tests.surroundings import PYTHON

ROOT = Path(__file__).parents[1]


def test_wheel_is_complete(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        scripts = next(name for name in names if name.endswith("entry_points.txt"))
        assert b"sagent = sagent.bin.cli:start" in archive.read(scripts)
        metadata = archive.read(scripts.replace("entry_points.txt", "METADATA")).decode()
    assert "Project-URL: Source, https://" in metadata
    links = re.findall(r"\]\(([^)]+)\)", metadata.partition("\n\n")[2])
    assert any(link.endswith("docs/demo.svg") for link in links)
    assert [link for link in links if not link.startswith("https://")] == []
    tracked = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "sagent").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert tracked <= names
    assert not [name for name in names if name.startswith("tests/")]


@slow
def test_every_pin_installs_on_oldest_python(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    oldest = f"{project['requires-python'].removeprefix('>=')}.0"
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--no-deps", "--target", str(tmp_path)]
    done = subprocess.run(
        [*pip, "--python-version", oldest, "-r", str(ROOT / "constraints.txt")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_importing_does_no_work() -> None:
    code = (
        "import sys; before = set(sys.modules); opened = []\n"
        "code = lambda path: str(path).endswith(('.py', '.pyc'))\n"
        "sys.addaudithook(lambda e, a: opened.append(a[0]) if e == 'open' and not code(a[0]) else None)\n"
        "import sagent; print(sorted(set(sys.modules) - before), opened)\n"
    )
    done = subprocess.run([sys.executable, "-B", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['sagent', 'sagent.version'] []"


def test_modules_before_first_request_are_few(tmp_path: Path) -> None:
    """Count what is neither Python's own, whose number differs by version, nor what a plugin says of itself, which the
    first run reads to write the index."""
    code = (
        "import sys\n"
        "seen = []\n"
        "sys.addaudithook(lambda e, a: seen.append(set(sys.modules)) if e == 'socket.connect' else None)\n"
        "sys.argv = ['sagent', '--ephemeral', '--model', 'claude-sonnet-4-6', 'hello']\n"
        "from sagent.bin.cli import main\n"
        "main()\n"
        "vendors = {'anthropic', 'openai', 'google', 'rich', 'prompt_toolkit', 'pydantic', 'genai_prices', 'httpx2'}\n"
        "plugins = {name for name in seen[0] if name.startswith('sagent.plugins.') and name.count('.') == 2}\n"
        "plugins |= {'sitecustomize'}  # of some distributions' Python\n"
        "ours = [name for name in seen[0] - plugins if name.partition('.')[0] not in sys.stdlib_module_names]\n"
        "print(len(ours), *(seen[0] & vendors))\n"
    )
    environment = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "SAGENT_MAX_RETRIES": "0"}
    environment["HOME"] = str(tmp_path)
    (tmp_path / ".local/state/sagent").mkdir(parents=True)
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}"],
            env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        count, *vendors = done.stdout.split()
        assert vendors == []
        assert int(count) <= 168
    version = "import sys; from sagent.bin.cli import main\n"
    version += "sys.argv = ['sagent', '--version']; main(); print(len(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", version],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout.split()[-1]) <= 60


@pytest.mark.parametrize(("stdout", "code"), [("", 7), (">/dev/full", 120)])
def test_end_of_run_is_whole(tmp_path: Path, stdout: str, code: int) -> None:
    (tmp_path / "run.py").write_text(
        "import atexit\n"
        "from pathlib import Path\n"
        "from sagent.bin import cli\n"
        "cli.main = lambda: print('said') or atexit.register(Path('ended').touch) and 7\n"
        "cli.start()\n"
    )
    argv = ["bash", "-c", f"exec {PYTHON} run.py {stdout}"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (code, b"" if stdout else b"said\n")
    assert (tmp_path / "ended").exists()


def test_runs_as_module_and_as_file(tmp_path: Path) -> None:
    program = ROOT / "sagent" / "bin" / "cli.py"
    link = tmp_path / "sagent"
    link.symlink_to(program)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for command, where in (
        ([sys.executable, "-m", "sagent", "--version"], ROOT),
        ([str(program), "--version"], tmp_path),
        ([str(link), "--version"], tmp_path),
    ):
        done = subprocess.run(
            command, cwd=where, env={"PATH": path}, capture_output=True, text=True, check=False
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (0, f"sagent {__version__}\n"), done.stderr


def test_lines_of_the_core_are_counted() -> None:
    done = subprocess.run([sys.executable, "scripts/reading.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert re.search(r"lines a reader must know: [\d,]+ \(vocabulary [\d,]+, contracts [\d,]+, engine", done.stdout)
