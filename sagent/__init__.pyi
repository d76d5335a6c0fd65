from sagent.app.task import load_config as load_config
from sagent.app.task import run_task as run_task

__version__: str
