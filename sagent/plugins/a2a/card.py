"""The card, which tells others what this agent does and how to reach it. Everybody may read it, so it names no model,
directory or tool."""

from collections.abc import Sequence

from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)

from sagent.lib.dataclass import dataclass
from sagent.version import __version__

JSONRPC_PATH, REST_PATH = "/jsonrpc", "/rest"
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_INPUT = ("text/plain", "text/markdown", "application/json", "application/pdf", *_IMAGES)
_OUTPUT = ("text/markdown", "text/x-diff", "text/plain")
_BEARER = "bearer"


@dataclass(frozen=True, slots=True)
class Described:
    """The members of the card that whoever runs the server may choose."""

    name: str = "sagent"
    description: str = "A coding agent: it reads, changes and runs code in one directory, and answers questions on it."
    skill: str = "code"
    tags: Sequence[str] = ("coding",)


def make_card(described: Described, url: str) -> AgentCard:
    """Return the card of an agent at `url`, which has no slash at its end."""
    return AgentCard(
        name=described.name,
        description=described.description,
        version=__version__,
        supported_interfaces=[
            AgentInterface(url=f"{url}{path}", protocol_binding=binding, protocol_version=version)
            for version in ("1.0", "0.3")
            for path, binding in ((JSONRPC_PATH, "JSONRPC"), (REST_PATH, "HTTP+JSON"))
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=_INPUT,
        default_output_modes=_OUTPUT,
        skills=[
            AgentSkill(id=described.skill, name=described.name, description=described.description, tags=described.tags)
        ],
        security_schemes={_BEARER: SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="bearer"))},
        security_requirements=[SecurityRequirement(schemes={_BEARER: StringList()})],
    )
