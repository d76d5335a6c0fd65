"""Turns with a call of Read, with and without spans and metrics, in one process and in turn.

Prints as JSON the milliseconds of CPU that a turn takes more: `on` without content, `content` with it; medians of
rounds, in each of which all are measured.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from sagent.agent import Agent
from sagent.lib.json import json_freeze_object
from sagent.messages import Message, Text, ToolCall
from sagent.plugins.telemetry import Telemetry
from sagent.testing import ScriptedModel
from sagent.tools import Read

TURNS = 200


class Nowhere(SpanExporter):
    """Takes spans at once: what a collector takes is not ours."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


async def measure(mode: str, file: Path) -> float:
    calls = [ToolCall(f"c{number}", "Read", json_freeze_object({"file_path": str(file)})) for number in range(TURNS)]
    agent = Agent(ScriptedModel(*(Message("assistant", (Text("look"), each)) for each in calls), "end"), tools=[Read()])
    if mode != "off":
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(BatchSpanProcessor(Nowhere()))
        Telemetry(tracers, MeterProvider(), capture="content" if mode == "content" else "none").watch(agent)
    started = time.process_time()
    await agent.run("go")
    took = 1000 * (time.process_time() - started) / TURNS
    await agent.aclose()
    return took


async def main(rounds: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "a.txt")
        file.write_text("a line\n" * 20)
        seen = [{mode: await measure(mode, file) for mode in ("off", "on", "content")} for _ in range(rounds)]
    return {mode: median(each[mode] - each["off"] for each in seen[1:]) for mode in ("on", "content")}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(int(sys.argv[1])))))
