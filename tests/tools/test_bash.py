"""The Bash tool, on real shells."""

# Parts of recordings, JSON and SDK objects are read as what they must be; a wrong one fails the test.
# pyright: reportAttributeAccessIssue=false

import asyncio
import hashlib
import os
import re
import resource
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagent.errors import ToolError
from sagent.lib.json import json_dump, json_freeze_object
from sagent.lib.schema import violations
from sagent.lib.secrets import is_key
from sagent.providers.rows import built_in
from sagent.sandbox import Sandbox
from sagent.sandbox.probe import Confinement
from sagent.tool import RunContext, ToolOutput, Workspace
from sagent.tools import bash as bash_module
from sagent.tools.bash import Bash, parse_exports
from sagent.tools.capture import HEAD_CHARS, TAIL_CHARS, cut_head, cut_tail, legible
from tests.depth import deep, later
from tests.waiting import until

pytestmark = pytest.mark.needs("bash")


class Shelf:
    """Blobs over a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.scratched = 0

    def put(self, data: bytes) -> Path:
        path = self.directory / hashlib.sha256(data).hexdigest()
        path.write_bytes(data)
        return path

    def adopt(self, path: Path, *, sha256: str | None = None) -> Path:
        with path.open("rb") as file:
            assert sha256 in (None, hashlib.file_digest(file, "sha256").hexdigest())
        return path.rename(self.directory / f"adopted-{path.name}")

    def show(self, path: Path) -> Path:
        return path

    def drop(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def shown(self) -> tuple[Path, Path]:
        return self.directory, self.directory

    def scratch(self) -> Path:
        self.scratched += 1
        return self.directory / f"scratch-{self.scratched}"


class FullDisk(Shelf):
    def put(self, data: bytes) -> Path:
        raise OSError(28, "No space left on device")

    def scratch(self) -> Path:
        raise OSError(28, "No space left on device")


class Rig:
    """A Bash tool with a workspace, as an agent would use it."""

    def __init__(self, tmp_path: Path, sandbox: Sandbox) -> None:
        self.shelf = Shelf(tmp_path / "blobs")
        self.shelf.directory.mkdir()
        (tmp_path / "work").mkdir()
        self.workspace = Workspace(tmp_path / "work")
        self.sandbox = sandbox
        self.tool = Bash(sandbox=sandbox)
        self.seen: list[str] = []

    async def call(self, command: str, **more: float) -> ToolOutput:
        run = RunContext("root", "call", self.workspace, self.shelf, self.seen.append)
        return await self.tool(json_freeze_object({"command": command, **more}), run)

    async def text(self, command: str, **more: float) -> str:
        output = await self.call(command, **more)
        return "".join(part.text for part in output.content)

    @property
    def kept(self) -> list[Path]:
        return sorted(self.shelf.directory.iterdir())


@pytest.fixture(params=["off", pytest.param("auto", marks=pytest.mark.needs("bwrap"))])
async def rig(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    """Without a sandbox and with one: but for what is refused there, nothing is another."""
    rig = Rig(tmp_path, Sandbox(request.param))
    yield rig
    await rig.tool.aclose()
    await rig.sandbox.aclose()


def living(marker: str) -> list[str]:
    """The command lines of living processes that name the marker; zombies have none."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if marker.encode() in line:
            found.append(line.replace(b"\0", b" ").decode())
    return found


def a_marker() -> str:
    """An argument for `sleep` that no other process has."""
    return f"3600.{uuid.uuid4().int % 10**15:015}"


def test_bash_description_small_effect_execute(rig: Rig) -> None:
    tool = rig.tool
    assert tool.name == "Bash"
    assert len((tool.name + tool.description + json_dump(tool.parameters)).encode()) <= (
        900 if rig.sandbox.wanted == "off" else 1000
    )
    effect = tool.effect(json_freeze_object({"command": "git status"}), rig.workspace)
    assert (effect.kind, effect.command) == ("execute", "git status")
    with pytest.raises(ToolError, match="command"):
        tool.effect(json_freeze_object({"command": " "}), rig.workspace)
    (said,) = violations(tool.parameters, json_freeze_object({"command": "rm -r build", "workdir": "/srv/other"}))
    assert said.startswith("workdir is not a parameter"), "else it would run in a directory that was not meant"


