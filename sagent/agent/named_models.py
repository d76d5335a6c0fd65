"""The models that a program gives an agent, as objects or by their names."""

from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.model import Model, full_name

if TYPE_CHECKING:
    from sagent.model import Provider


class NamedModels:
    """Models by their names. The provider of a name is opened on first use, with the key in the environment."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # full names, by these and by short ones
        self._models: dict[str, Model] = {}
        self._opened: list[Provider] = []

    def add(self, chosen: Model | str) -> str:
        """Add a model and return its full name, for `resolve`. Raises UsageError."""
        if isinstance(chosen, str):
            from sagent.providers.aliases import spelled_out

            name = self._names[chosen] = spelled_out(chosen.strip())
        else:
            check_model(chosen)
            self._models[name := full_name(chosen)] = chosen
        self._names[name] = name
        return name

    def resolve(self, name: str) -> Model:
        """Return one of these models. Raises UsageError for others, and for a provider without a key."""
        if (full := self._names.get(name)) is None:
            raise UsageError(f"{name} cannot be used: this agent has only {', '.join(sorted({*self._names.values()}))}")
        if full not in self._models:
            from sagent.providers.registry import provider_named

            provider, _, model = full.partition("/")
            self._opened.append(provider_named(provider))
            self._models[full] = self._opened[-1].model(model)
        return self._models[full]

    async def aclose(self) -> None:
        """Close the providers that were opened."""
        for provider in self._opened:
            await provider.aclose()


def check_model(chosen: object) -> None:
    """Raise UsageError for an object that is not a model."""
    if isinstance(chosen, type) or not callable(getattr(chosen, "stream", None)):
        name = chosen.__name__ if isinstance(chosen, type) else type(chosen).__name__
        raise UsageError(f'{name} is not a model: give "provider/model" or provider.model("...")')
    if lacking := [each for each in ("provider", "id", "limits", "max_input_tokens") if not hasattr(chosen, each)]:
        name, what = type(chosen).__name__, ", ".join(lacking)
        raise UsageError(f"{name} has no {what}: a model must implement the protocol sagent.model.Model")
