"""A pull request from an event of GitHub Actions or the variables of a GitLab job, and whether it is to be reviewed."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_int, as_object, as_str
from sagent.lib.regular import read_given

NAME = re.compile(r"[\w.-]{1,100}/[\w.-]{1,100}")
_NUMBER = re.compile(r"[0-9]{1,18}")
_ID = re.compile(r"[0-9a-f]{40,64}")
TRUSTED = ("OWNER", "MEMBER", "COLLABORATOR")  # may write, as author_association says
WISH = "/sagent"  # begins a comment with a request for us


@dataclass(frozen=True, slots=True)
class PullRequest:
    """`about` is the author's description. `skip` is the reason for no review; "" if there is none. `wish` is a
    comment's request: "review", "fix", or "" for an event that is no comment. For a comment, `base` and `head` are
    unknown."""

    repository: str
    number: int
    base: str = ""
    head: str = ""
    about: str = ""
    skip: str = ""
    wish: str = ""


def read_event(file: Path) -> PullRequest:
    """Return the pull request of an event's payload ($GITHUB_EVENT_PATH). Raises UsageError for any other event."""
    try:
        event = as_object(json.loads(read_given(file)))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not a GitHub event: {error}") from error
    repository = as_str(as_object(event.get("repository")).get("full_name"))
    if not NAME.fullmatch(repository):
        raise UsageError(f"{file} is not a GitHub event: it names no repository.")
    pull, issue = as_object(event.get("pull_request")), as_object(event.get("issue"))
    if pull:
        return _of_pull(repository, pull, event)
    if issue.get("pull_request") and event.get("comment"):
        return _of_comment(repository, issue, event)
    raise UsageError(f"{file}: this event is not about a pull request. Run on pull_request or issue_comment.")


def read_merge_request(variables: Mapping[str, str]) -> PullRequest:
    """Return the merge request of a GitLab job (docs.gitlab.com, predefined CI/CD variables). Its repository is the
    project's id. Raises UsageError if the pipeline does not belong to a merge request."""
    merged = "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA"  # set if CI_COMMIT_SHA is a merge made for the pipeline
    commits = "CI_MERGE_REQUEST_DIFF_BASE_SHA", merged if variables.get(merged) else "CI_COMMIT_SHA"
    names = "CI_PROJECT_ID", "CI_MERGE_REQUEST_IID", *commits
    for name in names:
        if not (_ID if name in commits else _NUMBER).fullmatch(variables.get(name, "")):
            raise UsageError(f"{name} is {variables.get(name, '')!r}: --gitlab is for the pipeline of a merge request.")
    project, number, base, head = map(variables.__getitem__, names)
    source = variables.get("CI_MERGE_REQUEST_SOURCE_PROJECT_PATH", "")
    target = variables.get("CI_MERGE_REQUEST_PROJECT_PATH", "")
    about = f"{variables.get('CI_MERGE_REQUEST_TITLE', '')}\n\n{variables.get('CI_MERGE_REQUEST_DESCRIPTION', '')}"
    return PullRequest(project, int(number), base, head, about, _fork(source, target))


def with_commits(request: PullRequest, pull: Mapping[str, object]) -> PullRequest:
    """Return the pull request of a comment, completed by the API."""
    found = _of_pull(request.repository, pull, {})
    return PullRequest(
        request.repository,
        request.number,
        found.base,
        found.head,
        found.about,
        request.skip or found.skip,
        request.wish,
    )


def _of_pull(repository: str, pull: Mapping[str, object], event: Mapping[str, object]) -> PullRequest:
    base, head = as_object(pull.get("base")), as_object(pull.get("head"))
    shas = as_str(base.get("sha")), as_str(head.get("sha"))
    if not all(map(_ID.fullmatch, shas)):
        raise UsageError("The pull request of this event names no commits.")
    about = f"{as_str(pull.get('title'))}\n\n{as_str(pull.get('body'))}"
    return PullRequest(repository, as_int(pull.get("number")), *shas, about, _reason_to_skip(repository, pull, event))


def _reason_to_skip(repository: str, pull: Mapping[str, object], event: Mapping[str, object]) -> str:
    """Return why a pull request is not reviewed; "" if it is. Anybody can write forks, so they get no secrets."""
    source = as_str(as_object(as_object(as_object(pull.get("head")).get("repo"))).get("full_name"))
    if fork := _fork(source, repository):
        return fork
    if pull.get("draft") is True:
        return "it is a draft"
    if as_str(as_object(event.get("sender")).get("type")) == "Bot":
        return "a bot triggered the event"
    return ""


def _fork(source: str, target: str) -> str:
    if source and source.lower() == target.lower():
        return ""
    return f"it comes from another repository ({source or 'which is gone'}), and secrets are not used for those"


def _of_comment(repository: str, issue: Mapping[str, object], event: Mapping[str, object]) -> PullRequest:
    comment = as_object(event.get("comment"))
    words = as_str(comment.get("body")).split()[:2]
    wish = words[1] if len(words) == 2 and words[0] == WISH else ""
    who = as_str(as_object(comment.get("user")).get("login"))
    skip = ""
    if as_str(event.get("action")) != "created" or wish not in ("review", "fix"):
        skip = f"the comment has no command: the commands are `{WISH} review` and `{WISH} fix`"
    elif as_str(comment.get("author_association")) not in TRUSTED:
        skip = f"{who} has no write access to {repository}"
    return PullRequest(repository, as_int(issue.get("number")), skip=skip, wish=wish)
