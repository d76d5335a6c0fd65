"""Names of programs: which of them are one program under another name."""

import re
from fnmatch import fnmatchcase

# GNU's programs, which are called `gsed`, `gcp`, ... where others have these names. Not gzip, which is not zip.
_GNU = frozenset(
    {"awk", "sed", "grep", "egrep", "fgrep", "tar", "find", "xargs", "locate", "make", "m4", "which", "time"}
    | {"getopt", "diff", "cmp", "patch", "arch", "b2sum", "base32", "base64", "basename", "basenc", "cat"}
    | {"chcon", "chgrp", "chmod", "chown", "chroot", "cksum", "comm", "cp", "csplit", "cut", "date", "dd", "df"}
    | {"dir", "dirname", "du", "echo", "env", "expand", "expr", "factor", "false", "fmt", "fold", "groups"}
    | {"head", "hostid", "id", "install", "join", "kill", "link", "ln", "logname", "ls", "md5sum", "mkdir"}
    | {"mkfifo", "mknod", "mktemp", "mv", "nice", "nl", "nohup", "nproc", "numfmt", "od", "paste", "pr"}
    | {"printenv", "printf", "pwd", "readlink", "realpath", "rm", "rmdir", "seq", "sha1sum", "sha224sum"}
    | {"sha256sum", "sha384sum", "sha512sum", "shred", "shuf", "sleep", "sort", "split", "stat", "stdbuf", "stty"}
    | {"sum", "sync", "tac", "tail", "tee", "test", "timeout", "touch", "tr", "true", "truncate", "tsort", "tty"}
    | {"uname", "unexpand", "uniq", "unlink", "uptime", "users", "vdir", "wc", "who", "whoami", "yes"}
)
# Each line is one program, or one family of which each can do what a rule for another is about.
_FAMILIES = """awk mawk nawk original-awk goawk
sed ssed minised
grep egrep fgrep rgrep
tar bsdtar star
vi vim ex view vimdiff rvim rview nvim elvis vim.tiny vim.basic
python pypy ipython
node nodejs
nc netcat ncat nc.openbsd nc.traditional
ssh slogin
sh dash ash
fd fdfind
bat batcat
source .
test [
7z 7za 7zr 7zz
rename prename file-rename
iptables iptables-nft iptables-legacy
chromium chromium-browser google-chrome google-chrome-stable"""
_FIRST = {name: family.split()[0] for family in _FAMILIES.splitlines() for name in family.split()}
_VERSION = re.compile(r"(.*[a-z_+\]])[-.]?([0-9][0-9.]*)(?:-[0-9.]+)?(?:\.exe)?", re.DOTALL)


def usual_name(name: str) -> str:
    """Return the name of a program without the letter that GNU's have on some systems."""
    return name[1:] if name[:1] == "g" and name[1:] in _GNU else name


def names_program(wanted: str, name: str) -> bool:
    """Return whether a deny rule for one program is about another, by a wildcard, a version or a family of programs."""
    wanted, name = wanted.rpartition("/")[2].lower() or wanted, name.lower()
    if fnmatchcase(name, wanted):
        return True
    (bare, version), (other, another) = _parts(wanted), _parts(name)
    fits = fnmatchcase(other, bare) or _FIRST.get(other, other) == _FIRST.get(bare, bare)
    return fits and (not version or not another or another.startswith(version))


def spellings(wanted: str) -> str:
    """Return a regular expression for the names by which a text may name the program of a deny rule."""
    bare, version = _parts(wanted.rpartition("/")[2].lower() or wanted)
    family = [name for name, first in _FIRST.items() if first == _FIRST.get(bare, "")]
    names = "|".join(re.escape(name).replace(r"\*", r"[^\s/]*").replace(r"\?", r"[^\s/]") for name in (bare, *family))
    return rf"(?i:g?(?:{names})(?:[-.]?{re.escape(version)}[0-9.]*)?(?:\.exe)?)"


def _parts(name: str) -> tuple[str, str]:
    """Split a name into the usual one and a version."""
    found = _VERSION.fullmatch(name)
    return (usual_name(found[1]), found[2]) if found else (usual_name(name.removesuffix(".exe")), "")
