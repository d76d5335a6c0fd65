"""Ways out of a sandbox, tried by a process in it: prints as JSON why each was refused, "" for one that led outside."""

import ctypes
import json
import mmap
import os
import platform
import signal
import socket
import struct
import sys

WAYS = {}
X86 = platform.machine() == "x86_64"
LIBC = ctypes.CDLL(None, use_errno=True)


def way(function):
    WAYS[function.__name__] = function
    return function


def call(number, *arguments):
    result = LIBC.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def read(path):
    with open(path, "rb") as file:
        return file.read()


def in_child(function):
    """What a function that changes the process does, told by the way its process ends."""
    if not (child := os.fork()):
        try:
            function()
        except OSError as error:
            os._exit(error.errno or 1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(abs(code), f"ended with {code}")


def write(path, flags=os.O_WRONLY | os.O_CREAT):
    descriptor = os.open(path, flags, 0o644)
    os.write(descriptor, b"mine")
    os.close(descriptor)


@way
def write_outside(work, out, **_):
    write(f"{out}/new")


@way
def overwrite(out, **_):
    write(f"{out}/overwrite", os.O_WRONLY)


@way
def truncate(out, **_):
    os.truncate(f"{out}/truncate", 0)


@way
def open_to_truncate(out, **_):
    os.close(os.open(f"{out}/open_to_truncate", os.O_RDONLY | os.O_TRUNC))


@way
def rename_out(work, out, **_):
    write(f"{work}/to-go")
    os.rename(f"{work}/to-go", f"{out}/gone")


@way
def rename_in(work, out, **_):
    os.rename(f"{out}/rename_in", f"{work}/taken")


@way
def link_in_and_write(work, out, **_):
    os.link(f"{out}/link_in_and_write", f"{work}/linked")
    write(f"{work}/linked")


@way
def link_out(work, out, **_):
    write(f"{work}/to-link")
    os.link(f"{work}/to-link", f"{out}/linked")


@way
def write_through_a_symlink(work, out, **_):
    os.symlink(f"{out}/write_through_a_symlink", f"{work}/symlink")
    write(f"{work}/symlink", os.O_WRONLY)


@way
def write_by_a_directory(work, out, **_):
    place = os.open(out, os.O_PATH)
    os.close(os.open("by-directory", os.O_WRONLY | os.O_CREAT, dir_fd=place))


@way
def write_by_own_root(out, **_):
    write(f"/proc/self/root{out}/by-root")


@way
def remove(out, **_):
    os.unlink(f"{out}/remove")


@way
def make_directory(out, **_):
    os.mkdir(f"{out}/directory")


@way
def make_symlink(out, **_):
    os.symlink("x", f"{out}/symlink")


@way
def make_fifo(out, **_):
    os.mkfifo(f"{out}/fifo")


@way
def read_a_key(home, **_):
    assert read(f"{home}/.ssh/key")


@way
def read_a_key_by_own_root(home, **_):
    assert read(f"/proc/self/root{home}/.ssh/key")


@way
def read_a_key_by_its_directory(home, **_):
    place = os.open(f"{home}/.ssh", os.O_PATH)
    assert os.read(os.open("key", os.O_RDONLY, dir_fd=place), 1)


@way
def read_a_key_by_a_symlink(work, home, **_):
    os.symlink(f"{home}/.ssh", f"{work}/keys")
    assert read(f"{work}/keys/key")


@way
def read_a_key_by_a_link(work, home, **_):
    os.link(f"{home}/.ssh/key", f"{work}/key")
    assert read(f"{work}/key")


@way
def move_keys_away(work, home, **_):
    os.rename(f"{home}/.ssh/old", f"{work}/old")


@way
def list_keys(home, **_):
    assert os.listdir(f"{home}/.ssh")


@way
def read_a_key_file(home, **_):
    assert read(f"{home}/.netrc")


@way
def connect_tcp(port, **_):
    with socket.create_connection(("127.0.0.1", port), 5):
        pass


@way
def listen_tcp(**_):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))


@way
def send_udp(port, **_):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.sendto(b"x", ("127.0.0.1", port))


@way
def send_udp_6(port, **_):
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as out:
        out.sendto(b"x", ("::1", port))


@way
def ask_netlink(**_):
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()


@way
def connect_path(out, **_):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"{out}/stream")


@way
def connect_abstract(out, **_):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"\0{out}")


@way
def send_by_a_pair(out, **_):
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, two:
        one.sendto(b"x", f"{out}/datagram")


@way
def send_by_a_raw_pair(out, **_):
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)
    with one, two:
        one.sendto(b"x", f"{out}/datagram")


@way
def trace(victim, **_):
    call(101 if X86 else 117, 16, victim, 0, 0)  # PTRACE_ATTACH
    os.waitpid(victim, 0x40000000)
    call(101 if X86 else 117, 17, victim, 0, 0)