@later
@pytest.mark.needs("bwrap")
async def test_changed_sandbox_is_told_once(tmp_path: Path) -> None:
    """Each agent once; the description stays as it was sent."""
    rig = Rig(tmp_path, Sandbox("off"))
    sent = (rig.tool.description, rig.tool.parameters)
    try:
        assert await rig.text("echo a") == "a"
        rig.sandbox.switch("auto")
        assert "in a sandbox now: no network" in (said := await rig.text("echo a"))
        assert "`needs`" in said
        assert "network:HOST" in said
        assert await rig.text("echo a") == "a"
        rig.sandbox.switch("off")
        assert "sandbox now, this one too" in await rig.text("echo a")
        assert await rig.text("echo a") == "a"
        arguments = {"command": "echo a", "needs": ["network:example.org"], "reason": "x"}
        run = RunContext("root", "call", rig.workspace, rig.shelf, rig.seen.append)
        output = await rig.tool(json_freeze_object(arguments), run)
        assert "[commands run without a sandbox now" in "".join(getattr(part, "text", "") for part in output.content)
        rig.sandbox.switch("auto")
        assert "[commands run in a sandbox now" in await rig.text("false")
        assert (rig.tool.description, rig.tool.parameters) == sent
    finally:
        await rig.tool.aclose()
        await rig.sandbox.aclose()


async def test_missing_sandbox_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.sandbox.probe.probe", lambda cache: Confinement("none", "nothing works"))
    rig = Rig(tmp_path, Sandbox())
    assert "Sandboxed" in rig.tool.description
    assert "[commands run without a sandbox now" in await rig.text("echo a")
    assert await rig.text("echo a") == "a"
    await rig.tool.aclose()


async def test_both_streams_are_merged_in_order(rig: Rig) -> None:
    assert await rig.text("echo a; echo b >&2; echo c; echo d >&2") == "a\nb\nc\nd"


@pytest.mark.costly
async def test_dev_stderr_cuts_nothing_off(rig: Rig) -> None:
    assert (
        await rig.text("echo a; (echo b; echo c) > /dev/stderr; echo d | tee /dev/stderr; echo e") == "a\nb\nc\nd\nd\ne"
    )


@pytest.mark.costly
async def test_quiet_command_says_so(rig: Rig) -> None:
    output = await rig.call("true")
    assert (output.content[0].text, output.is_error, output.summary) == ("(no output)", False, "exit 0, 0 lines")


@pytest.mark.costly
@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("echo x; exit 3", "x\n[exit code 3]"),
        ("printf x; false", "x\n[exit code 1]"),
        ("kill -SEGV $$", "[killed by SIGSEGV]"),
        ("(kill -9 $BASHPID)", "[exit code 137 (SIGKILL)]"),
    ],
)
async def test_failure_names_code_or_signal(rig: Rig, command: str, says: str) -> None:
    output = await rig.call(command)
    assert output.is_error
    assert output.content[0].text.endswith(says)


@pytest.mark.costly
async def test_syntax_error_is_told_with_line(rig: Rig) -> None:
    output = await rig.call("echo before\nif (\n")
    assert output.is_error
    assert "line 3: syntax error" in output.content[0].text
    assert output.summary.startswith("exit 2")


@pytest.mark.costly
@pytest.mark.parametrize("command", ["echo 'unclosed", "echo `ls", 'echo "$(echo', "(echo", "if true; then"])
async def test_syntax_error_is_told_without_wrapper(rig: Rig, command: str) -> None:
    output = await rig.call(command)
    lines = output.content[0].text.splitlines()
    assert [line.partition(": line ")[0] for line in lines] == ["bash: eval", "[exit code 2]"]


@pytest.mark.costly
async def test_no_terminal_and_no_input(rig: Rig) -> None:
    text = await rig.text('cat; read -r x; echo "read: $?"; cat < /dev/tty; [ -t 0 ] || [ -t 1 ] || echo none')
    assert "read: 1" in text
    assert "/dev/tty" in text
    assert text.endswith("none")


@pytest.mark.costly
@pytest.mark.needs("linux")
async def test_command_is_ended_when_memory_ends(rig: Rig) -> None:
    assert await rig.text("cat /proc/self/oom_score_adj") == "500"


