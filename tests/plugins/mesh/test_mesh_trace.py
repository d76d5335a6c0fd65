"""A trace goes on at the node that works on a session."""

from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider

from sagent.plugins.mesh.trace import attached_context, current_context
from sagent.testing.server import Turn
from tests.depth import later
from tests.plugins.mesh.places import by_results, place
from tests.plugins.telemetry.otlp_receiver import collector
from tests.waiting import until

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@later
async def test_session_span_below_caller_span(tmp_path: Path) -> None:
    with collector() as collected:
        async with place(tmp_path, by_results([Turn("Hello.")])) as here:
            plain = here.environment
            telemetry = {"SAGENT_TELEMETRY": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": collected.url}
            telemetry["OTEL_BSP_SCHEDULE_DELAY"] = "10"  # milliseconds
            here.environment = lambda name: plain(name) | (telemetry if name == "n1" else {"TRACEPARENT": PARENT})
            await here.node("n1")
            code, _, err = await here.ask("hello")
            assert code == 0, err
            await until(lambda: "invoke_agent root" in collected.names, "the span")  # before the node is killed
    run = collected.one("invoke_agent root")
    assert (run.trace_id.hex(), run.parent_span_id.hex()) == tuple(PARENT.split("-")[1:3])
    assert len({span.trace_id for span in collected.spans}) == 1


def test_program_span_carried() -> None:
    with TracerProvider().get_tracer("theirs").start_as_current_span("request") as span:
        found = current_context()
    assert f"{span.get_span_context().span_id:016x}" in found["traceparent"]
    with attached_context(found):
        assert current_context() == found
    with attached_context({"traceparent": "nonsense"}):
        assert current_context() == {}
