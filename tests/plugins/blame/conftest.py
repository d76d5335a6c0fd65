"""What tests of blame share with those of worktrees."""

from tests.worktrees import made_repositories, project

__all__ = ["made_repositories", "project"]