@pytest.mark.costly
async def test_positional_parameters_are_the_shells(rig: Rig) -> None:
    assert await rig.text("echo $# $0 $LINENO") == "0 bash 1"


@pytest.mark.costly
@pytest.mark.parametrize(
    "command",
    [
        "sleep {marker} & echo started",
        "setsid sleep {marker} & echo started",
        "nohup sleep {marker} & echo started",
        "(while sleep 0.05; do echo tick; done; : {marker}) & echo started",
        "(trap '' TERM; setsid sh -c 'sleep {marker} & sleep {marker}' & ) ; echo started",
    ],
)
async def test_call_ends_with_shell_close_ends_rest(rig: Rig, command: str) -> None:
    marker = a_marker()
    async with asyncio.timeout(60):
        text = await rig.text(command.format(marker=marker))
    assert re.match(r"started\n(tick\n)*\[still running in the background; what it prints from now on goes to ", text)
    await rig.tool.aclose()
    assert living(marker) == []


@pytest.mark.costly
async def test_background_job_crosses_calls(rig: Rig) -> None:
    text = await rig.text("(while sleep 0.02; do echo tick; done) & echo started")
    log = Path(text.partition("goes to ")[2].rstrip("]"))
    await rig.text("true")
    async with asyncio.timeout(60):
        while log.read_text().count("tick\n") < 3:
            await asyncio.sleep(0.02)
    assert set(log.read_text().splitlines()) == {"tick"}


