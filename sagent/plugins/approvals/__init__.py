"""Permission mode auto: a reviewer, which is a model, answers what mode ask would ask a person, within bounds."""

from sagent.config.values import name_of
from sagent.plugin import Extra, Part, Plugin, Setting

_ADD = "sagent.plugins.approvals.part:add"
MODE = "auto"
"""The permission mode with a reviewer."""
REVIEWER = Setting(
    "approval_reviewer",
    name_of,
    metavar="M",
    help="an advisor's name, or a model, that answers in permission mode auto (default: the advisor, else the model)",
)
plugin = Plugin(
    "approvals",
    "permission mode auto, in which a reviewer answers what a person would be asked",
    parts=(Part(_ADD, ("permission_mode=auto", "somebody answers"), "around"),),
    settings=(REVIEWER,),
    extras=(Extra(f"mode {MODE}", _ADD, "a reviewer answers, within bounds; beyond them you are asked"),),
)
