"""What tests of worktrees share with those of races."""

from tests.worktrees import made_repositories, project

__all__ = ["made_repositories", "project"]
