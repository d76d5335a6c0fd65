"""The client with its announced capabilities: nothing else is requested from it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from sagent.lib.json import as_object, as_str
from sagent.plugins.acp import version2
from sagent.plugins.hosting.jsonrpc import Connection, RpcError, log


class Client:
    """Updates, permissions, files and forms of one client. `capabilities` are from its `initialize`, and `version` is
    the protocol version to use."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.capabilities: Mapping[str, object] = {}
        self.version = 1

    def _offers(self, *names: str) -> bool:
        """Return True if a capability is present; an empty object is, None and False are not."""
        found: object = self.capabilities
        for name in names:
            found = as_object(found).get(name)
        return found is not None and found is not False

    @property
    def writes_files(self) -> bool:
        return self.version == 1 and self._offers("fs", "writeTextFile")

    @property
    def reads_files(self) -> bool:
        return self.version == 1 and self._offers("fs", "readTextFile")

    @property
    def shows_notices(self) -> bool:
        return self.version > 1 or self._offers("session", "notices")

    @property
    def has_forms(self) -> bool:
        return self._offers("elicitation", "form")

    @property
    def shows_terminals(self) -> bool:
        """True if it shows the agent's own terminals, as Zed and others do."""
        return self.version > 1 or self._offers("_meta", "terminal_output")

    @property
    def has_login_terminal(self) -> bool:
        return self._offers("auth", "terminal")

    def update(self, session: str, update: Mapping[str, object]) -> None:
        """Send an update of version 1."""
        for each in (update,) if self.version == 1 else version2.translate(update):
            self._connection.notify("session/update", {"sessionId": session, "update": each})

    async def permit(self, session: str, call: Mapping[str, object], options: Sequence[Mapping[str, str]]) -> str:
        """Return the option that the person chose; "" for none, or if the client cannot ask."""
        params: Mapping[str, object] = {"sessionId": session, "toolCall": call, "options": options}
        if self.version > 1:
            params = version2.permission_request(params)
            self.update(session, version2.state_update("requires_action"))
        try:
            answer = await self._connection.request("session/request_permission", params)
        except RpcError as error:
            log(f"session/request_permission: {error}")
            return ""
        finally:
            if self.version > 1:
                self.update(session, version2.state_update("running"))
        outcome = as_object(answer.get("outcome"))
        return as_str(outcome.get("optionId")) if outcome.get("outcome") == "selected" else ""

    async def read_file(self, session: str, path: Path) -> str:
        """Return a file with unsaved changes. Raises RpcError."""
        answer = await self._connection.request("fs/read_text_file", {"sessionId": session, "path": str(path)})
        return as_str(answer.get("content"))

    async def write_file(self, session: str, path: Path, text: str) -> None:
        """Have the client write a file, so that the person can review it. Raises RpcError."""
        params = {"sessionId": session, "path": str(path), "content": text}
        await self._connection.request("fs/write_text_file", params)

    async def fill(self, session: str, message: str, schema: Mapping[str, object]) -> Mapping[str, object] | None:
        """Ask the person to fill in a form; None if they have not."""
        params = {"sessionId": session, "mode": "form", "message": message, "requestedSchema": schema}
        try:
            answer = await self._connection.request("elicitation/create", params)
        except RpcError as error:
            log(f"elicitation/create: {error}")
            return None
        return as_object(answer.get("content")) if answer.get("action") == "accept" else None
