"""Requests of attached clients to the node that works on a session."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

from sagent.agent import Agent
from sagent.agent.tree import Node
from sagent.errors import SagentError, UsageError
from sagent.lib.json import as_array, as_object, as_str, valid_text
from sagent.messages import user
from sagent.peer import Action, Background, Cancel, Compact, Consult, Scope, Stop, Switch
from sagent.plugins.hosting.figures import Figures, Judgement
from sagent.plugins.hosting.typed import adapter
from sagent.policy.rules import Rule

ACTIONS = {kind.__name__: kind for kind in (Background, Cancel, Compact, Consult, Stop, Switch)}


class Requests:
    """Answers requests for a session: {"op": "status" | "interrupt" | ..., ...}. `judgement` is its policy, if known.
    `watched` becomes True with the first request for figures: updates are wanted from then on."""

    def __init__(self, agent: Agent, node: str, judgement: Judgement | None) -> None:
        self._agent, self._node, self._judgement = agent, node, judgement
        self.watched = False
        self.on_watched: Callable[[], None] = lambda: None  # called when a client joins
        self.chosen: dict[str, str] = {}
        """The flags that would open the agent with its present switches."""

    def figures(self) -> Figures:
        return Figures.of(self._agent, self._node, self._judgement)

    async def answer(self, data: bytes) -> dict[str, object]:
        """Carry out a request. An error becomes the answer."""
        try:
            return {"node": self._node, **await self._answer(as_object(json.loads(data)))}
        except (SagentError, ValueError, KeyError, RecursionError) as error:
            return {"error": str(error)}

    async def _answer(self, request: Mapping[str, object]) -> Mapping[str, object]:
        agent = self._agent
        match request.get("op"):
            case "status":
                self.watched = True
                self.on_watched()
                return {"figures": adapter(Figures).dump_python(self.figures(), mode="json")}
            case "interrupt":
                scope: Scope = "self" if request.get("scope") == "self" else "tree"
                self._named(request).interrupt(scope)
            case "apply":
                action = adapter(ACTIONS[as_str(request.get("action"))]).validate_python(request.get("of"))
                agent.apply(cast("Action", action))
                if isinstance(action, Switch):
                    self.chosen |= {name: text for name in ("model", "effort") if (text := getattr(action, name))}
            case "send":
                self._named(request).send(user(valid_text(as_str(request.get("text")))))
            case "cancel_job":
                await self._named(request).cancel_job(as_str(request.get("job")))
            case "catalog":
                return {"catalog": await asyncio.to_thread(agent.catalog)}
            case "mode":
                self._choose(as_str(request.get("mode")))
            case "allow":
                self._allow(tuple(Rule.parse(as_str(text)) for text in as_array(request.get("rules"))))
            case other:
                raise UsageError(f"Unknown request {other!r}; requests are status, interrupt, apply and others.")
        return {}

    def _named(self, request: Mapping[str, object]) -> Node:
        path = as_str(request.get("agent")) or self._agent.path
        if (found := self._agent.tree.get(path)) is None:
            raise UsageError(f"{path} has ended.")
        return found

    def _judged(self) -> Judgement:
        if self._judgement is None:
            raise UsageError(f"Node {self._node} does not report its permission policy.")
        return self._judgement

    def _choose(self, mode: str) -> None:
        """Switch to a mode that is no freer than the node's own."""
        judged = self._judged()
        for known in judged.modes:
            if known == mode:
                judged.policy.mode = known
                return
        raise UsageError(f"Node {self._node} allows the modes {', '.join(judged.modes)}, not {mode!r}.")

    def _allow(self, rules: tuple[Rule, ...]) -> None:
        """Allow more while this node has the session. The node's own denials remain."""
        policy = self._judged().policy
        policy.rules = replace(policy.rules, allow=(*policy.rules.allow, *rules))
