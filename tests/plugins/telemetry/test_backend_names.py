"""Names of tokens and USD on spans, as backends read them."""

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sagent import Agent, Resources
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.plugins.telemetry import Telemetry
from sagent.testing import ScriptedModel
from sagent.usage import Usage


async def test_tokens_and_usd_have_the_names_that_backends_read() -> None:
    """Langfuse takes cache reads and writes off the input tokens; a bucket under another name would count twice."""
    memory, tracers = InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(memory))
    usage = Usage(input=100, cache_read=300, cache_write=400, cache_write_1h=200, output=50, reasoning=10)
    own = Resources(ledger=Ledger(None, PriceBook({"scripted/scripted": {"input": "1", "output": "2"}})))
    async with Agent(ScriptedModel(("Hello.", usage)), resources=own) as agent:
        stop = Telemetry(tracers).watch(agent)
        result = await agent.run("Go.")
        stop()
    [span] = [span for span in memory.get_finished_spans() if span.name == "chat scripted"]
    known = dict(span.attributes or {})
    tokens = {name.removeprefix("gen_ai.usage."): value for name, value in known.items() if "gen_ai.usage." in name}
    usd = tokens.pop("cost")
    assert tokens == {
        "input_tokens": 1000,
        "output_tokens": 50,
        "cache_read.input_tokens": 300,
        "cache_creation.input_tokens": 600,
        "reasoning.output_tokens": 10,
    }
    assert usd == known["operation.cost"] == float(result.run_usd) > 0
