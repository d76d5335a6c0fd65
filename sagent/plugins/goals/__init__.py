"""Goals that a session works towards until a check says they are reached, and prompts that are sent again and again."""

from sagent.config.values import text_of, whole
from sagent.plugin import Part, Plugin, Setting, SlashCommand

_SLASH = "sagent.plugins.goals.slash"
MAX_ATTEMPTS = 10
GOAL = Setting(
    "goal",
    text_of,
    metavar="GOAL",
    uses=("remote",),
    help="work until this holds: a condition that results of calls must prove, or !COMMAND that must exit with 0",
)
ATTEMPTS = Setting(
    "goal_attempts",
    whole(1),
    MAX_ATTEMPTS,
    "int",
    metavar="N",
    uses=("remote",),
    help="end with an error if a goal is not reached after N attempts (default 10)",
)
plugin = Plugin(
    "goals",
    "goals that are worked towards until they are reached, and repeated prompts",
    parts=(Part("sagent.plugins.goals.goal:add", ("goal",)), Part("sagent.plugins.goals.restored:add", ("resumed",))),
    settings=(GOAL, ATTEMPTS),
    slash_commands=(SlashCommand("goal", f"{_SLASH}:goal"), SlashCommand("loop", f"{_SLASH}:loop")),
)
