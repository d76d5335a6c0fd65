"""Run the command line of argv; write to the file named first how many modules were imported at the first connect."""

import sys

target = sys.argv[1]
sys.argv = ["sagent", *sys.argv[2:]]
seen = []


def hook(event: str, _args: object) -> None:
    """Count at the first connection to anywhere."""
    if event == "socket.connect" and not seen:
        seen.append(len(sys.modules))


sys.addaudithook(hook)

from sagent.bin.cli import main  # noqa: E402 -- after the hook

code = main()
with open(target, "w") as file:
    file.write(str(seen[0] if seen else len(sys.modules)))
sys.exit(code)
