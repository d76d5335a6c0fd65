"""`sagent mcp serve` against the server scenarios of the protocol's conformance suite (npm), in both eras.

Most of them call tools, prompts and resources of a server that was written for the suite: those cannot pass, and are
listed here with the reason. What they check of any server counts: the handshake, no handshake, lists, headers, errors,
foreign hosts. It needs Node 22.
"""

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.depth import later, slow
from tests.plugins.mcp.test_mcp_conformance import suite

CHECKOUT = Path(__file__).parents[3]
SERVE = [sys.executable, "-m", "sagent.bin.cli", "mcp", "serve", "--model", "anthropic/claude-sonnet-4-6"]
CHECKS = {"2026-07-28": 115, "2025-11-25": 45}
"""Checks that pass at least."""

NO_SUCH_TOOL = (
    "tools-call-image", "tools-call-audio", "tools-call-embedded-resource", "tools-call-mixed-content",
    "tools-call-with-progress", "json-schema-2020-12",
)  # fmt: skip
NO_SUCH_PROMPT = (
    "prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource", "prompts-get-with-image",
    "completion-complete",
)  # fmt: skip
NO_SUCH_RESOURCE = ("resources-read-text", "resources-read-binary", "resources-templates-read")
ASKED_BY_A_TOOL_OF_THE_SUITE = tuple(
    f"input-required-result-{name}"
    for name in (
        "basic-elicitation", "basic-sampling", "basic-list-roots", "request-state", "multiple-input-requests",
        "multi-round", "non-tool-request", "result-type", "tampered-state", "capability-check",
    )
)  # fmt: skip
NO_TASKS = tuple(
    f"tasks-{name}"
    for name in (
        "lifecycle", "capability-negotiation", "wire-fields", "request-state-removal", "mrtr-input", "request-headers",
        "dispatch-and-envelope", "required-task-error", "mrtr-composition",
    )
)  # fmt: skip
FAILS: dict[str, Sequence[str]] = {
    "2026-07-28": (
        *NO_SUCH_TOOL, *NO_SUCH_PROMPT, *NO_SUCH_RESOURCE, *ASKED_BY_A_TOOL_OF_THE_SUITE, *NO_TASKS,
        "server-stateless",  # 2 of 28: a tool of the suite is to be refused for a capability that the client lacks
        "http-custom-header-server-validation",  # no argument of ours is sent as a header too
    ),
    "2025-11-25": (
        *NO_SUCH_TOOL, *NO_SUCH_PROMPT, *NO_SUCH_RESOURCE,
        "tools-call-sampling", "tools-call-elicitation", "elicitation-sep1034-defaults", "elicitation-sep1330-enums",
        "tools-call-with-logging", "logging-set-level",  # deprecated, and not offered
        "resources-subscribe", "resources-unsubscribe",  # there are no resources that change
        "server-sse-polling",  # streams are not resumed: a run that was interrupted goes on by `sagent_reply`
    ),
}  # fmt: skip
"""Scenarios that fail for what they want of a server, and must not pass unnoticed either."""
WARNED = {
    "2026-07-28": ("input-required-result-missing-input-response", "input-required-result-validate-input"),
    "2025-11-25": (),
}
"""Scenarios that pass with a warning, for what they want of a tool of the suite."""

__all__ = ["suite"]


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(1 << 16):
            writer.write(chunk)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def door(port: int, token: str) -> AsyncGenerator[int]:
    """A port that passes each request on with the token, of which the suite knows nothing: one for each connection."""

    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            writer.close()
            return
        lines = [line for line in head[:-4].split(b"\r\n") if not line.lower().startswith(b"connection:")]
        there, beyond = await asyncio.open_connection("127.0.0.1", port)
        lines += [f"Authorization: Bearer {token}".encode(), b"Connection: close", b"", b""]
        beyond.write(b"\r\n".join(lines))
        await asyncio.gather(pass_on(reader, beyond), pass_on(there, writer))

    async with await asyncio.start_server(attend, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def served(home: Path) -> AsyncGenerator[str]:
    """The address of our server, and its token."""
    environment = {"HOME": str(home), "PYTHONPATH": str(CHECKOUT), "SAGENT_MCP_TOKEN": "a-token-of-this-server"}
    environment |= {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}  # nobody answers there
    server = await asyncio.create_subprocess_exec(
        *SERVE, "--http", "0", cwd=home, env=environment, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert server.stderr is not None
        url = (await server.stderr.readline()).decode().split()[-1]
        async with door(int(re.findall(r":(\d+)/", url)[0]), "a-token-of-this-server") as port:
            yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.terminate()
        await server.wait()


@later
@pytest.mark.parametrize("revision", ["2025-11-25", pytest.param("2026-07-28", marks=slow)])
async def test_server_conforms_to_revision(suite: list[Path], revision: str, tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.yml"
    baseline.write_text("\n".join(("server:", *(f"  - {name}" for name in (*FAILS[revision], *WARNED[revision])))))
    async with served(tmp_path) as url:
        done = await asyncio.create_subprocess_exec(
            *suite, "server", "--url", url, "--requirements", revision, "--expected-failures", baseline,
            "-o", tmp_path / "out", stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        said = (await done.communicate())[0].decode()
    summary = said.partition("=== SUMMARY ===")[2]
    assert {*re.findall(r"✗ (\S+): ", summary)} == {*FAILS[revision]}, summary
    assert done.returncode == 0, summary
    passed = re.search(r"Total: (\d+) passed", summary)
    assert passed is not None and int(passed[1]) >= CHECKS[revision], summary
