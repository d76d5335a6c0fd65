"""A translator: three languages at once, each answer a value and not a text to be parsed.

python examples/translator.py ["a text" anthropic/claude-haiku-4-5]
"""

import asyncio
import json
import sys
from dataclasses import dataclass

from sagent import Agent
from sagent.testing import ScriptedModel

SCRIPT = {"German": "Guten Morgen", "French": "Bonjour", "Japanese": "おはようございます"}


@dataclass
class Translation:
    """What the model must answer with."""

    text: str
    remark: str = ""


async def translate(text: str, language: str, model: str) -> str:
    """One conversation each, so that all run at the same time."""
    offline = ScriptedModel(json.dumps({"text": SCRIPT[language], "remark": ""}))
    async with Agent(
        model or offline, system=f"Translate into {language}.", max_budget_usd=0.01 if model else None
    ) as agent:
        result = await agent.run(text, output=Translation)
    return f"{language}: {result.data.text if result.data else result.error}"


async def main(text: str = "Good morning", model: str = "") -> None:
    """Print them in the order in which they were asked for."""
    for line in await asyncio.gather(*(translate(text, language, model) for language in SCRIPT)):
        print(line)


asyncio.run(main(*sys.argv[1:]))
