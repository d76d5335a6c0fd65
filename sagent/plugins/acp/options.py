"""The options of a session that a person may choose in the editor: mode, model, effort, advisor."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sagent.errors import SagentError
from sagent.lib.json import as_array, as_object, as_str
from sagent.model import EFFORTS
from sagent.peer import Switch
from sagent.plugins.hosting.jsonrpc import INVALID_PARAMS, RpcError
from sagent.policy.permissions import MODES, Mode

if TYPE_CHECKING:
    from sagent.agent import Agent
    from sagent.policy.permissions import PermissionPolicy

MODE_WORDS: Mapping[Mode, tuple[str, str]] = {
    "plan": ("Plan", "Only reading and read-only commands; it proposes a plan"),
    "ask": ("Ask", "A question before every change and every command"),
    "edit": ("Edit", "Edits in the project are free; other changes are asked about"),
    "full": ("Full", "No questions"),
}
OFF = "off"
_UNSET = "default"  # the provider's own default effort


class Options:
    """The options of one session. `models` are the usable models as "provider/id", each with a short description."""

    def __init__(self, agent: "Agent", policy: "PermissionPolicy", models: Sequence[tuple[str, str]]) -> None:
        self._agent, self._policy, self._models = agent, policy, models
        own = {} if policy.mode in MODES else {policy.mode: (policy.mode.capitalize(), "As the session began")}
        self._modes: Mapping[Mode, tuple[str, str]] = {**MODE_WORDS, **own}
        self._chosen: dict[str, str] = {}  # made during a turn; used from its next model call on

    def settle(self) -> None:
        """Clear the choices: the turn has applied or rejected them."""
        self._chosen.clear()

    def modes(self) -> Mapping[str, object]:
        """Return the permission modes, for clients that do not support other options."""
        known = [{"id": mode, "name": name, "description": about} for mode, (name, about) in self._modes.items()]
        return {"currentModeId": self._policy.mode, "availableModes": known}

    def every(self) -> list[Mapping[str, object]]:
        """Return all options with their current values."""
        status = self._agent.status()
        efforts = [(each, each.capitalize(), "") for each in EFFORTS]
        model = self._chosen.get("model", status.model)
        effort = self._chosen.get("effort", status.effort or _UNSET)
        advisor = self._chosen.get("advisor", self._advisor())
        advisors = [(OFF, "Off", "Ask no advisor"), *self._model_choices(advisor)]
        return [
            _select("mode", "Mode", "mode", self._policy.mode, [(mode, *words) for mode, words in self._modes.items()]),
            _select("model", "Model", "model", model, self._model_choices(model)),
            _select("effort", "Effort", "thought_level", effort, [(_UNSET, "Default", ""), *efforts]),
            _select("advisor", "Advisor", "_advisor", advisor, advisors),
        ]

    def set_mode(self, mode: object) -> None:
        """Set the permission mode. Raises RpcError."""
        if not isinstance(mode, str) or mode not in self._modes:
            raise RpcError(INVALID_PARAMS, f"There is no mode {mode!r}. The modes are {', '.join(self._modes)}.")
        self._policy.mode = mode

    def set(self, option: object, value: object) -> None:
        """Set an option. Raises RpcError for an unknown option or an unusable value."""
        found = next((each for each in self.every() if each["id"] == option), None)
        if found is None:
            raise RpcError(INVALID_PARAMS, f"There is no option {option!r}. There are mode, model, effort and advisor.")
        offered = [as_str(as_object(each)["value"]) for each in as_array(found["options"])]
        if not isinstance(value, str) or value not in offered:
            raise RpcError(INVALID_PARAMS, f"{option} cannot be {value!r}: choose one of {', '.join(offered[:20])}.")
        if value == found["currentValue"]:
            return
        try:
            self._apply(str(option), value)
        except SagentError as error:
            raise RpcError(INVALID_PARAMS, str(error)) from error

    def _apply(self, option: str, value: str) -> None:
        match option:
            case "mode":
                self.set_mode(value)
                return
            case "model":
                self._agent.apply(Switch(model=value))
            case "effort":
                if value == _UNSET:
                    raise RpcError(INVALID_PARAMS, "The effort cannot be unset: choose another one.")
                self._agent.apply(Switch(effort=value))
            case _:
                self._agent.apply(Switch(advisor=value))
        if self._agent.running:
            self._chosen[option] = value

    def _model_choices(self, current: str) -> list[tuple[str, str, str]]:
        """Return the models to choose from, with the current one added if it is missing."""
        own = [] if current == OFF or any(name == current for name, _ in self._models) else [(current, "")]
        return [(name, name.partition("/")[2] or name, about) for name, about in (*own, *self._models)]

    def _advisor(self) -> str:
        """Return the model of the first active advisor, or "off"."""
        from sagent.advisor.extension import AdvisorExtension

        advisory = self._agent.advisory
        active = advisory.roster.active if isinstance(advisory, AdvisorExtension) else ()
        return active[0].model if active else OFF


def _select(
    name: str, title: str, category: str, current: str, values: Sequence[tuple[str, str, str]]
) -> Mapping[str, object]:
    options = [
        {"value": value, "name": label, **({"description": about} if about else {})} for value, label, about in values
    ]
    shown = {"id": name, "name": title, "category": category, "type": "select"}
    return {**shown, "currentValue": current, "options": options}


def models_of(catalog: str) -> list[tuple[str, str]]:
    """Parse a catalog: one model a line, "provider/id: a few words"."""
    lines = (line.partition(": ") for line in catalog.splitlines())
    return [(name, about) for name, colon, about in lines if colon and "/" in name]
