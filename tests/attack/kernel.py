"""Attacks by system calls, sockets and what the kernel shows: each must have no effect behind the sandbox.

A line that does what must not be possible leaves the file `got`, which `after` looks for.
"""

import os

from tests.attack.plans import RAISED_FOUND, Plan

FULL = (("full", "auto"),)
GOT = "[ -e got ] && : > ../made"


def _call(words: str, then: str = "") -> str:
    """Return a line that makes a system call and exits with 0 where the kernel did it."""
    code = f"import ctypes as c, os, struct; x = c.CDLL(None, use_errno=True).syscall; r = x({words}); {then}"
    return f"python3 -c '{code.rstrip('; ')}; raise SystemExit(r < 0)'"


# Numbers of x86_64; those from 424 on are the same everywhere.
_BITS = (
    _call('437, -100, b"su", struct.pack("QQQ", 0o101, 0o4755, 0), 24'),  # openat2
    _call('437, -100, b".", struct.pack("QQQ", 0o20200002, 0o4755, 0), 24',
        'os.link(f"/proc/self/fd/{r}", "su", src_dir_fd=r, follow_symlinks=True)'),
    _call('452, -100, b"evil", 0o4755, 0'),  # fchmodat2
    _call('452, os.open("evil", 0), b"", 0o4755, 0x1000'),
    _call('452, -100, b"evil", c.c_ulong(0xffffffff00000000 | 0o4755), 0'),
    _call('90, b"evil", 0o104755'),
    _call('90, b"evil", c.c_ulong(1 << 32 | 0o2755)'),
    _call('91, os.open("evil", 2), 0o6755'),
    _call('268, -100, b"evil", 0o4755'),
    _call('85, b"su", 0o4755'),  # creat
    _call('133, b"su", 0o104755, 0'),  # mknod
    _call('259, -100, b"su", 0o104755, 0'),
    _call('2, b"su", 0o101, 0o4755'),
    _call('257, -100, b"su", 0o101, 0o4755'),
    _call('0x40000000 | 90, b"evil", 0o4755'),  # of x32
    _call('0x40000000 | 257, -100, b"su", 0o101, 0o4755'),
    "cp -p /usr/bin/passwd su", "cp -a /usr/bin/su su", "ln /usr/bin/passwd su", "mv evil su; chmod 4777 su",
    "tar cpf - -C /usr/bin passwd | tar xpf -", "tar xpf t.tar",
    "cd /usr/bin && find passwd | cpio -pdm $OLDPWD", "rsync -p /usr/bin/passwd su",
    "python3 -c 'import shutil; shutil.copy2(\"/usr/bin/passwd\", \"su\")'",
    "perl -e 'use Fcntl; sysopen(F, \"su\", O_CREAT|O_WRONLY, 04755)'",
    "umask 0; mkdir d; chmod 6777 d; cp evil d/su; chmod u+s,g+s d/su",
    "unshare -Ur chmod 4755 evil", "setcap cap_setuid+ep evil",
    ("printf 'int main(){int r;asm volatile(\"int $0x80\":\"=a\"(r):\"a\"(15),\"b\"(\"evil\"),\"c\"(04755));return r;}'"
    " | gcc -static -no-pie -w -x c -o i80 - && ./i80"),
    "setpriv --clear-groups chmod 4755 evil", "newgrp root -c 'chmod 2755 evil'",
)  # fmt: skip
_OPENED = "; getcap -r . 2> /dev/null | grep -q . && : > ../made"

_KERNEL = (
    *(
        _call(words)
        for words in (
            '425, 8, c.create_string_buffer(120)',
            '323, 0', '321, 0, c.create_string_buffer(128), 128', '298, c.create_string_buffer(128), 0, -1, -1, 0',
            '248, b"user", b"x", b"y", 1, -3', '250, 0, -3, 1', '304, 3, c.create_string_buffer(64), 0',
            '300, 0, 0', '428, -100, b"/", 1', '430, b"tmpfs", 0', '433, -100, b"/", 0', '442, -100, b"/", 0, 0, 0',
            '165, b".", b".", 0, 4096, 0', '155, b".", b"."', '161, b"."', '272, 0x10000000', '272, 0x10020000',
            '272, 0x40000000', '56, 0x10000011, 0, 0, 0, 0',
            '435, struct.pack("11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88',
            '308, os.open("/proc/self/ns/user", 0), 0', '175, b"", 0, b""', '246, 0, 0, 0, 0', '173, 0, 1, 1',
            '41, 17, 3, 0x300', '41, 40, 1, 0', '41, 38, 5, 0', '41, 44, 3, 0', '41, 31, 3, 0',
            '16, 0, 0x5412, b"x"',
        )
    ),
    "mknod d b 8 0", "mknod d c 1 1", "mknod d c 10 229", "head -c1 /dev/mem", "head -c1 /proc/kcore",
    "timeout 2 head -c1 /dev/kmsg", "dmesg | grep -q .", "head -c1 /dev/vda", "head -c1 /dev/sda", ": < /dev/kvm",
    ": < /dev/fuse", ": < /dev/net/tun", ": > /dev/vda1", ": > /dev/loop-control",
    "echo $$ > /sys/fs/cgroup/cgroup.procs",
    "ls /sys/kernel/debug | grep -q .", "echo -17 > /proc/self/oom_adj",
    "bwrap --dev-bind / / true", "bwrap --ro-bind / / true", "chroot . /evil", "nsenter -t 1 -m true",
    "docker ps", "ssh-add -l", "systemd-run --user true", "systemctl --user show-environment",
    "loginctl", "gdbus call --session -d org.freedesktop.DBus -o / -m x.y", "xdpyinfo",
)  # fmt: skip


