"""`python -m sagent`."""

from sagent.bin.cli import start

if __name__ == "__main__":
    start()
