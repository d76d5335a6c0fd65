"""Names that MCP had before it was a plugin."""

import importlib

import pytest

from sagent.plugins import mcp


def test_old_names_still_import() -> None:
    old = importlib.import_module("sagent.bridges.mcp")
    with pytest.warns(DeprecationWarning, match=r"sagent\.plugins\.mcp"):
        assert old.open_servers is mcp.open_servers
    config = importlib.import_module("sagent.config")
    with pytest.warns(DeprecationWarning, match=r"sagent\.plugins\.mcp"):
        assert config.McpServer is mcp.McpServer
    with pytest.raises(AttributeError):
        _ = old.NoSuchName