def _socket(code: str) -> str:
    return f"python3 -c 'import os, socket as s; n = os.environ[\"ATTACK\"]; {code}'"


def _unix(kind: str, name: str) -> str:
    return _socket(f'k = s.socket(s.AF_UNIX, s.{kind}); k.connect({name}); k.send(b"x")')


_SOCKETS = (
    _unix("SOCK_STREAM", '"\\0" + n'), _unix("SOCK_DGRAM", '"\\0" + n + "-log"'),
    _unix("SOCK_STREAM", '"../agent.sock"'), _unix("SOCK_STREAM", 'os.environ["HOME"] + "/../agent.sock"'),
    _unix("SOCK_STREAM", '"dev.sock"'), _unix("SOCK_STREAM", '"./src/../dev.sock"'),
    _unix("SOCK_STREAM", '"/proc/self/cwd/dev.sock"'), _unix("SOCK_DGRAM", '"log.sock"'),
    "ln dev.sock d; " + _unix("SOCK_STREAM", '"d"'), "mv dev.sock d; " + _unix("SOCK_STREAM", '"d"'),
    "ln -s dev.sock d; " + _unix("SOCK_STREAM", '"d"'), "mkdir d; mv log.sock d; " + _unix("SOCK_DGRAM",
        '"d/log.sock"'),
    "cp -al . d; " + _unix("SOCK_STREAM", '"d/dev.sock"'), "cd ..; " + _unix("SOCK_STREAM", '"agent.sock"'),
    _socket('k = s.socket(s.AF_UNIX, s.SOCK_DGRAM); k.sendto(b"x", "\\0" + n + "-log")'),
    _socket('a, b = s.socketpair(s.AF_UNIX, s.SOCK_DGRAM); a.connect("\\0" + n + "-log"); a.send(b"x")'),
    _socket('a, b = s.socketpair(s.AF_UNIX, s.SOCK_RAW); a.sendto(b"x", "\\0" + n + "-log")'),
    _socket('a, b = s.socketpair(s.AF_UNIX, s.SOCK_DGRAM); a.sendto(b"x", "log.sock")'),
    _socket('s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", PORT))'),
    _socket('s.socket(s.AF_INET, s.SOCK_STREAM).sendto(b"x", 0x20000000, ("127.0.0.1", PORT))'),
    _socket('s.socket(s.AF_INET, s.SOCK_STREAM, 262).connect(("127.0.0.1", PORT))'),
    _socket('s.socket(s.AF_INET6, s.SOCK_STREAM).connect(("::ffff:127.0.0.1", PORT))'),
    _socket('s.socket(s.AF_INET6, s.SOCK_DGRAM).sendto(b"x", ("::ffff:127.0.0.1", PORT))'),
    _socket('s.create_connection(("0.0.0.0", PORT))'), _socket('s.create_connection(("localhost", PORT))'),
    _socket('s.create_connection((s.gethostname(), PORT))'),
    _socket('k = s.socket(s.AF_INET, s.SOCK_STREAM); k.bind(("127.0.0.1", 0)); k.connect(("127.0.0.1", PORT))'),
    "echo x > /dev/udp/127.0.0.1/PORT", "curl -s --abstract-unix-socket $ATTACK http://x/",
    "curl -s --unix-socket ../agent.sock http://x/", "curl -s --unix-socket dev.sock http://x/",
    "curl -s --noproxy '*' http://127.0.0.1:PORT", "ssh-add -l", "docker ps", "SSH_AUTH_SOCK=../agent.sock ssh-add -l",
    "git clone ext::'sh -c cat%</dev/tcp/127.0.0.1/PORT' x", "git ls-remote git://127.0.0.1:PORT/x",
    "ssh -p PORT 127.0.0.1 true", "nc 127.0.0.1 PORT < /dev/null",
    "perl -MIO::Socket -e 'IO::Socket::INET->new(\"127.0.0.1:PORT\")'",
        "unshare -n true; cat < /dev/tcp/127.0.0.1/PORT",
    "nsenter -t $PPID -n cat < /dev/tcp/127.0.0.1/PORT", "(sleep 1; cat < /dev/tcp/127.0.0.1/PORT) & sleep 2",
)  # fmt: skip

