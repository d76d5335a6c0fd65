"""List of what a run left out, once at its end, with the command that brings it."""

from collections import Counter
from collections.abc import Iterable, Iterator

from scripts.system_packages import PROGRAMS

PACKAGES = {
    **PROGRAMS,
    "curl": "curl",
    "ip": "iproute2",
    "go": "golang-go",
    "chromium": "chromium",
    "clangd": "clangd",
    "assemblers": f"{PROGRAMS['as']} {PROGRAMS['aarch64-linux-gnu-as']}",
}
"""Packages of Debian, by the name of what tests need: those that are installed before a run, and others."""


def list_left_out(reasons: Iterable[str], cases: int = 0) -> Iterator[str]:
    """Yield lines about tests that were skipped for these reasons, and cases that a quick run has not taken."""
    counted = Counter(reasons)
    needed = {each.removeprefix("needs "): counted[each] for each in sorted(counted) if each.startswith("needs ")}
    brought = {name: number for name, number in needed.items() if name in PACKAGES}
    lacked = {name: number for name, number in needed.items() if name not in PACKAGES}
    if brought:
        yield f"  need {_enumerate(brought)}: apt-get install {' '.join(PACKAGES[name] for name in brought)}"
    if lacked:
        yield f"  need {_enumerate(lacked)}: not to be had on this machine as it is"
    yield from (f"  {reason} ({counted[reason]})" for reason in sorted(counted) if not reason.startswith("needs "))
    if cases:
        yield f"  cases of tests with many; make test-all runs them ({cases})"


def _enumerate(counted: dict[str, int]) -> str:
    return ", ".join(f"{name} ({number})" for name, number in counted.items())