@way
def read_memory(victim, **_):
    here = ctypes.create_string_buffer(8)
    with open(f"/proc/{victim}/maps") as maps:
        place = int(maps.readline().split("-")[0], 16)
    to, of = struct.pack("QQ", ctypes.addressof(here), 8), struct.pack("QQ", place, 8)
    to, of = (ctypes.create_string_buffer(block, 16) for block in (to, of))
    call(310 if X86 else 270, victim, ctypes.addressof(to), 1, ctypes.addressof(of), 1, 0)


@way
def open_memory(victim, **_):
    os.close(os.open(f"/proc/{victim}/mem", os.O_RDONLY))


@way
def read_environment(victim, **_):
    assert b"KEY=" in read(f"/proc/{victim}/environ")


@way
def go_by_another_root(victim, out, **_):
    os.listdir(f"/proc/{victim}/root{out}")


@way
def go_by_another_directory(victim, **_):
    os.listdir(f"/proc/{victim}/cwd")


@way
def go_by_its_descriptors(victim, **_):
    os.close(os.open(f"/proc/{victim}/fd/0", os.O_RDONLY | os.O_NONBLOCK))


@way
def take_a_descriptor(victim, **_):
    os.close(call(438, os.pidfd_open(victim), 0, 0))


@way
def limit_another(victim, **_):
    nothing = ctypes.create_string_buffer(16)
    call(302 if X86 else 261, victim, 4, ctypes.addressof(nothing), 0)


@way
def enter_its_namespaces(victim, **_):
    in_child(lambda: call(308 if X86 else 268, os.pidfd_open(victim), 0x04000000))


@way
def go_by_the_root_of_init(out, **_):
    os.listdir(f"/proc/1/root{out}")


@way
def mount(work, **_):
    os.mkdir(f"{work}/mount")
    if LIBC.mount(b"none", f"{work}/mount".encode(), b"tmpfs", 0, None):
        raise OSError(ctypes.get_errno(), "mount")
    LIBC.umount2(f"{work}/mount".encode(), 2)


@way
def unshare_user(**_):
    in_child(lambda: call(272 if X86 else 97, 0x10000000))


@way
def unshare_files(**_):
    in_child(lambda: call(272 if X86 else 97, 0x00020000))


@way
def clone_user(**_):
    if not (child := call(56 if X86 else 220, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)):
        os._exit(0)
    os.waitpid(child, 0)


@way
def clone3_user(**_):
    block = ctypes.create_string_buffer(struct.pack("11Q", 0x10000000, 0, 0, 0, signal.SIGCHLD, *[0] * 6), 88)
    if not (child := call(435, ctypes.addressof(block), 88)):
        os._exit(0)
    os.waitpid(child, 0)


@way
def change_root(work, **_):
    in_child(lambda: os.chroot(work))


@way
def shared_memory(**_):
    place = call(29 if X86 else 194, 0, 4096, 0o1600)
    call(31 if X86 else 195, place, 0, 0)


@way
def make_keyring(**_):
    call(250 if X86 else 219, 0, -3, 1)


@way
def ring(**_):
    block = ctypes.create_string_buffer(120)
    os.close(call(425, 1, ctypes.addressof(block)))


@way
def make_a_request_key(**_):
    name = ctypes.create_string_buffer(b"user")
    call(248 if X86 else 217, ctypes.addressof(name), ctypes.addressof(name), ctypes.addressof(name), 4, -3)


@way
def reach_the_machine_below(**_):
    socket.socket(40, socket.SOCK_STREAM).close()  # AF_VSOCK


@way
def use_the_kernels_ciphers(**_):
    socket.socket(38, socket.SOCK_SEQPACKET).close()  # AF_ALG


@way
def load_a_program(**_):
    block = ctypes.create_string_buffer(struct.pack("5I", 2, 4, 8, 1, 0), 128)  # an array of one element
    os.close(call(321 if X86 else 280, 0, ctypes.addressof(block), 128))


@way
def count_events(**_):
    block = ctypes.create_string_buffer(struct.pack("IIQQQQQ", 1, 64, 0, 0, 0, 0, 0x61), 64)  # of software, user's
    os.close(call(298 if X86 else 241, ctypes.addressof(block), 0, -1, -1, 0))


@way
def handle_page_faults(**_):
    os.close(call(323 if X86 else 282, 1))  # UFFD_USER_MODE_ONLY


@way
def write_to_a_terminal(terminal, **_):
    write(terminal, os.O_WRONLY | os.O_NOCTTY)


@way
def read_a_terminal(terminal, **_):
    os.close(os.open(terminal, os.O_RDONLY | os.O_NOCTTY))


@way
def type_into_a_terminal(typed, **_):
    letter = ctypes.create_string_buffer(b"x")
    call(16 if X86 else 29, typed, 0x5412, ctypes.addressof(letter))


