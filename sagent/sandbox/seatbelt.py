"""The wall of macOS: a profile in the language of sandbox-exec."""

from collections.abc import Iterator, Sequence

from sagent.sandbox.profile import Profile

PROGRAM = "/usr/bin/sandbox-exec"

_BASE = """(version 1)
(allow default)
(deny network*)
(allow network* (local unix-socket))
(deny network-outbound (remote unix-socket (path-regex #"^/(private/)?(tmp|var/run)/")))
(deny file-write*)
(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/dtracehelper") (regex #"^/dev/fd/"))
(deny process-info* (target others))
(deny signal (target others))
(deny system-privilege)
"""


def wrap(argv: Sequence[str], profile: Profile, scratch: str, port: int = 0) -> list[str]:
    """Return the command line that runs another within a profile; `scratch` is writable too. The proxy is at loopback
    `port`; 0 for none."""
    return [PROGRAM, "-p", profile_text(profile, scratch, port), *argv]


def profile_text(profile: Profile, scratch: str, port: int = 0) -> str:
    """Return the profile's text. Of two rules for a path the later one applies."""
    return _BASE + "".join(f"{line}\n" for line in _rules(profile.files_shown(), scratch, port))


def _rules(profile: Profile, scratch: str, port: int) -> Iterator[str]:
    if port:
        yield f'(allow network-outbound (remote ip "localhost:{port}"))'
    yield f"(allow file-write* {_below(scratch)})"
    for path in sorted({*profile.writable, *profile.protected}, key=len):
        yield f"({'allow' if profile.can_write(path) else 'deny'} file-write* {_below(path)})"
    for path in sorted({*profile.hidden, *profile.exposed}, key=len):
        if profile.can_read(path):
            yield f"(allow file-read* {_below(path)})"
        else:
            yield f"(deny file-read* file-write* {_below(path)})"
    yield "(deny file-write-setugid)"


def _below(path: str) -> str:
    quoted = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'(subpath "{quoted}")'
