"""`--telemetry`: to a collector by OpenTelemetry's variables, and an end that waits for none."""

import json
import socket
import sys
from collections.abc import Iterator

import pytest

from sagent.testing.script import Call
from sagent.testing.server import Turn
from tests.cli.program import CHECKOUT, Shell
from tests.depth import later
from tests.plugins.telemetry.otlp_receiver import Collected, collector, values_of

COMMAND = "echo [$TRACEPARENT] $OTEL_EXPORTER_OTLP_HEADERS"
SCRIPT = [Turn(text="Let me see.", calls=(Call("Bash", {"command": COMMAND}),)), Turn(text="Blue.")]
RUN = ("--telemetry", "--allow", "Bash(echo:*)", "--sandbox", "off", "--output-format", "json", "look")


@pytest.fixture
def collected() -> Iterator[Collected]:
    with collector() as found:
        yield found


def test_collector_receives_run(shell: Shell, collected: Collected) -> None:
    shell.serve(SCRIPT)
    shell.environment |= {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collected.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "x-team=hush",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        "TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }
    done = shell.run(*RUN)
    assert (done.code, done.err) == (0, "")
    assert collected.names == [
        "chat claude-sonnet-4-6", "chat claude-sonnet-4-6", "execute_tool Bash", "invoke_agent root",
    ]  # fmt: skip
    run, tool = collected.one("invoke_agent root"), collected.one("execute_tool Bash")
    assert {span.trace_id.hex() for span in collected.spans} == {"0af7651916cd43dd8448eb211c80319c"}
    assert run.parent_span_id.hex() == "b7ad6b7169203331"
    assert collected.resource["service.name"] == "sagent"
    assert collected.resource["deployment.environment.name"] == "test"
    assert values_of(run.attributes)["gen_ai.conversation.id"] == done.json["session_id"]
    assert "look" not in str(collected.spans)
    asked = shell.server.requests[-1].body if shell.server is not None else b""
    assert f"[00-{tool.trace_id.hex()}-{tool.span_id.hex()}-" in str(asked)
    assert "hush" not in str(asked)
    usd = done.json["cost_usd"]
    assert isinstance(usd, dict)
    assert collected.metrics["sagent.cost.usd"] == pytest.approx(usd["total"])


MCP_SERVER = CHECKOUT / "tests/plugins/mcp/odd_server.py"


@later
def test_mcp_call_carries_span(shell: Shell, collected: Collected) -> None:
    tool = {"name": "carried", "inputSchema": {"type": "object"}}
    offer = {"tools": [tool], "code": {"carried": "text = params['_meta']"}}
    (shell.cwd / "offer.json").write_text(json.dumps(offer))
    config = f"[mcp.things]\ncommand = {sys.executable!r}\nargs = ['{MCP_SERVER}', 'offer.json']\nneeds = ['all']\n"
    config += "start_timeout = 60\n"
    (shell.cwd / "sagent.toml").write_text(config)
    shell.serve([Turn(calls=(Call("mcp__things__carried", {}),)), Turn(text="done")])
    shell.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = collected.url
    done = shell.run("--config", "sagent.toml", "--permission-mode", "full", *RUN)
    assert done.code == 0, done.err
    span = collected.one("execute_tool mcp__things__carried")
    assert values_of(span.attributes)["mcp.method.name"] == "tools/call"
    assert shell.server is not None
    assert f"00-{span.trace_id.hex()}-{span.span_id.hex()}-" in str(shell.server.requests[-1].body)


def test_content_only_on_request(shell: Shell, collected: Collected) -> None:
    shell.serve(SCRIPT)
    shell.environment |= {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collected.url,
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
    }
    assert shell.run(*RUN).code == 0
    said = [values_of(span.attributes).get("gen_ai.input.messages", "") for span in collected.spans]
    assert sum("look" in str(text) for text in said) == 1
    assert collected.metrics == {}


@later
@pytest.mark.parametrize("value", ["EVENTS", "event_only"])
def test_unsupported_content_setting_named(shell: Shell, collected: Collected, value: str) -> None:
    shell.serve(SCRIPT)
    name = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
    shell.environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": collected.url, name: value}
    done = shell.run(*RUN)
    assert done.code == 0, done.err
    (line,) = done.err.splitlines()
    assert f"{name}={value}: no content" in line and "Give SPAN_ONLY" in line
    assert "look" not in str([values_of(span.attributes) for span in collected.spans])


@later
@pytest.mark.parametrize("answers", [False, True], ids=["refused", "silent"])
def test_dead_collector_costs_one_line(shell: Shell, *, answers: bool) -> None:
    shell.serve(SCRIPT)
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        if answers:
            hole.listen(64)
        shell.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{hole.getsockname()[1]}"
        done = shell.run(*RUN)
    assert done.code == 0, done.err
    assert done.json["is_error"] is False
    assert done.err.count("Telemetry is not exported") == 1
    assert len(done.err.splitlines()) == 1


def test_unusable_exporter_named(shell: Shell) -> None:
    shell.environment |= {"OTEL_TRACES_EXPORTER": "nowhere", "ANTHROPIC_API_KEY": "k"}
    done = shell.run("--telemetry", "look")
    assert done.code == 2
    assert "'nowhere'" in done.err


@later
def test_unreadable_variable_one_line_each(shell: Shell, collected: Collected) -> None:
    shell.serve(SCRIPT)
    shell.environment |= {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collected.url,
        "OTEL_BSP_SCHEDULE_DELAY": "soon",
        "OTEL_TRACES_SAMPLER": "none_such",
    }
    done = shell.run(*RUN)
    assert done.code == 0, done.err
    lines = done.err.splitlines()
    assert len(lines) == 2, done.err
    assert "OTEL_BSP_SCHEDULE_DELAY" in done.err
    assert "none_such" in done.err


def test_disabled_telemetry_sends_nothing(shell: Shell, collected: Collected) -> None:
    shell.serve(SCRIPT)
    shell.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = collected.url
    assert shell.run(*RUN[1:]).code == 0
    assert (collected.spans, collected.metrics) == ([], {})


def test_project_cannot_enable_telemetry(shell: Shell, collected: Collected) -> None:
    shell.serve(SCRIPT)
    shell.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = collected.url
    (shell.cwd / ".sagent").mkdir()
    (shell.cwd / ".sagent" / "config.toml").write_text("telemetry = true\n")
    done = shell.run(*RUN[1:])
    assert "telemetry" in done.err
    assert collected.spans == []
