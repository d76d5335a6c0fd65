"""`python -m sagent`."""

import sys

from sagent.bin.cli import main

if __name__ == "__main__":
    sys.exit(main())
