"""`sagent demo`: fix a failing test in a small repository, with a script as the model, a small local one, or any
other."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias, cast

from sagent.cli.flags import Parser, plugins_of
from sagent.errors import SagentError
from sagent.plugin import resolve
from sagent.plugins.programs.folders import demo_folder, show_changes

HERE = Path(__file__).parent
TASK = "A test of this project fails. Find out why, fix the code (not the test), and run the tests."
OFFLINE_MODEL = "anthropic/claude-sonnet-4-6"
PROGRAM = [sys.executable, "-m", "sagent.bin.cli"]
TESTS = [sys.executable, "-m", "unittest"]
MAX_END_SECONDS = 10.0
_Demo: TypeAlias = Callable[[Mapping[str, object]], int | None]
"""A plugin's demo, chosen by its flags; None if no flag asks for it."""


def run_demo(argv: Sequence[str]) -> int:
    """Copy the project, let the agent repair it, and show the result."""
    parser = Parser("demo", __doc__)
    one = parser.add_mutually_exclusive_group()
    real = "use a real model, provider/model, in place of the scripted one on this machine"
    one.add_argument("--model", "--executor", help=real)
    parser.add_flags_of("demo", one)
    given = vars(parser.parse_args(argv))
    model = given.pop("model")
    plugins = plugins_of(argv)
    if any(given.values()):
        for _, extra in plugins.extras("demo"):
            if (code := cast("_Demo", resolve(extra.add))(given)) is not None:
                return code
    return _run(model)


def _run(model: str | None) -> int:
    """Run the demo with a model, or with the scripted one."""
    with demo_folder() as folder:
        return _run_in(folder, model)


def _run_in(folder: Path, model: str | None) -> int:
    project = folder / "intervals"
    shutil.copytree(HERE / "demo_project", project, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": import_path()}
    say(f"Copied a small project with a failing test to {project}")
    with _provider(folder, environment, offline=model is None):
        flags = ["--cwd", str(project), "--model", model or OFFLINE_MODEL, "--log-level", "info"]
        flags += ["--allow", "Bash(python3 -m unittest:*)", "--max-budget-usd", "0.50", TASK]
        say(f"$ sagent {shlex.join(flags)}\n")
        ended = _run_agent(flags, environment)
    code = _show(project, environment, ended)
    if model is None:
        say("\nThe model was a script on this machine: no provider was called and nothing was charged.")
        say("The cost above is what its tokens would have cost.")
    say(f"\nIts files stay, to be looked at. To remove them: rm -r {shlex.quote(str(folder))}")
    return code


def _run_agent(flags: list[str], environment: dict[str, str]) -> int:
    """Run the agent; return its exit code. A signal to this process ends it too."""
    # the transcript on stderr is what a person would see, the answer included; a group of its own, for a Ctrl-C would
    # reach both, and a second signal lets it clean nothing up
    null, shown = subprocess.DEVNULL, sys.stdout
    argv = [*PROGRAM, *flags]
    with subprocess.Popen(argv, env=environment, stdin=null, stdout=null, stderr=shown, process_group=0) as agent:
        try:
            return agent.wait()
        except BaseException:
            agent.terminate()
            try:
                agent.wait(MAX_END_SECONDS)
            except subprocess.TimeoutExpired:
                agent.kill()
            raise


def import_path() -> str:
    """Return PYTHONPATH for processes of sagent, with the folder of its package if it is one file that was unpacked."""
    given, inside = os.environ.get("PYTHONPATH", ""), Path(sys.prefix) in HERE.parents
    packages = HERE.parents[2]
    apart = [] if inside or (packages / "pyproject.toml").is_file() else [str(packages)]
    return os.pathsep.join((*apart, given)) if given else "".join(apart)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


@contextmanager
def _provider(folder: Path, environment: dict[str, str], *, offline: bool) -> Generator[None]:
    """Yield the scripted provider on loopback, as a process of its own, and the environment that leads to it."""
    if not offline:
        yield
        return
    files = ["--script", str(HERE / "demo_script.json"), "--port-file", str(folder / "port")]
    # its stdin is a pipe that ends with this process, however that ends; then the server ends too
    argv = [sys.executable, "-m", "sagent.testing.server", *files, "--until-eof"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env=environment, stdout=pipe, stdin=pipe, text=True) as server:
        try:
            url = server.stdout.readline().strip() if server.stdout else ""
            if not url:
                raise SagentError("the scripted provider did not start; see the lines above")
            environment |= {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "no-key-needed"}
            environment.pop("ANTHROPIC_AUTH_TOKEN", None)
            environment["SAGENT_STATE_DIR"] = str(folder / "state")  # its costs are none of the person's
            yield
        finally:
            server.terminate()


def _show(project: Path, environment: dict[str, str], code: int) -> int:
    say("\n== What changed\n")
    say("\n".join(show_changes(HERE / "demo_project", project, sys.stdout)))
    say("\n== The tests\n")
    tests = subprocess.run(TESTS, cwd=project, env=environment, capture_output=True, text=True, check=False)
    say(tests.stderr.strip())
    say("\n== Cost and log\n")
    subprocess.run([*PROGRAM, "sessions", "show", "--cwd", str(project), "--costs"], env=environment, check=False)
    return code or tests.returncode
