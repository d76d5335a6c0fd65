"""Evaluate an agent with inspect-ai: its data sets, scorers and logs. Needs `pip install inspect-ai`.

python examples/stack/inspect_task.py     (or: inspect eval examples/stack/inspect_task.py --model none)
"""

from inspect_ai import Task, task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage
from inspect_ai.scorer import match
from inspect_ai.solver import Generate, Solver, TaskState, solver

from sagent import Agent, model
from sagent.plugins.functions import FunctionModel


def atlas(request: model.Request) -> str:
    return "Paris" if "France" in request.messages[-1].content else "I do not know."


@solver
def agent() -> Solver:
    """Answer each sample with an agent of its own. What it cost is in the sample's metadata."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        async with Agent(FunctionModel("example/atlas", atlas)) as own:
            result = await own.run(state.input_text)
        state.output = ModelOutput.from_content(result.model, result.content)
        state.output.usage = ModelUsage(input_tokens=result.usage.total_input, output_tokens=result.usage.output)
        usd = None if result.cost.unpriced else str(result.run_usd)
        state.metadata |= {"usd": usd, "turns": result.turns, "stop": result.stop_reason}
        return state

    return solve


@task
def capitals() -> Task:
    samples = [
        Sample("The capital of France?", target="Paris"),
        Sample("The capital of Peru?", target="Lima"),
    ]
    return Task(dataset=samples, solver=agent(), scorer=match())


if __name__ == "__main__":
    [log] = evaluate(capitals(), model="none", display="none")
    assert log.status == "success", log.error
    for sample in log.samples or ():
        print(sample.target, {name: score.value for name, score in (sample.scores or {}).items()}, sample.metadata)
