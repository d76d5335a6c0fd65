"""The list of places: what it holds, and that its parts do not contradict each other."""

import os
import subprocess
from pathlib import Path

import pytest

from sagent.policy.permissions import PermissionPolicy
from sagent.sandbox import Sandbox
from sagent.sandbox.places import caches, known_places, really_below
from sagent.tool import Workspace

KEYS = [
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".config/gh/hosts.yml",
    ".config/gcloud/access_tokens.db",
    ".kube/config",
    ".vault-token",
    ".docker/config.json",
    ".cargo/credentials.toml",
    ".npmrc",
    ".pgpass",
    ".netrc",
    ".pypirc",
    ".config/pip/pip.conf",
    ".m2/settings.xml",
    ".terraform.d/credentials.tfrc.json",
    ".config/rclone/rclone.conf",
    ".cache/huggingface/token",
    ".azure/msal_token_cache.json",
    ".config/composer/auth.json",
    ".gem/credentials",
    ".mozilla/firefox/a/logins.json",
    ".claude/.credentials.json",
    ".claude.json",
    ".codex/auth.json",
    ".codex/sessions/2026/a.jsonl",
    ".claude/projects/-a/b.jsonl",
    ".local/share/opencode/auth.json",
    ".config/github-copilot/apps.json",
    ".aider.conf.yml",
    ".gemini/oauth_creds.json",
    ".config/op/config",
    ".git-credentials",
    ".cloudflared/cert.pem",
    ".config/ngrok/ngrok.yml",
    ".config/crush/crush.json",
    ".config/solana/id.json",
    ".local/share/atuin/key",
]


def inside(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def test_keys_of_programs_are_listed() -> None:
    assert [path for path in KEYS if not inside(path, known_places().secrets)] == []
    assert f"/tmp/krb5cc_{os.getuid()}" in known_places().secret_files


def test_agent_instructions_are_no_secret() -> None:
    free = (".claude/CLAUDE.md", ".claude/skills/a/SKILL.md", ".codex/AGENTS.md", ".config/git/ignore", ".ssh.md")
    assert [path for path in free if inside(path, known_places().secrets)] == []


def test_build_cache_is_no_secret_place() -> None:
    places = known_places()
    for cache in places.caches:
        assert not inside(cache, (*places.secrets, *places.run_by_themselves)), cache
    for runs in (".cache/pre-commit/repo/hook", ".cache/p10k-instant-prompt-me.zsh", ".npm/_npx/a", ".cargo/bin/cargo"):
        assert not inside(runs, places.caches)
    for loaded in (".cache/jedi/a.pkl", ".cache/parso/a.pkl", ".cache/black/a.pickle", ".cache/pyright-python/a.js"):
        assert not inside(loaded, places.caches), "an editor loads it as code"


def test_obeyed_files_are_protected() -> None:
    obeyed = (".git/config", ".envrc", ".helix/languages.toml", ".dir-locals-2.el", ".Rprofile", ".pdbrc", "crush.json")
    assert [path for path in obeyed if not inside(path, known_places().protected)] == []


def test_names_are_relative_and_unique() -> None:
    places = known_places()
    for names in (places.secrets, places.run_by_themselves, places.caches, places.protected, places.repositories):
        assert len(set(names)) == len(names)
        assert all(os.path.normpath(name) == name and not name.startswith(("/", "..", "~")) for name in names)
    assert all(Path(name).is_absolute() and "{" not in name for name in places.secret_files)


def test_places_are_known_by_real_path(tmp_path: Path) -> None:
    (tmp_path / "real" / "dotfiles").mkdir(parents=True)
    (tmp_path / "home").symlink_to("real")
    (tmp_path / "real" / ".ssh").symlink_to("dotfiles")
    assert really_below(str(tmp_path / "home"), (".ssh", ".aws/config")) == {
        f"{tmp_path}/home/.ssh",
        f"{tmp_path}/real/.ssh",
        f"{tmp_path}/real/dotfiles",
        f"{tmp_path}/home/.aws/config",
        f"{tmp_path}/real/.aws/config",
    }


@pytest.mark.costly
@pytest.mark.parametrize("link", [".cache", ".cache/pip"])
async def test_caches_on_another_disk_are_written(tmp_path: Path, link: str) -> None:
    home, disk, tree = tmp_path / "home", tmp_path / "disk", tmp_path / "tree"
    for made in ((home / link).parent, disk / "pip", tree):
        made.mkdir(parents=True)
    (home / link).symlink_to(disk if link == ".cache" else disk / "pip")
    profile = PermissionPolicy("edit", home=home).profile(Workspace(tree))
    assert str(disk / "pip") in profile.writable
    sandbox = Sandbox()
    if not sandbox.stands:
        pytest.skip(sandbox.means.why)
    try:
        confined = await sandbox.confine(["touch", str(disk / "pip/x")], profile, tree)
        argv, environment = confined.launched(os.environ)
        subprocess.run(argv, cwd=tree, env=environment, check=True)
        confined.finish()
    finally:
        await sandbox.aclose()
    assert (disk / "pip/x").exists()


def test_command_made_link_opens_no_cache(tmp_path: Path) -> None:
    home, tree, other = tmp_path / "home", tmp_path / "home/tree", tmp_path / "other"
    for made in (home, tree, other / "pip"):
        made.mkdir(exist_ok=True, parents=True)
    (tree / "cache").symlink_to(other)
    (home / ".cache").symlink_to("tree/cache")
    (home / ".npm").mkdir()
    assert not [path for path in caches(str(home), [str(tree)]) if path.startswith(str(other))]
    assert str(home / ".npm/_cacache") in caches(str(home), [str(tree)])
    (home / ".cache").unlink()
    (home / ".cache").symlink_to(other)
    assert str(other / "pip") in caches(str(home), [str(tree)])
    assert str(other / "pip") not in caches(str(home), [str(home)])
