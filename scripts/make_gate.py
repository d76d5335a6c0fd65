"""Assemble sagent/lib/gate_*.s into the digits of sagent/lib/gate.py. Needs GNU's assemblers for x86-64 and AArch64."""

import struct
import subprocess
import sys
import tempfile
from pathlib import Path

LIB = Path(__file__).parents[1] / "sagent/lib"
FILE = LIB / "gate.py"
BEGIN, END = "# by scripts/make_gate.py, from gate_*.s\nCODE = {\n", "}\n"
ASSEMBLERS = {"x86_64": ("as", "--64"), "aarch64": ("aarch64-linux-gnu-as",)}
WIDTH = 96  # digits of a line


def main() -> int:
    """Write the file; with --check, only say whether it is as it would be written."""
    before, _, rest = FILE.read_text("utf-8").partition(BEGIN)
    known, _, after = rest.partition(END)
    text = ""
    for machine in ASSEMBLERS:
        digits = code(machine).hex()
        lines = [digits[at : at + WIDTH] for at in range(0, len(digits), WIDTH)]
        text += f'    "{machine}": (\n' + "".join(f'        "{line}"\n' for line in lines) + "    ),\n"
    if "--check" in sys.argv:
        return 0 if known == text else 1
    FILE.write_text(f"{before}{BEGIN}{text}{END}{after}", "utf-8")
    return 0


def code(machine: str) -> bytes:
    """Return the instructions of a machine's program, with its data."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "gate.o"
        command = [*ASSEMBLERS[machine], "-o", str(made), str(LIB / f"gate_{machine}.s")]
        subprocess.run(command, check=True)
        return section(made.read_bytes(), b".text")


def section(object_file: bytes, name: bytes) -> bytes:
    """Return a section of an object file (ELF, 64 bits, little-endian)."""
    (at,) = struct.unpack_from("<Q", object_file, 40)
    size, count, of_names = struct.unpack_from("<HHH", object_file, 58)
    headers = [struct.unpack_from("<IIQQQQ", object_file, at + number * size) for number in range(count)]
    names = headers[of_names][4]
    for header in headers:
        if object_file[names + header[0] :].startswith(name + b"\0"):
            return object_file[header[4] : header[4] + header[5]]
    raise ValueError(f"there is no section {name.decode()}")


if __name__ == "__main__":
    sys.exit(main())
