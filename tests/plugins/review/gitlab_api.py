"""GitLab's REST API on loopback, as far as a review uses it, after docs.gitlab.com/api (discussions, notes, versions of
merge requests): notes are kept, and its rules for positions are held to."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from github_api import served

BOT = {"id": 42, "username": "project_5_bot"}


@dataclass
class Project:
    """A merge request, number 7 of project 5. `added` are the new lines of its diff, by path, and `kept` its others
    with their old numbers."""

    url: str = ""
    versions: list[dict] = field(default_factory=list)
    threads: list[dict] = field(default_factory=list)
    added: dict[str, set[int]] = field(default_factory=dict)
    kept: dict[str, dict[int, int]] = field(default_factory=dict)
    fail: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)

    def begin(self, base: str, head: str) -> dict[str, str]:
        """A merge request of `a.py`, whose line 2 is new; the variables of a job of its pipeline."""
        version = {"id": 1, "head_commit_sha": head, "base_commit_sha": base, "start_commit_sha": base}
        self.versions = [version, {**version, "head_commit_sha": base}]
        self.added, self.kept = {"a.py": {2}}, {"a.py": {1: 1}}
        return {
            "CI_API_V4_URL": f"{self.url}/api/v4", "CI_PROJECT_ID": "5", "CI_MERGE_REQUEST_IID": "7",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": base, "CI_COMMIT_SHA": head, "CI_MERGE_REQUEST_TITLE": "A mean",
            "CI_MERGE_REQUEST_PROJECT_PATH": "o/r", "CI_MERGE_REQUEST_SOURCE_PROJECT_PATH": "o/r",
            "GITLAB_TOKEN": "glpat-x",
        }  # fmt: skip

    @property
    def notes(self) -> list[dict]:
        return [each["notes"][0] for each in self.threads if "position" not in each["notes"][0]]

    @property
    def lines(self) -> list[dict]:
        return [each["notes"][0] for each in self.threads if "position" in each["notes"][0]]

    def answer(self, method: str, path: str, body: dict) -> tuple[int, object]:
        place, _, query = path.partition("?")
        page = int(found[1]) if (found := re.search(r"\bpage=(\d+)", query)) else 1
        if (method, place) == ("GET", "/api/v4/user"):
            return 200, BOT
        if not place.startswith("/api/v4/projects/5/merge_requests/7/"):
            return 404, {"message": "404 Not found"}
        match (method, *place.split("/")[7:]):
            case ("GET", "versions"):
                return 200, self.versions
            case ("GET", "discussions"):
                return 200, self.threads[100 * (page - 1) : 100 * page]
            case ("POST", "discussions"):
                if not self._is_place(body["position"]):
                    words = '400 Bad request - Note {:line_code=>["can\'t be blank", "must be a valid line code"]}'
                    return 400, {"message": words}
                return 201, self.add("DiffNote", **body)
            case ("POST", "notes"):
                return 201, self.add(None, **body)["notes"][0]
            case ("PUT", "discussions", thread, "notes", number):
                (old,) = [each["notes"][0] for each in self.threads if each["id"] == thread]
                assert old["id"] == int(number)
                old["body"] = body["body"]
                return 200, old
            case _:
                return 404, {"error": "404 Not Found"}

    def add(self, kind: str | None, *, author: dict = BOT, **body: object) -> dict:
        number = len(self.threads) + 1
        note = {"id": number, "type": kind, "author": author, "system": False, **body}
        self.threads.append({"id": f"{number:040x}", "individual_note": kind is None, "notes": [note]})
        return self.threads[-1]

    def _is_place(self, at: dict) -> bool:
        shas = {f"{name}_commit_sha": at[f"{name}_sha"] for name in ("base", "start", "head")}
        if at["position_type"] != "text" or not at["old_path"] or not shas.items() <= self.versions[0].items():
            return False
        path, line, old = at["new_path"], at["new_line"], at.get("old_line")
        return old == self.kept.get(path, {}).get(line, 0) if old else line in self.added.get(path, ())


@contextmanager
def gitlab() -> Generator[Project]:
    with served(Project()) as project:
        yield project
