"""Run the command line of argv up to its first connection, and end there: what a start costs, and nothing else.

The address may be one where nobody listens. Fails where the run ends without a connection.
"""

import os
import sys


def hook(event: str, _args: object) -> None:
    """End the process at once, without what is done at exit."""
    if event == "socket.connect":
        os._exit(0)


sys.argv[0] = "sagent"
sys.addaudithook(hook)

from sagent.bin.cli import main  # noqa: E402 -- after the hook

main()
sys.exit("no connection was made")
