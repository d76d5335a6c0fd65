"""A comment on an issue that asks for its solution: from an event of GitHub Actions, or GitLab's webhook for notes."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_int, as_object, as_str
from sagent.lib.regular import read_given
from sagent.plugins.review.pull_request import NAME, TRUSTED, WISH

COMMAND = "solve"


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue, by whoever wrote it, and the `words` of the comment after the command. `skip` is the reason for doing
    nothing; "" if there is none."""

    repository: str
    number: int
    title: str
    text: str
    words: str
    author: str
    skip: str = ""


def read_github(file: Path) -> Issue:
    """Return the issue of an issue_comment event's payload ($GITHUB_EVENT_PATH). Raises UsageError for another."""
    event = _payload(file)
    issue, comment = as_object(event.get("issue")), as_object(event.get("comment"))
    repository = as_str(as_object(event.get("repository")).get("full_name"))
    if not (issue and comment and NAME.fullmatch(repository)):
        raise UsageError(f"{file}: this event is no comment on an issue. Run on issue_comment.")
    who, skip = as_str(as_object(comment.get("user")).get("login")), ""
    if issue.get("pull_request"):
        skip = "it is a pull request, for which there is `/sagent fix`"
    elif (done := as_str(event.get("action"))) != "created":
        skip = f"the comment was {done or 'changed'}: only a new one is heard"
    elif not _asks(as_str(comment.get("body"))):
        skip = f"the comment does not begin with `{WISH} {COMMAND}`"
    elif as_str(comment.get("author_association")) not in TRUSTED:
        skip = f"{who} has no write access to {repository}"
    return _issue(repository, as_int(issue.get("number")), issue.get("title"), issue.get("body"), comment, who, skip)


def read_gitlab(file: Path, people: Collection[str]) -> Issue:
    """Return the issue of a note's webhook ($TRIGGER_PAYLOAD). Only the comments of `people` are heard, by user name.
    Raises UsageError for another event."""
    event = _payload(file)
    issue, note = as_object(event.get("issue")), as_object(event.get("object_attributes"))
    repository = as_str(as_object(event.get("project")).get("path_with_namespace"))
    if as_str(event.get("object_kind")) != "note" or not issue or not repository:
        raise UsageError(f"{file}: this event is no comment on an issue. Send the webhook's comments.")
    who, skip = as_str(as_object(event.get("user")).get("username")), ""
    if as_str(note.get("action")) not in ("", "create") or note.get("system") is True:  # earlier ones name no action
        skip = "the comment was edited, or made by GitLab: only a new one of a person is heard"
    elif as_str(note.get("noteable_type")) not in ("", "Issue"):
        skip = "it is no comment on an issue"
    elif not _asks(as_str(note.get("note"))):
        skip = f"the comment does not begin with `{WISH} {COMMAND}`"
    elif who not in people:
        skip = f"{who} is none of those named by --people"
    comment = {"body": note.get("note")}
    return _issue(
        repository, as_int(issue.get("iid")), issue.get("title"), issue.get("description"), comment, who, skip
    )


def _payload(file: Path) -> Mapping[str, object]:
    try:
        return as_object(json.loads(read_given(file)))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not an event's payload: {error}") from error


def _asks(body: str) -> bool:
    return body.split()[:2] == [WISH, COMMAND]


def _issue(
    repository: str, number: int, title: object, text: object, comment: Mapping[str, object], who: str, skip: str
) -> Issue:
    words = as_str(comment.get("body")).strip().removeprefix(WISH).strip().removeprefix(COMMAND).strip()
    if number <= 0 and not skip:
        raise UsageError("The issue of this event has no number.")
    return Issue(repository, number, as_str(title), as_str(text), words, who, skip)
