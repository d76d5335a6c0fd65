"""Evaluate an agent on a pydantic-evals data set, with its cost as a metric. Needs `pip install pydantic-evals`.

python examples/stack/evals_dataset.py
"""

import asyncio

from pydantic_evals import Case, Dataset, increment_eval_metric
from pydantic_evals.evaluators import EqualsExpected, Evaluator, EvaluatorContext, MaxDuration

from sagent import Agent, model
from sagent.plugins.functions import FunctionModel


class Brief(Evaluator[str, str, None]):
    """The answer has one word."""

    def evaluate(self, ctx: EvaluatorContext[str, str, None]) -> bool:
        return len(ctx.output.split()) == 1


DATA = Dataset[str, str, None](
    name="capitals",
    cases=[
        Case(name="france", inputs="The capital of France?", expected_output="Paris"),
        Case(name="peru", inputs="The capital of Peru?", expected_output="Lima"),
    ],
    evaluators=[EqualsExpected(), Brief(), MaxDuration(seconds=30)],
)


def atlas(request: model.Request) -> str:
    return "Paris" if "France" in request.messages[-1].content else "I do not know."


async def task(question: str) -> str:
    """A new agent for each case: an agent is one conversation."""
    async with Agent(FunctionModel("example/atlas", atlas)) as agent:
        result = await agent.run(question)
    if not result.cost.unpriced:
        increment_eval_metric("usd", float(result.run_usd))
    increment_eval_metric("input_tokens", result.usage.total_input)
    return result.content


async def main() -> None:
    report = await DATA.evaluate(task, max_concurrency=4, progress=False)
    for case in report.cases:
        print(case.name, {name: each.value for name, each in case.assertions.items()}, case.metrics)


asyncio.run(main())
