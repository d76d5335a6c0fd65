"""The users of a bus: `sagent nodes permissions`."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sagent.cli.render import report
from sagent.cli.tables import show
from sagent.errors import UsageError
from sagent.lib.json import as_array
from sagent.lib.names import path_of
from sagent.lib.text import Table

if TYPE_CHECKING:
    from sagent.cli.flags import Parser
    from sagent.plugins.mesh.security import Role, User, Users

DESCRIPTION = """Add, list or remove users of a bus, each with its own key and role. The result is a file for
`sagent bus --users`. Each tenant is a separate account, which sees nothing of the others."""


def add_permissions(parser: "Parser") -> None:
    """Add the flags of the operation."""
    parser.description = DESCRIPTION
    parser.add_argument("--dir", metavar="DIR", required=True, help="the directory for the users and their new keys")
    parser.add_argument("--tenant", metavar="NAME", default="main", help="the tenant of the users (%(default)s)")
    roles = {
        "node": "a node: runs sessions, writes their logs",
        "person": "starts sessions, attaches to them, sends messages",
        "observer": "reads cards, logs and events",
    }
    for role, what in roles.items():
        parser.add_argument(f"--{role}", metavar="NAME", action="append", default=[], help=f"{what} (repeatable)")
    agent = "receives only at these addresses, and sends messages (repeatable)"
    parser.add_argument("--agent", metavar="NAME=A,B", action="append", default=[], help=agent)
    parser.add_argument("--remove", metavar="NAME", action="append", default=[], help="remove a user (repeatable)")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run_permissions(options: Mapping[str, object]) -> int:
    """Change the users and list them. Raises UsageError."""
    from sagent.plugins.mesh.security import Users

    users, tenant = Users(path_of(str(options["dir"])).absolute()), str(options["tenant"])
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", tenant):
        raise UsageError(f"{tenant!r} is not a valid tenant name: use letters, digits, _ and -.")
    removed, added = [*map(str, as_array(options["remove"]))], _added(options)
    if added or removed:
        try:
            users.change(tenant, added, removed)
        except OSError as error:
            raise UsageError(f"{error.filename or users.folder}: {error.strerror or error}") from None
    found = users.all()
    shown = [_as_json(user, users) for user in found]
    rows = tuple(
        (user.tenant, user.name, user.role, " ".join(user.addresses), str(one["key_file"] or user.key))
        for user, one in zip(found, shown, strict=True)
    )
    table = [Table(rows, ("tenant", "name", "role", "addresses", "key"))] if rows else ["There are no users yet."]
    show({"configuration": str(users.configuration), "users": shown}, table, as_json=bool(options["json"]))
    if (added or removed) and not options["json"]:
        report(f"start the bus with these users: sagent bus --users {users.configuration}")
    return 0


def _added(options: Mapping[str, object]) -> "list[tuple[Role, str, tuple[str, ...]]]":
    from sagent.plugins.mesh.cards import check_name

    found: list[tuple[Role, str, tuple[str, ...]]] = []
    roles: tuple[Role, ...] = ("node", "person", "observer")
    for role in roles:
        found.extend((role, name, ()) for name in map(str, as_array(options[role])))
    for text in map(str, as_array(options["agent"])):
        name, sign, addresses = text.partition("=")
        if not sign:
            raise UsageError(f"--agent {text}: give NAME=ADDRESS,ADDRESS..., the addresses where it receives.")
        found.append(("agent", name, tuple(map(check_name, addresses.split(",")))))
    return found


def _as_json(user: "User", users: "Users") -> dict[str, object]:
    path = users.key_file(user)
    members = {"tenant": user.tenant, "name": user.name, "role": user.role, "public_key": user.key}
    return {**members, "addresses": list(user.addresses), "key_file": str(path) if path.exists() else None}