@way
def type_with_other_bits(typed, **_):
    letter = ctypes.create_string_buffer(b"x")
    call(16 if X86 else 29, typed, 0x7_0000_5412, ctypes.addressof(letter))


@way
def read_the_kernels_log(**_):
    os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))


@way
def write_a_setting(**_):
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))


@way
def call_as_32_bits(**_):
    def calls():
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # getpid
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        if ctypes.CFUNCTYPE(ctypes.c_int)(address)() != os.getpid():
            raise OSError(38, "no such call")

    in_child(calls)


@way
def use_a_core_dump(**_):
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))


@way
def signal_another(victim, **_):
    os.kill(victim, 0)


@way
def signal_by_descriptor(victim, **_):
    signal.pidfd_send_signal(os.pidfd_open(victim), 0)


@way
def kill(victim, **_):
    os.kill(victim, signal.SIGKILL)


def made(work, name, set_bits):
    """Whether a file can get a set-ID bit by what `set_bits` does with its path."""
    path = f"{work}/{name}"
    if os.path.lexists(path):
        os.unlink(path)
    set_bits(path)
    assert os.stat(path).st_mode & 0o6000


def existing(work, name, set_bits):
    write(f"{work}/{name}-first")
    os.chmod(f"{work}/{name}-first", 0o755)
    made(work, name, lambda path: (os.rename(f"{work}/{name}-first", path), set_bits(path)))


def text(path):
    return ctypes.addressof(KEPT.setdefault(path, ctypes.create_string_buffer(path.encode())))


KEPT = {}


@way
def set_id_by_chmod(work, **_):
    existing(work, "chmod", lambda path: os.chmod(path, 0o4755))


@way
def set_group_id_by_chmod(work, **_):
    existing(work, "chmod-group", lambda path: os.chmod(path, 0o2755))


@way
def set_id_by_the_oldest_chmod(work, **_):
    existing(work, "chmod-call", lambda path: call(90 if X86 else 52, *((text(path),) if X86 else (0,)), 0o4755))


@way
def set_id_by_a_wide_mode(work, **_):
    existing(work, "wide", lambda path: call(268 if X86 else 53, -100, text(path), 0x7_0001_0000 | 0o4755))


@way
def set_id_by_fchmod(work, **_):
    def change(path):
        descriptor = os.open(path, os.O_RDONLY)
        os.fchmod(descriptor, 0o6755)
        os.close(descriptor)

    existing(work, "fchmod", change)


@way
def set_id_by_fchmodat2(work, **_):
    existing(work, "fchmodat2", lambda path: call(452, -100, text(path), 0o4755, 0))


@way
def set_id_by_open(work, **_):
    made(work, "open", lambda path: os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o4755)))


@way
def set_id_by_the_oldest_open(work, **_):
    made(work, "open-call", lambda path: call(2 if X86 else 1000, text(path), os.O_WRONLY | os.O_CREAT, 0o4755))


@way
def set_id_by_creat(work, **_):
    made(work, "creat", lambda path: call(85 if X86 else 1000, text(path), 0o4755))


@way
def set_id_by_openat2(work, **_):
    how = ctypes.create_string_buffer(struct.pack("QQQ", os.O_WRONLY | os.O_CREAT, 0o4755, 0))
    made(work, "openat2", lambda path: call(437, -100, text(path), ctypes.addressof(how), 24))


@way
def set_id_by_a_file_without_a_name(work, **_):
    def link(path):
        descriptor = os.open(work, os.O_WRONLY | os.O_TMPFILE, 0o4755)
        call(265 if X86 else 37, -100, text(f"/proc/self/fd/{descriptor}"), -100, text(path), 0x400)

    made(work, "nameless", link)


@way
def set_id_by_mknod(work, **_):
    made(work, "mknod", lambda path: os.mknod(path, 0o104755))


@way
def set_id_by_the_oldest_mknod(work, **_):
    made(work, "mknod-call", lambda path: call(133 if X86 else 1000, text(path), 0o104755, 0))


@way
def set_id_of_a_directory(work, **_):
    def make(path):
        os.mkdir(path, 0o6755)
        assert not os.stat(path).st_mode & 0o6000
        os.chmod(path, 0o2755)

    made(work, f"directory-{os.getpid()}", make)


@way
def give_a_file_capabilities(work, **_):
    write(f"{work}/capable")
    os.setxattr(f"{work}/capable", "security.capability", struct.pack("<IIIII", 0x02000001, 1 << 7, 0, 0, 0))


def main():
    places = json.loads(sys.argv[1])
    results = {}
    for name in sys.argv[2:] or WAYS:
        try:
            WAYS[name](**places)
            results[name] = ""
        except Exception as error:
            results[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(results))


main()
