"""Places that deserve a question in every mode but full: where keys lie, and files whose content runs by itself."""

import os
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from sagent.policy.rules import is_inside

# Below the home directory.
_SECRETS = (
    ".ssh", ".aws", ".gnupg", ".azure", ".kube", ".docker/config.json", ".config/gcloud", ".config/gh", ".netrc",
    ".config/sagent", ".config/anthropic", ".claude/.credentials.json", ".codex/auth.json", ".git-credentials",
    ".npmrc", ".pypirc", ".password-store", ".local/share/keyrings", "Library/Keychains", ".mozilla",
    ".config/google-chrome",
)  # fmt: skip
_RUN_BY_THEMSELVES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin",
    ".inputrc", ".gitconfig", ".vimrc", ".pam_environment", ".xprofile", ".xinitrc", ".config/fish", ".config/git",
    ".config/systemd", ".config/autostart", ".config/environment.d", "Library/LaunchAgents", ".local/bin", "bin",
)  # fmt: skip
_GUARDED_DIRECTORIES = frozenset({".git", ".hg", ".svn", ".sagent"})
_ENV_EXAMPLES = frozenset({".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults"})


class Places:
    """Knows the places of one person's home; `private` are further directories that hold keys (sagent's own config)."""

    def __init__(self, home: Path, private: Sequence[Path] = ()) -> None:
        self.home = str(home)
        self._private = private

    @cached_property
    def _secrets(self) -> frozenset[str]:
        return _below(self.home, _SECRETS) | {*map(str, self._private), *map(os.path.realpath, self._private)}

    @cached_property
    def _guarded(self) -> frozenset[str]:
        return _below(self.home, _RUN_BY_THEMSELVES)

    def is_secret(self, path: str) -> bool:
        """Whether keys or passwords lie at an absolute path, as spelled or where it leads."""
        return self._has_keys(os.path.normpath(path)) or self._has_keys(os.path.realpath(path))

    def _has_keys(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        if (name == ".env" or name.startswith(".env.")) and name not in _ENV_EXAMPLES:
            return True
        if re.fullmatch(r"/proc/[^/]+(/task/[^/]+)?/(environ|mem)|/etc/g?shadow-?", path):
            return True
        return any(is_inside(path, place) for place in self._secrets)

    def holds_secrets(self, path: str) -> bool:
        """Whether searching a directory to its depths would pass through such a place."""
        real = os.path.realpath(path)
        return self.is_secret(path) or real == "/proc" or any(is_inside(place, real) for place in self._secrets)

    def is_guarded(self, path: str) -> bool:
        """Whether writing there plants what runs by itself, changes what sagent may do, or touches keys."""
        for spelled in (os.path.normpath(path), os.path.realpath(path)):
            if any(part.casefold() in _GUARDED_DIRECTORIES for part in spelled.split("/")):
                return True
            if any(is_inside(spelled, place) for place in self._guarded):
                return True
        return self.is_secret(path)


def _below(home: str, names: Sequence[str]) -> frozenset[str]:
    """The places as spelled and as they really lie."""
    spelled = {f"{start.rstrip('/')}/{name}" for start in (home, os.path.realpath(home)) for name in names}
    return frozenset(spelled | {os.path.realpath(place) for place in spelled})
