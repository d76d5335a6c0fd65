"""Install through apt, when root, the programs that the tests use and this machine lacks; else say what is missing."""

import os
import shutil
import subprocess
import sys

PROGRAMS = {
    "rg": "ripgrep",
    "git": "git",
    "unshare": "util-linux",
    "bash": "bash",
    "ps": "procps",
    "tmux": "tmux",
    "zsh": "zsh",
    "fish": "fish",
    "ssh-keygen": "openssh-client",
    "bwrap": "bubblewrap",
    "node": "nodejs",
    "as": "binutils",
    "aarch64-linux-gnu-as": "binutils-aarch64-linux-gnu",
}


def main() -> int:
    """Install what is missing. Never fails: the suite itself decides what may be skipped."""
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if not missing:
        return 0
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        names = ", ".join(missing)
        sys.stdout.write(f"Not installed, and not installable from here: {names}; tests needing them skip.\n")
        return 0
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", *(PROGRAMS[m] for m in missing)]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.stdout.write(f"{' '.join(command)} failed: {done.stderr.strip()[-500:]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