@pytest.mark.costly
async def test_process_substitution_output_is_kept(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.tools.bash._TEE_GRACE_SECONDS", 30.0)  # on a busy machine it takes long
    assert await rig.text("echo x > >(sleep 0.01; cat)") == "x"


@pytest.mark.costly
async def test_closed_streams_do_not_end_the_call(rig: Rig) -> None:
    await rig.text("exec >&- 2>&-; sleep 0.1; touch late")
    assert (rig.workspace.cwd / "late").exists()


@pytest.mark.costly
async def test_directory_and_environment_are_kept(rig: Rig) -> None:
    (rig.workspace.cwd / "sub").mkdir()
    await rig.text("""cd sub; export A=$'two\\nlines "and" $more \\\\ \\t\\e' B="it's"; LOCAL=1; unset HOME""")
    assert rig.workspace.cwd.name == "sub"
    text = await rig.text('pwd; printf %s "$A"; echo; echo "$B ${LOCAL-no} ${HOME-no}"; cd - >/dev/null; pwd')
    assert text.splitlines()[0].endswith("/work/sub")
    assert (rig.workspace.environment or {})["A"] == 'two\nlines "and" $more \\ \t\x1b'
    assert "it's no no" in text
    assert rig.workspace.cwd.name == "work"


@pytest.mark.costly
@pytest.mark.parametrize(
    "end",
    [
        "exit 4",
        "set -e; false; cd /",
        "set -eux; echo $NOT_SET",
        "trap 'echo bye' EXIT",
        "if (",
        "false",
        "set -x",
        "exit",
        "echo 'unclosed",
        "trap 'exit 3' EXIT",
        "printf() { :; }; command() { :; }; export() { :; }; pwd() { :; }; set() { :; }",
        "exit() { :; }; printf() { :; }",
    ],
)
async def test_state_survives_every_shell_end(rig: Rig, end: str) -> None:
    output = await rig.call(f"cd /usr; export KEPT=1\n{end}")
    assert "__sagent" not in output.content[0].text
    assert (rig.workspace.cwd, (rig.workspace.environment or {}).get("KEPT")) == (Path("/usr"), "1")


@pytest.mark.costly
@pytest.mark.parametrize(
    "end",
    ["exec true", "kill -9 $$", "exec 219>&-", "trap 'exit 3' EXIT; exit", "truncate -s 1T /proc/self/fd/219"],
)
async def test_shell_without_report_keeps_state(rig: Rig, end: str) -> None:
    before = rig.workspace.cwd
    text = await rig.text(f"cd /usr; export KEPT=1; {end}")
    assert "[the shell ended without a report" in text
    assert (rig.workspace.cwd, rig.workspace.environment) == (before, None)


@pytest.mark.costly
async def test_harmless_command_keeps_environment_unset(rig: Rig) -> None:
    await rig.text("LOCAL=1; true")
    assert rig.workspace.environment is None


@pytest.mark.costly
async def test_too_large_variable_is_named(rig: Rig) -> None:
    text = await rig.text("export KEPT=1 B=$(head -c 140000 /dev/zero | tr '\\0' b); cd /usr")
    assert "kept in the environment: B. " in text
    assert await rig.text("pwd; echo $KEPT ${B-gone}") == "/usr\n1 gone"


@pytest.mark.costly
async def test_largest_excess_variables_left_out(rig: Rig) -> None:
    big = "for n in 1 2 3 4 5 6 7 8; do export B$n=$(head -c 12${n}000 /dev/zero | tr '\\0' b); done; export KEPT=1"
    assert "kept in the environment: B8, B7. " in await rig.text(big)
    assert await rig.text("echo ${#B1} ${#B6} ${B7-gone} ${B8-gone} $KEPT") == "121000 126000 gone gone 1"


@later
async def test_refused_environment_is_cut_once(rig: Rig) -> None:
    rig.workspace.environment = {"PATH": os.environ["PATH"], "B": "b" * 140_000, "SMALL": "1"}
    assert await rig.text("echo $SMALL ${B-gone}") == (
        "1 gone\n[too large to be kept in the environment: B. Use a file]"
    )
    rig.workspace.environment |= {f"B{n}": "b" * 100 for n in range(30_000)}
    assert "kept in the environment: B" in await rig.text("true")
    assert await rig.text("ls; echo $SMALL ${B29999-gone}") == "1 gone"


@pytest.mark.costly
async def test_vanished_directory_moves_up(rig: Rig) -> None:
    work = rig.workspace.cwd
    assert "no longer exists" in await rig.text("mkdir -p a/b; cd a/b; rm -r ../../a")
    assert rig.workspace.cwd == work
    rig.workspace.cwd = work / "never" / "was"
    assert await rig.text("pwd") == f"{work}\n[{work}/never/was no longer exists; the working directory is {work}]"


@pytest.mark.parametrize("kind", ["write", "read"])
def test_missing_need_path_names_directory(rig: Rig, kind: str) -> None:
    """A person would be asked, and the command fail all the same."""
    work = rig.workspace.cwd
    arguments = json_freeze_object({"command": "true", "needs": [f"{kind}:{work}/new"]})
    if not rig.sandbox.stands:
        assert rig.tool.effect(arguments, rig.workspace).needs == ()
        return
    with pytest.raises(ToolError, match=f"{work}/new does not exist. Ask for {kind}:{work}"):
        rig.tool.effect(arguments, rig.workspace)


@pytest.mark.needs("not-root")
async def test_closed_directory_moves_up(rig: Rig) -> None:
    work = rig.workspace.cwd
    rig.workspace.cwd = work / "a"
    rig.workspace.cwd.mkdir(0)
    assert (
        await rig.text("chmod 755 a; pwd") == f"{work}\n[{work}/a may not be entered; the working directory is {work}]"
    )


@pytest.mark.costly
async def test_shell_in_workspace_is_not_used(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """An activated environment of the project stands first in PATH, and commands may write there."""
    own = rig.workspace.cwd / "bin"
    own.mkdir()
    (own / "bash").write_text("#!/bin/sh\necho planted\n")
    (own / "bash").chmod(0o755)
    monkeypatch.setenv("PATH", str(own), prepend=os.pathsep)
    assert await rig.text("echo true shell") == "true shell"


@pytest.mark.costly
async def test_symlinked_directory_keeps_its_name(rig: Rig) -> None:
    work = rig.workspace.cwd
    (work / "real").mkdir()
    (work / "link").symlink_to("real")
    await rig.text("cd link")
    assert await rig.text("pwd") == str(work / "link")


@pytest.mark.costly
async def test_later_call_keeps_others_state(rig: Rig) -> None:
    await rig.text("export GONE=1")
    first = asyncio.create_task(rig.text("touch begun; until [ -e go ]; do sleep 0.01; done; cd /usr; export ONE=1"))
    await until((rig.workspace.cwd / "begun").exists, task=first)
    await rig.text("export TWO=2; unset GONE")
    (rig.workspace.cwd / "go").touch()
    await first
    assert await rig.text("echo $ONE $TWO $PWD ${GONE-gone}") == "1 2 /usr gone"


@pytest.mark.costly
async def test_parallel_calls_both_change_state(rig: Rig) -> None:
    texts = await asyncio.gather(
        rig.text("sleep 0.05; cd /usr; echo one"), rig.text("export TWO=2; sleep 0.1; echo two")
    )
    assert texts[0].startswith("one")
    assert texts[1] == "two"
    assert (rig.workspace.cwd, (rig.workspace.environment or {})["TWO"]) == (Path("/usr"), "2")


@later
async def test_odd_variable_names_are_kept(rig: Rig) -> None:
    rig.workspace.environment = {"PATH": os.environ["PATH"], "npm.config": "x"}
    await rig.text("export NEW=1")
    assert rig.workspace.environment["npm.config"] == "x"


@pytest.mark.costly
async def test_commands_get_quiet_pagers_no_keys(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("PAGER", "less")
    show = 'echo "$SAGENT $PAGER $TERM ${ANTHROPIC_API_KEY-none} ${OPENAI_API_KEY-none}"'
    assert await rig.text(show) == "1 cat dumb none none"
    await rig.text("export PAGER=more ANTHROPIC_API_KEY=mine")
    assert await rig.text(show) == "1 more dumb mine none"
    rig.workspace.environment = None
    keeping = Bash(keep_keys=("OPENAI_API_KEY",))
    rig.tool, closing = keeping, rig.tool
    await closing.aclose()
    assert await rig.text(show) == "1 cat dumb none secret"


KEYS = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_FOUNDRY_API_KEY", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY"),
    *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "MOONSHOT_API_KEY", "KIMI_API_KEY"),
    *("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "AZURE_CLIENT_SECRET", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"),
    *("AWS_SECRET_ACCESS_KEY", "AWS_BEARER_TOKEN_BEDROCK", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "GITHUB_TOKEN"),
    *("GH_TOKEN", "NPM_TOKEN", "PGPASSWORD", "DB_PASSWORD", "SLACK_BOT_TOKEN", "npm_config__authToken", "MY_PAT"),
    *("ANTHROPIC_CUSTOM_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS", "DOCKER_AUTH_CONFIG", "SSHPASS", "CI_JOB_JWT"),
    *("PASS", "LDAP_BIND_PW", "AUTH", "COOKIE", "DB_CREDS", "BW_SESSION", "OP_SESSION_my"),
)
NO_KEYS = ("SSH_AUTH_SOCK", "MAX_TOKENS", "KEYBOARD", "XAUTHORITY", "GIT_ASKPASS", "COMPASS", "DESKTOP_SESSION")


