"""A folder plugin, with skills, agents, commands, hooks and MCP servers: read, copied into the person's directory, and
pinned by its hash."""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from sagent.config.files import read_file
from sagent.config.plugins import Installed
from sagent.context.definitions import SKILL, DefinitionReader
from sagent.context.places import PLUGINS, Place
from sagent.errors import ConfigError, UsageError
from sagent.lib.atomic import put
from sagent.lib.dataclass import dataclass
from sagent.lib.encoding import readable
from sagent.lib.filelock import in_turn
from sagent.lib.json import as_object, as_str
from sagent.lib.names import path_of
from sagent.lib.regular import read_regular
from sagent.plugin import PathBase
from sagent.plugins.imports.plan import Plan, read_hooks, read_json
from sagent.plugins.imports.servers import take_servers
from sagent.sandbox.scratch import temporary

MAX_FILES, MAX_BYTES = 2_000, 20_000_000
MANIFESTS = (".claude-plugin/plugin.json", ".codex-plugin/plugin.json", "plugin.json")
RECORD = "installed.json"
SERVERS = "mcp.toml"
"""The converted form of a plugin's `.mcp.json`, next to it."""
_ELSEWHERE = ("commands", "agents", "skills", "hooks", "mcpServers", "lspServers", "outputStyles")
_PROTOCOLS = "file:git:http:https:ssh"
_REMOTE = re.compile(r"(?:[a-z+]+://|[\w.-]+@[\w.-]+:)|.*\.git/?$")


@dataclass(frozen=True, slots=True)
class FolderPlugin:
    """The contents of a folder: its name, a description of each part, and unsupported parts."""

    name: str
    version: str
    description: str
    parts: Sequence[tuple[str, str]]
    left_out: Sequence[str]
    servers: str  # as TOML


@contextmanager
def fetched(source: str, ref: str) -> Generator[tuple[Path, str]]:
    """Yield a copy of a plugin's folder during its inspection, and its commit; "" for a local folder. The copy that was
    shown is the one added, whatever happens to the folder meanwhile. Raises UsageError."""
    folder = path_of(source)
    with temporary() as place:
        if folder.is_dir() and not ref and not _REMOTE.fullmatch(source):
            copied = place / folder.resolve().name
            _copy(folder.resolve(), copied)
            yield copied, ""
            return
        where = str(folder.resolve()) if folder.is_dir() else source
        copied = place / Path(where).stem  # default name
        _git("clone", "--quiet", "--no-checkout", "--no-hardlinks", "--no-recurse-submodules", "--", where, str(copied))
        parse = ("-C", str(copied), "rev-parse", "--verify", "--end-of-options")
        commit = _git(*parse, f"{ref or 'HEAD'}^{{commit}}", may=True)
        if not (commit := commit or _git(*parse, f"origin/{ref}^{{commit}}", may=True)):
            raise UsageError(f"{source} has no branch, tag or commit {ref or 'HEAD'!r}.")
        _git("-C", str(copied), "-c", "core.symlinks=false", "checkout", "--quiet", "--detach", commit)
        shutil.rmtree(copied / ".git")
        yield copied, commit


def read_plugin(folder: Path, name: str, plugins: Installed) -> FolderPlugin:
    """Read the contents of a folder without running anything. Raises UsageError for one that is no plugin."""
    manifest: Mapping[str, object] = {}
    for file in MANIFESTS:
        if (folder / file).exists():
            manifest = _json(folder / file, folder)
            break
    name = name or as_str(manifest.get("name")) or folder.name
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", name):
        raise UsageError(
            f"{name!r} is not a valid plugin name: use at most 40 of a-z, 0-9 and -. Give one with --name."
        )
    parts = [("skill", file.parent.name) for file in sorted(folder.glob("skills/*/SKILL.md"))]
    parts += [("agent", file.stem) for file in sorted(folder.glob("agents/*.md"))]
    parts += [("command", file.stem) for file in sorted(folder.glob("commands/**/*.md"))]
    try:
        hooks = read_file(folder / "hooks" / "hooks.json", folder)
        if hooks is not None:
            given = as_object(hooks.data.get("hooks", hooks.data))
            parts += [("hook", str(hook)) for hook in read_hooks(plugins, hooks, given, PathBase(folder, folder))]
    except (ConfigError, UsageError) as error:
        raise UsageError(f"The plugin's hooks cannot be used: {error}") from error
    plan = Plan(folder, folder, folder, plugins=plugins)
    if (folder / ".mcp.json").exists():
        found = _json(folder / ".mcp.json", folder)
        take_servers(plan, found.get("mcpServers", found), folder / ".mcp.json")
    parts += [
        ("mcp", f"{item.name}: {item.note.partition(': ')[2]}") for item in plan.items if item.status != "left out"
    ]
    left_out = [f"mcp {item.name}: {item.note}" for item in plan.items if item.status == "left out"]
    left_out += [f"{key} in its manifest: only the usual folders are read" for key in _ELSEWHERE if key in manifest]
    if (folder / ".lsp.json").exists():
        left_out.append(".lsp.json: a plugin brings no language servers here")
    if (folder / SERVERS).exists():
        left_out.append(f"{SERVERS}: servers are read from .mcp.json")
    left_out += _faults(folder, name)
    if not parts:
        raise UsageError(f"{folder.name} is not a plugin: it has no skills, agents, commands, hooks or MCP servers.")
    servers = plan.own.tables
    return FolderPlugin(
        name, as_str(manifest.get("version")), as_str(manifest.get("description")), parts, left_out, servers
    )