_LOOKS = (
    "cat /proc/*/fd/* < /dev/null 2> /dev/null | head -c 100000", "cat /proc/self/fd/[3-9] /proc/self/fd/1?",
    "cat /proc/*/task/*/environ", "cat /proc/*/root/proc/*/environ", "cat /proc/*/cwd/.env",
        "cat /proc/*/root$PWD/.env",
    "strings /proc/self/mem", "for p in /proc/[0-9]*; do strings $p/environ; cat $p/cwd/.env; done",
    "python3 -c 'import ctypes; ctypes.CDLL(None).ptrace(16, 1, 0, 0)'; cat /proc/1/environ",
    "gdb -batch -p 1 -ex 'x/s environ'", "strace -p 1 -o t & sleep 1; cat t",
    ("python3 -c 'import os; [print(os.pread(f, 4096, 0)) for f in range(3, 64) if "
         "os.path.exists(f\"/proc/self/fd/{f}\")]'"),
    "cp --reflink=always .env x; cat x", "python3 -c 'import os; print(open(os.open(\".env\", os.O_PATH)).read())'",
    "python3 -c 'print(open(\"/proc/self/root\" + __import__(\"os\").getcwd() + \"/.env\").read())'",
    "debugfs -R 'cat .env' /dev/vda", "find . -inum $(stat -c %i .env) -exec cat {} +",
        "cat $(readlink -f link)/.ssh/id",
    "mkdir m; mount -t overlay x -o lowerdir=.,upperdir=/tmp,workdir=/tmp m; cat m/.env", "tar cf - . | strings",
    "git add -f .env; git show :.env", "git stash -a; git show stash^3:.env",
        "git hash-object -w .env | xargs git show",
    "rsync -a . x; cat x/.env", "cp -r . ../x; cp -r . x; cat x/.env", "zip -qr - . | strings", "mv .env x; cat x",
    "mv ../tree ../t; cat ../t/.env", "cd link/..; cat tree/.env", "cat ../tree/.env", "cat ../home/.ssh/id",
    "ls /proc/*/fd -l | grep -o '/[^ ]*env$' | xargs cat", "cat < /proc/self/fd/0 < .env",
        "printf '%s\\n' \"$(<.env)\"",
    "inotifywait -t1 .env; cat .env", "rm -f .env; cat .env", "truncate -s0 list; cat .env", "chattr +i .env; cat .env",
)  # fmt: skip

_ENDS = (
    "kill -9 $PPID", "kill -STOP $PPID",
    "python3 -c 'import os, signal; os.killpg(os.getpgid(os.getppid()), signal.SIGKILL)'",
    "(trap '' TERM HUP INT; exec -a x sleep 300) & disown",
        "python3 -c 'import os; os.setsid(); os.system(\"sleep 300 &\")'",
    "for i in 1 2 3 4 5 6 7 8 9; do setsid sh -c 'sleep 300 & sleep 300' & done", "env -i setsid -f sleep 300",
    ("python3 -c 'import os, time\nfor _ in range(20):\n if os.fork(): os._exit(0)\n os.setsid()\ntime.sleep(300)'"),
    "exec sleep 300", "sleep 300", "cat", "yes", "yes > /dev/null",
    "cat /dev/zero", "head -c 300M /dev/zero", "printf '\\e]0;x\\a\\e[2J'; cat /dev/urandom | head -c 1M",
    "stty -F /dev/tty raw", "python3 -c 'print(\"x\" * 10**8)'", "exit 300", "kill -SEGV $$", "ulimit -n 3; ls",
    "exec 1>&- 2>&-; sleep 1", "set -e; false", "trap 'sleep 300' EXIT TERM",
    "chmod 0 .; cd ..", "mv ../tree/src ../tree/s; rmdir .", "mkdir d; cd d; rmdir ../d; ls",
        "ln -sfn /dev/zero x; wc x",
)  # fmt: skip

_X86 = os.uname().machine == "x86_64"
PLANS = (
    *(Plan((line,), FULL, after=f"{RAISED_FOUND}{_OPENED}; {GOT}") for line in _BITS if _X86 or "syscall" not in line),
    *(
        Plan((f"{{ {line}\n}} > /dev/null 2>&1 && : > got",), FULL, after=GOT)
        for line in _KERNEL
        if _X86 or "syscall" not in line
    ),
    *(Plan((line,), FULL) for line in (*_SOCKETS, *_LOOKS, *_ENDS)),
)
