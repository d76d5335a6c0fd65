"""Started by the conformance suite for each scenario; passes it on to `conformance_client.py`, where all is loaded."""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX) as asked:
    asked.connect(sys.argv[1])
    own = {name: value for name, value in os.environ.items() if name.startswith("MCP_")}
    socket.send_fds(asked, [json.dumps([sys.argv[2], own]).encode()], [1, 2])
    sys.exit((asked.recv(1) or b"\1")[0])
