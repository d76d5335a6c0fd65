"""A repository with a submodule, made once and copied for each test."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.program import Shell
from tests.plugins.worktrees.trees import git
from tests.repositories import copy_repositories

SET_UP = """
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
git init -q -b main inner && cd inner && echo in > inner.txt && git add . && git commit -qm inner && cd ..
git init -q -b main work && cd work
git config user.name Ann && git config user.email ann@example.org
printf 'one\\ntwo\\nthree\\n' > a.txt && echo b > b.txt && printf '.env\\nbuilt/\\n' > .gitignore
mkdir folder && echo c > folder/c.txt && git add . && git commit -qm first
cp -r . ../modular && cd ../modular
git -c protocol.file.allow=always submodule add -q ../inner sub && git commit -qm 'add sub'
"""


@pytest.fixture(scope="session")
def made_repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("repositories").resolve()
    subprocess.run(["bash", "-ec", SET_UP], cwd=made, check=True, capture_output=True)
    return made


@pytest.fixture
def project(shell: Shell, made_repositories: Path) -> Shell:
    """A shell in the repository `work`; `modular` beside it has the submodule `sub`."""
    place = shell.cwd.parent / "repositories"
    copy_repositories(made_repositories, place)
    shell.cwd = place / "work"
    git(shell.cwd, "status")
    return shell
