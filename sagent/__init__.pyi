from sagent.agent import Agent as Agent
from sagent.agent import Resources as Resources
from sagent.agent import RunLimits as RunLimits
from sagent.agent.blocking import run_sync as run_sync
from sagent.app.task import load_config as load_config
from sagent.app.task import open_agent as open_agent
from sagent.app.task import run_task as run_task
from sagent.errors import BudgetExceeded as BudgetExceeded
from sagent.errors import ModelError as ModelError
from sagent.errors import SagentError as SagentError
from sagent.errors import ToolError as ToolError
from sagent.errors import UsageError as UsageError
from sagent.events import Result as Result
from sagent.tool import RunContext as RunContext
from sagent.tool import ToolOutput as ToolOutput
from sagent.tools import tool as tool

__version__: str