def _faults(folder: Path, name: str) -> Sequence[str]:
    """Return what of a plugin's skills, agents and commands would be left out, or not understood."""
    from sagent.context import agents, commands, skills

    faults: list[str] = []
    for kind, form, read in (
        ("skills", SKILL, skills.skills_in),
        ("agents", agents.FORM, agents.agents_in),
        ("commands", commands.FORM, commands.commands_in),
    ):
        if (folder / kind).is_dir():
            reader = DefinitionReader(form, faults)
            list(read(Place(folder / kind, folder, "plugin", name), reader))
            reader.finish()
    return [fault.replace(f"{folder}/", "").rstrip(".") for fault in faults]


def install(plugin: FolderPlugin, folder: Path, config_dir: Path, record: Mapping[str, str]) -> Path:
    """Copy a plugin's files into the person's directory, and record their source. Raises UsageError, OSError."""
    target = config_dir / PLUGINS / plugin.name
    if target.exists():
        raise UsageError(f"There is a plugin {plugin.name} already: sagent plugin remove {plugin.name}")
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    making = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        _copy(folder, making, SERVERS)  # it has the converted servers, as shown
        if plugin.servers:
            root = json.dumps(str(target))[1:-1]
            text = plugin.servers.replace("${CLAUDE_PLUGIN_ROOT:-}", root)
            (making / SERVERS).write_text(text, "utf-8")
        making.rename(target)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise
    _keep(config_dir, plugin.name, {**record, "sha256": digest(target)})
    return target


def installed(config_dir: Path) -> dict[str, Mapping[str, object]]:
    """Return the source of each plugin, by name."""
    try:
        found = json.loads(read_regular(config_dir / PLUGINS / RECORD))
    except (OSError, ValueError, RecursionError):
        return {}
    return {name: as_object(each) for name, each in as_object(found).items()}


def remove(name: str, config_dir: Path) -> Path:
    """Remove a plugin. Raises UsageError for an unknown one, and OSError."""
    target = config_dir / PLUGINS / name
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name) or target.is_symlink() or not target.is_dir():
        known = ", ".join(sorted(installed(config_dir))) or "none"
        raise UsageError(f"There is no plugin {name!r}; installed: {known}.")
    shutil.rmtree(target)
    _keep(config_dir, name, None)
    return target


def digest(folder: Path) -> str:
    """Return a hash of all files of a folder, with names and executable bits."""
    total = hashlib.sha256()
    for file, data in _files(folder):
        runs = os.access(folder / file, os.X_OK)
        total.update(json.dumps([str(file), runs, hashlib.sha256(data).hexdigest()]).encode())
    return total.hexdigest()


def _copy(folder: Path, target: Path, without: str = "") -> None:
    """Copy the files of a folder. Raises UsageError for anything but files, and OSError."""
    target.mkdir(exist_ok=True)
    for file, data in _files(folder):
        if file.parts[0] != without:
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            (target / file).write_bytes(data)
            if os.access(folder / file, os.X_OK):
                (target / file).chmod(0o755)


def _files(folder: Path) -> Generator[tuple[Path, bytes]]:
    """Yield the regular files of a folder, by relative path. Raises UsageError for links and devices, and for too
    many."""
    size = count = 0
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if each != ".git")
        for name in [*names, *(each for each in folders if (Path(at) / each).is_symlink())]:
            path = Path(at) / name
            if path.is_symlink():
                raise UsageError(f"{path} is a link: a plugin may contain only its own files.")
        for name in sorted(names):
            path = Path(at) / name
            try:
                data = read_regular(path, folder, max_bytes=MAX_BYTES)
            except OSError as error:
                raise UsageError(f"{path} could not be read: {error.strerror}.") from error
            size, count = size + len(data), count + 1
            if size > MAX_BYTES or count > MAX_FILES:
                raise UsageError(f"{folder} has more than {MAX_FILES:,} files or {MAX_BYTES // 1_000_000} MB.")
            yield path.relative_to(folder), data


def _json(file: Path, border: Path) -> Mapping[str, object]:
    try:
        return as_object(read_json(read_regular(file, border).decode("utf-8-sig")))
    except OSError as error:
        raise UsageError(f"{file} could not be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not JSON: {error}") from error


def _keep(config_dir: Path, name: str, record: Mapping[str, object] | None) -> None:
    """Save the source of a plugin, or forget it, in turn with other processes."""
    with in_turn(config_dir / PLUGINS):
        others = {other: each for other, each in installed(config_dir).items() if other != name}
        records = others if record is None else {**others, name: record}
        put(config_dir / PLUGINS / RECORD, json.dumps(records, indent=1, sort_keys=True).encode() + b"\n")


def _git(*arguments: str, may: bool = False) -> str:
    """Run git and return its output. Nothing that a repository names is run. Raises UsageError; with `may` returns
    "" then."""
    import subprocess

    from sagent.lib.process import system_path

    settings = (
        "core.hooksPath=/dev/null",
        "core.fsmonitor=false",
        "protocol.ext.allow=never",
        "submodule.recurse=false",
    )
    argv = ["git", *(word for setting in settings for word in ("-c", setting)), *arguments]
    inert = {"GIT_ALLOW_PROTOCOL": _PROTOCOLS, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "LC_ALL": "C"}
    kept = {name: os.environ[name] for name in ("HOME", "SSH_AUTH_SOCK", "TMPDIR") if name in os.environ}
    try:
        done = subprocess.run(
            argv,
            env={**kept, **inert, "PATH": system_path()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise UsageError(f"git cannot be run: {error.strerror}") from error
    if done.returncode:
        if may:
            return ""
        lines = readable(done.stderr).strip().splitlines() or ["it gives no reason"]
        said = next((line for line in lines if line.startswith("fatal: ")), lines[-1])  # after it comes advice
        raise UsageError(f"git {next(each for each in arguments if not each.startswith('-'))} failed: {said}")
    return readable(done.stdout).strip()