@pytest.mark.costly
async def test_key_variables_are_kept_from_commands(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*KEYS, *NO_KEYS):
        monkeypatch.setenv(name, "value")
    monkeypatch.setenv("DATABASE_URL", "postgres://me:hunter2secret@db/x")
    monkeypatch.setenv("WHATEVER", "glpat-" + "x" * 20)
    seen = {line.partition("=")[0] for line in (await rig.text("env")).splitlines()}
    assert seen.isdisjoint((*KEYS, "DATABASE_URL", "WHATEVER"))
    assert seen.issuperset((*NO_KEYS, "PATH", "PWD", "HOME"))


def test_provider_keys_look_like_keys() -> None:
    names = {name for row in built_in().values() for name in f"{row.key} {row.token}".split()}
    assert len(names) > 20
    assert [name for name in names if not is_key(name)] == []


@pytest.mark.costly
async def test_command_lacking_a_key_says_so(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GH_TOKEN", "secret")
    monkeypatch.setenv("CORP_LOGIN", "other")
    said = "hidden from commands: GH_TOKEN. The person can pass a variable on with env.pass"
    assert said in await rig.text("echo set GH_TOKEN; exit 4")
    assert said not in await rig.text("echo set GH_TOKEN")
    rig.tool, closing = Bash(keep_keys=("GH_TOKEN",), withheld=("CORP_LOGIN",)), rig.tool
    await closing.aclose()
    rig.workspace.environment = None
    assert await rig.text('echo "$GH_TOKEN ${CORP_LOGIN-none}"') == "secret none"


async def test_without_bash_sh_is_run(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    await rig.text('cd /usr; export A="it\'s\n2"; exit 0')
    assert await rig.text('pwd; echo "$A"; [ "$0" = sh ] && echo sh') == "/usr\nit's\n2\nsh"


@pytest.mark.costly
async def test_command_may_exceed_argument_size(rig: Rig) -> None:
    words = "x" * 200_000
    assert await rig.text(f"cat > big <<'END'\n{words}\nEND\nwc -c < big; echo $#") == "200001\n0"
    assert rig.kept == []


@pytest.mark.parametrize("timeout", [0, -1, True, "10"])
async def test_time_limit_must_be_positive(rig: Rig, timeout: float) -> None:
    with pytest.raises(ToolError, match="timeout"):
        await rig.call("true", timeout=timeout)


@later
async def test_huge_time_limit_is_the_longest(rig: Rig) -> None:
    assert await rig.text("echo x", timeout=10**400) == "x"


@pytest.mark.parametrize(("command", "says"), [("echo \0", "NUL"), ("echo \ud800", "surrogate")])
async def test_invalid_text_is_a_tool_error(rig: Rig, command: str, says: str) -> None:
    with pytest.raises(ToolError, match=says) as raised:
        await rig.call(command)
    assert "codec" not in str(raised.value)


async def test_failing_start_is_a_tool_error(rig: Rig) -> None:
    rig.workspace.environment = {"PATH": os.environ["PATH"], "B": "\0"}
    with pytest.raises(ToolError, match="not run"):
        await rig.call("true")


@pytest.mark.costly
async def test_timeout_ends_everything_started(rig: Rig) -> None:
    marker = a_marker()
    output = await rig.call(f"echo early; cd /; trap '' TERM; setsid sleep {marker} & sleep {marker}", timeout=2)
    assert output.is_error
    assert output.content[0].text.startswith("early\n[timed out after 2 s")
    assert living(marker) == []
    assert rig.workspace.cwd.name == "work"


@pytest.mark.costly
@pytest.mark.parametrize("command", ["setsid sleep {m} & sleep {m}", "trap '' TERM; yes {m}", "setsid sleep {m}"])
async def test_cancelled_call_leaves_nothing_behind(rig: Rig, command: str) -> None:
    marker = a_marker()
    call = asyncio.create_task(rig.call(command.format(m=marker)))
    await until(lambda: living(marker), "the command runs", task=call)
    await asyncio.sleep(0.05)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert living(marker) == []
    assert rig.kept == []


@pytest.mark.costly
async def test_cancelled_call_shows_its_output(rig: Rig) -> None:
    marker = a_marker()
    call = asyncio.create_task(rig.call(f"echo early; sleep {marker}"))
    await until(lambda: any(line.startswith("sleep") for line in living(marker)), "the command runs", task=call)
    call.cancel()
    await asyncio.wait([call])
    assert rig.seen[-1] == "early\n"


@later
async def test_twice_cancelled_call_leaves_nothing(rig: Rig) -> None:
    marker = a_marker()
    call = asyncio.create_task(rig.call(f"trap '' TERM; setsid sleep {marker} & sleep {marker}"))
    await until(lambda: len(living(marker)) >= 3, "the shell is the third", task=call)
    call.cancel()
    await asyncio.sleep(0.05)
    call.cancel()
    await asyncio.wait([call])
    assert call.cancelled()
    async with asyncio.timeout(60):
        while living(marker):
            await asyncio.sleep(0.02)


@later
@pytest.mark.needs("linux")
async def test_calls_leave_no_descriptor_open(rig: Rig) -> None:
    async def some() -> int:
        await rig.call("echo x; sleep 5 >/dev/null & exit 1")
        await rig.call("sleep 5", timeout=0.05)
        await rig.call("sleep 5 &")
        await rig.call("seq 1 100000")
        await asyncio.wait([asyncio.create_task(rig.call("sleep 5"))], timeout=0.02)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
            await asyncio.wait([task])
        return len(os.listdir("/proc/self/fd"))

    assert await some() == await some()


@later
async def test_earlier_job_outlives_cancelled_call(rig: Rig) -> None:
    earlier, later = a_marker(), a_marker()
    await rig.text(f"sleep {earlier} >/dev/null 2>&1 &")
    call = asyncio.create_task(rig.call(f"sleep {later}"))
    await until(lambda: living(later), "the command runs", task=call)
    call.cancel()
    await asyncio.wait([call])
    assert (len(living(earlier)), living(later)) == (1, [])


@pytest.mark.costly
async def test_long_output_keeps_both_ends(rig: Rig) -> None:
    text = await rig.text("seq 1 5000000")
    assert len(text) < HEAD_CHARS + TAIL_CHARS + 1000
    assert text.startswith("1\n2\n")
    assert text.endswith("\n4999999\n5000000")
    head, _, tail = text.partition("\n[... about ")
    notice, _, tail = tail.partition(" ...]\n\n")
    assert f"from line {int(head.splitlines()[-1]) + 1} on" in notice
    assert tail.splitlines()[0].isdigit()
    [kept] = rig.kept
    assert f"the full text is in {kept}: Read it" in notice
    assert kept.read_bytes().count(b"\n") == 5_000_000


@pytest.mark.costly
async def test_medium_output_is_kept_too(rig: Rig) -> None:
    text = await rig.text("seq 1 10000")
    [kept] = rig.kept
    assert str(kept) in text
    assert kept.read_text().splitlines() == [str(n) for n in range(1, 10_001)]


@pytest.mark.costly
async def test_short_output_leaves_no_file(rig: Rig) -> None:
    assert (await rig.text("seq 1 5000")).splitlines() == [str(n) for n in range(1, 5001)]
    assert rig.kept == []


@later
async def test_one_long_line_is_cut(rig: Rig) -> None:
    text = await rig.text("printf start; head -c 3000000 /dev/zero | tr '\\0' x; printf end")
    assert len(text) < HEAD_CHARS + TAIL_CHARS + 1000
    assert text.startswith("startx")
    assert text.endswith("xend")


@pytest.mark.costly
async def test_binary_output_is_named_not_sent(rig: Rig) -> None:
    text = await rig.text("printf '\\211PNG\\r\\n\\032\\n'; head -c 300000 /dev/urandom")
    [kept] = rig.kept
    assert text.startswith("[binary output: 300,008 bytes, PNG")
    assert f"the full text is in {kept}: use a command on it" in text
    assert len(text) < 400


@later
@pytest.mark.parametrize(
    ("octal", "word"), [(r"Stra\337e", "Stra\u00dfe"), (r"caf\351", "caf\u00e9"), (r"na\357f", "na\u00eff")]
)
async def test_old_encoding_without_newline_is_text(rig: Rig, octal: str, word: str) -> None:
    text = await rig.text(f"printf '{octal}'")
    assert word in text and "binary" not in text


@pytest.mark.costly
async def test_older_encodings_of_output_are_read(rig: Rig) -> None:
    text = await rig.text("printf 'caf\\351 and some more ordinary text\\n'")
    assert text == "café and some more ordinary text\n[text that is not UTF-8 was read as perhaps cp1252]"
    text = await rig.text("printf 'caf\\303\\251\\nGr\\366\\337e, \\334bung\\nplain\\n'")
    assert text == "café\nGröße, Übung\nplain\n[text that is not UTF-8 was read as probably cp1252]"
    text = await rig.text(r"printf 'g\0r\0\366\0\337\0e\0\n\0'")
    assert text == "größe\n[text that is not UTF-8 was read as utf-16-le]"
    letters = "".join(f"\\{byte:03o}" for byte in "имя = 'значение'\n".encode("utf-16"))
    text = await rig.text(f'printf "{letters}"')
    assert text == "имя = 'значение'\n[text that is not UTF-8 was read as utf-16-le with BOM]"
    assert (await rig.text(r"printf '\1\2\377\0\0\0\220\223%.0s' $(seq 40)")).startswith("[binary output: ")


@pytest.mark.costly
async def test_colours_go_and_progress_collapses(rig: Rig) -> None:
    text = await rig.text(r"printf '\e[1;31mred\e[0m\r\n 10%%\r 50%%\r100%%\r\n\e]0;title\abold\n'; find . -print0")
    assert text == "red\n100%\nbold\n.␀"


@pytest.mark.costly
async def test_output_without_end_is_stopped(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bash_module, "MAX_OUTPUT_BYTES", 4 << 20)
    marker = a_marker()
    output = await rig.call(f"sleep {marker} & yes")
    assert output.is_error
    assert "killed: it printed more than 4 MiB" in output.summary
    assert living(marker) == []


@pytest.mark.costly
async def test_unstored_output_shows_both_ends(rig: Rig) -> None:
    rig.shelf = FullDisk(rig.shelf.directory)
    for count in (10_000, 300_000):
        text = await rig.text(f"seq 1 {count}")
        assert text.startswith("1\n2\n")
        assert "the full text could not be kept: " in text
        assert text.endswith(f"\n{count}")
    assert "is lost" in await rig.text("sleep 5 & echo x")


@pytest.mark.costly
async def test_progress_is_shown_for_long_commands(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("sagent.tools.bash._FIRST_PROGRESS", 30.0)  # on a busy machine it takes long
        await rig.text("echo short")
    assert rig.seen == []
    wait = "until [ -e {} ]; do sleep 0.05; done"
    call = asyncio.create_task(rig.text(f"echo first; {wait.format('a')}; echo second; {wait.format('b')}"))
    for gate, text in (("a", "first\n"), ("b", "first\nsecond\n")):
        await until(lambda text=text: text in rig.seen, "its output", task=call)
        (rig.workspace.cwd / gate).touch()
    await call
    assert rig.seen == ["first\n", "first\nsecond\n"]


@later
@pytest.mark.needs("linux")
def test_much_output_takes_little_memory(tmp_path: Path) -> None:
    script = f"""
import asyncio, resource, sys
from pathlib import Path
sys.path[:0] = [{str(Path(__file__).parents[2])!r}, {str(Path(__file__).parent)!r}]
from sagent.sandbox import Sandbox
from test_bash import Rig
async def main():
    rig = Rig(Path({str(tmp_path)!r}), Sandbox("off"))
    await rig.text("seq 1 100000")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    output = await rig.call("yes | head -c 50000000")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, output.summary)
    await rig.tool.aclose()
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    grown, _, summary = done.stdout.strip().partition(" ")
    assert int(grown) <= 10_000
    assert summary == "exit 0, 50.0 MB"


NAMES = st.from_regex(r"V_[A-Za-z0-9_]{0,8}", fullmatch=True)
VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=40)


@settings(max_examples=deep(12, 40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(environment=st.dictionaries(NAMES, VALUES, max_size=8), shell=st.sampled_from(["bash", "sh"]))
def test_every_environment_is_read_back(environment: dict[str, str], shell: str) -> None:
    listing = subprocess.run(
        [shell, "-c", "unset PWD OLDPWD SHLVL _; export -p"],
        env={**environment, "PATH": os.environ["PATH"]},
        capture_output=True,
        check=True,
    ).stdout
    found = parse_exports(listing)
    assert {name: value for name, value in found.items() if name.startswith("V_")} == environment


@pytest.mark.parametrize("value", [b"$'a'" * 60 + b" x", b"$'" * 20_001, b'"' * 20_001])
def test_unlisted_variable_is_none(value: bytes) -> None:
    """A command can write where its shell does."""
    assert parse_exports(b"export X=" + value + b"\nexport Y=1\n") == {"Y": "1"}


@given(text=st.text(st.sampled_from("ab\n"), max_size=200), count=st.integers(1, 100))
def test_cuts_are_bounded_text_ends(text: str, count: int) -> None:
    head, tail = cut_head(text, count), cut_tail(text, count)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert min(len(text), count // 2) <= len(head) <= count
    assert min(len(text), count // 2) <= len(tail) <= count


@given(st.binary(max_size=300))
def test_legible_text_has_no_controls(data: bytes) -> None:
    text = legible(data)
    assert not set(text) & set("\r\b\0")
    assert legible(text.encode()) == text


@later
async def test_shell_reports_with_few_open_files(rig: Rig) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        first = await rig.text("mkdir below; cd below; export X=kept; ulimit -n")
        second = await rig.text("pwd; echo $X")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert first == f"200\n[working directory: {rig.workspace.cwd}]"
    assert second == f"{rig.workspace.cwd}\nkept"
    assert rig.workspace.cwd.name == "below"


async def test_system_error_is_told_in_words(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(rig.tool._group, "start", fail)
    with pytest.raises(ToolError, match=r"^The command was not run: Too many open files\. Raise the limit") as raised:
        await rig.call("true")
    assert "Errno" not in str(raised.value)
