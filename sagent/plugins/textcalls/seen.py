"""Models that were seen to write their calls as text, for `sagent models` to show and forget."""

from collections.abc import Mapping

from sagent.cli.render import report
from sagent.config import Settings
from sagent.lib.text import Table
from sagent.plugins.textcalls.protocols import FILE, LearnedProtocols, split_place


def forget(settings: Settings, arguments: Mapping[str, object]) -> int | None:
    """Forget the protocol of the model that a flag names by its id or as provider/id; None if the flag names none.
    Returns 1 if nothing was known."""
    if (name := arguments.get("forget")) is None:
        return None
    learned = LearnedProtocols(settings.state_dir / FILE)
    count = learned.forget(str(name)) or (learned.forget(str(name).partition("/")[2]) if "/" in str(name) else 0)
    report(f"{name}: forgotten" if count else f"{name}: nothing was known of how it writes its calls")
    return 0 if count else 1


def seen(settings: Settings) -> Table | None:
    """Return the models whose protocol was learned: the protocol, the model with its provider, and the address."""
    rows: list[tuple[str, ...]] = []
    for name, protocol in sorted(LearnedProtocols(settings.state_dir / FILE).every().items()):
        provider, (address, model) = name.partition(" ")[0], split_place(name)
        rows.append((protocol, f"{provider}/{model}", address))
    return Table(tuple(rows), ("seen to write its calls as", "model", "at")) if rows else None
