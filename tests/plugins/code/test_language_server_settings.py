"""`[language_servers]` in the person's file and in a project's: what is read, refused, and asked about."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sagent.config import Settings
from sagent.config.report import show
from sagent.errors import ConfigError
from sagent.plugin import Table
from sagent.plugins.code import DIAGNOSTICS
from sagent.plugins.code.lsp.rows import built_in, every_row
from sagent.plugins.code.settings import servers_of
from sagent.repl.trust import render_wish

OWN = """
[language_servers.zls]
command = ["zls"]
languages = { ".zig" = "zig" }
roots = ["build.zig"]

[language_servers.pyright]
off = true

[language_servers.gopls.settings.gopls]
staticcheck = true
limit = 1.5
"""
PROJECT = '[language_servers.mine]\ncommand = ["./server"]\nlanguages = { ".py" = "python" }\n'


def test_own_servers_first_and_override(config: Path, settings: Callable[..., Settings]) -> None:
    (config / "config.toml").write_text(OWN)
    rows = {row.name: row for row in every_row(servers_of(settings()))}
    assert [*rows][:3] == ["zls", "pyright", "gopls"]
    assert set(built_in()) < set(rows)
    assert rows["pyright"].off
    shown = {row.name: row.value for row in show(settings())}
    assert (shown["language_servers.zls"], shown["language_servers.pyright"]) == ("zls", "off")
    assert rows["pyright"].command == built_in()["pyright"].command
    assert rows["gopls"].settings == {"gopls": {"staticcheck": True, "limit": 1.5}}
    assert rows["zls"].language(Path("a.ZIG")) == "zig"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[language_servers.x]\ncommand = ["x"]', "x: give a command, and languages"),
        ('[language_servers.x]\ncommand = "x"', "x.command"),
        ("[language_servers.pyright]\ncommand = [1]", "pyright.command: give strings"),
        ('[language_servers.pyright]\ncomand = ["x"]', "pyright.comand"),
        ('[language_servers.pyright]\npulls = "no"', "pyright.pulls"),
        ('[language_servers.pyright]\nenv = { A = "\\u0000" }', "pyright.env"),
        ('language_servers = "off"', "language_servers"),
        ('diagnostics = "sometimes"', "auto, on"),
    ],
)
def test_invalid_setting_names_line(text: str, why: str, config: Path, settings: Callable[..., Settings]) -> None:
    (config / "config.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"config\.toml:1: ") as error:
        settings()
    assert why in str(error.value)


def test_project_servers_wait_for_trust(settings: Callable[..., Settings]) -> None:
    found = settings(project=PROJECT)
    assert servers_of(found) == {}
    assert found.wish is not None
    shown = "\n".join(text for line in render_wish(found.wish, 200, found.plugins.named(Table)) for _, text in line)
    assert "Language servers are programs" in shown and "models" not in shown
    assert any("./server" in text and "--trust-project" in text for text in found.warnings)
    assert any("waits for your trust" in row.origin for row in show(found) if row.name == "language_servers")
    trusted = servers_of(settings(project=PROJECT, trust_project=True))
    assert trusted["mine"].command == ("./server",)
    reads = settings(project=PROJECT + 'env = { A = "${HOME}" }\n', trust_project=True)
    assert servers_of(reads) == {}
    assert any("may not read the environment" in text for text in reads.warnings)


def test_project_can_only_reduce_checks(settings: Callable[..., Settings]) -> None:
    assert settings(project='diagnostics = "off"').of(DIAGNOSTICS) == "off"
    assert settings(project='diagnostics = "on"').of(DIAGNOSTICS) == "auto"
