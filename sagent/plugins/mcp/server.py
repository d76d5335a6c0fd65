"""An MCP server as settings describe it; `opening` has the one that programs open."""

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from sagent.lib.dataclass import dataclass

if TYPE_CHECKING:
    from sagent.sandbox.profile import Need


@dataclass(frozen=True, slots=True)
class McpServer:
    """A server of tools: a command to run, or a URL. `timeout` is in seconds, for one call, `start_timeout` for
    everything before. A command runs in the sandbox, and `needs` are its additional permissions there. `oauth` has
    values for a login at a URL that its server does not publish: `scope`, `client_id`, `client_secret`,
    `client_metadata_url`, `callback_port`; with `issuer` the login needs no person, but a secret or key. With
    `always_load` its tools are in every request, however many there are."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    timeout: float = 600.0
    start_timeout: float = 10.0
    needs: "tuple[Need, ...]" = ()
    oauth: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    always_load: bool = False
