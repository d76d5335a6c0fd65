# pyright: basic, reportMissingImports=false
"""Apply answers of a model as aider does, each to the one file of a chat: run by aider's own interpreter.

Reads JSON from standard input: a list of a file and the answer, which names the file as aider shows it.
"""

import json
import os
import sys

from aider.coders import Coder
from aider.io import InputOutput
from aider.models import Model

model = Model("openai/gpt-4o")
console = InputOutput(yes=True, pretty=False, fancy_input=False)
for file, answer in json.load(sys.stdin):
    directory, name = os.path.split(file)
    os.chdir(directory)
    options = {"use_git": False, "auto_lint": False, "map_tokens": 0, "suggest_shell_commands": False}
    coder = Coder.create(main_model=model, io=console, edit_format="diff", fnames=[name], **options)
    coder.partial_response_content = answer
    coder.apply_updates()
