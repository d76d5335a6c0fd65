"""What is left out of folders of plugins and of other programs' files is said, with file and reason."""

from pathlib import Path

from sagent.config.plugins import find_plugins
from sagent.plugins.imports.claude import take_claude
from sagent.plugins.imports.folders import read_plugin
from sagent.plugins.imports.others import take_codex
from sagent.plugins.imports.plan import Plan

HEAD = "---\nname: {0}\ndescription: it works\n---\nText.\n"


def put(folder: Path, kind: str, name: str, data: bytes) -> Path:
    """Write a definition where files of its kind lie."""
    path = folder / name / "SKILL.md" if kind == "skills" else folder / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_plugin_faults_shown_before_adding(tmp_path: Path) -> None:
    put(tmp_path / "skills", "skills", "good", HEAD.format("good").encode())
    put(tmp_path / "skills", "skills", "bare", b"no head")
    put(tmp_path / "agents", "agents", "typo", b"---\ndescripton: x\n---\n")
    put(tmp_path / "commands", "commands", "empty", b"")
    left = "\n".join(read_plugin(tmp_path, "demo", find_plugins(tmp_path, tmp_path)).left_out)
    for words in (
        "skills/bare/SKILL.md is left out",
        "no key descripton",
        "agents/typo.md is left out",
        "commands/empty.md",
    ):
        assert words in left


def test_unreadable_files_listed(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text('{"servers": {}, "mcpServers": ["x"]}')
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text("[1]")
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/config.toml").write_bytes(b"\0\1\2\xff" * 30)
    plan = Plan(tmp_path, tmp_path / "home", tmp_path / "config")
    take_claude(plan)
    take_codex(plan)
    notes = {(item.file.name, item.note) for item in plan.items if item.status == "left out"}
    assert ("settings.json", "it is not a JSON object") in notes
    assert ("config.toml", "it is not text") in notes
    assert (".mcp.json", "servers are read from mcpServers") in notes
    assert (".mcp.json", "they are ['x'], not an object of servers by name") in notes
