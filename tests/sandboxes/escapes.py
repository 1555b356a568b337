"""Ways out of a sandbox that were tried, each as a program that runs inside: it says ESCAPED where it got out.

What a program is told stands in its environment, by the names in `Outside`. `controlled` programs say ESCAPED when they
run outside: so their silence inside means something.
"""

# ruff: noqa: E501
# The programs are text.

from collections.abc import Mapping
from dataclasses import asdict, dataclass

PREAMBLE = """
import ctypes, errno, os, socket, struct, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
E = os.environ

def escaped(what):
    print("ESCAPED:", what)

def call(number, *args):
    ctypes.set_errno(0)
    return libc.syscall(ctypes.c_long(number), *[a if isinstance(a, ctypes._SimpleCData) or not isinstance(a, int) else ctypes.c_long(a) for a in args])

def tried(what, act):
    try:
        got = act()
    except Exception as no:
        print("refused:", what, repr(no)[:200])
    else:
        escaped(what + " " + repr(got)[:200])

def refused(what, result):
    if result >= 0:
        escaped(what)
    else:
        print("refused:", what, os.strerror(ctypes.get_errno()))

def reach(family, address, kind=socket.SOCK_STREAM):
    s = socket.socket(family, kind)
    s.settimeout(2)
    s.connect(address)
    if kind == socket.SOCK_DGRAM:
        s.send(b"x")
"""
END = "\nprint('tried all')\n"


@dataclass(frozen=True)
class Outside:
    """What stands outside and must not be reached."""

    secret: str
    other_drive: str
    other_socket: str
    supervisor: str
    marker: str
    abstract: str
    port: str

    def env(self) -> Mapping[str, str]:
        return {name.upper(): value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Escape:
    name: str
    program: str
    controlled: bool = False


ESCAPES = (
    Escape("reads_a_file_of_the_host", "tried('secret', lambda: open(E['SECRET']).read())", controlled=True),
    Escape(
        "reads_what_the_kernel_says_of_the_whole_machine",
        """
for path in ("/proc/keys", "/proc/key-users", "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats"):
    if os.path.exists(path) and open(path, "rb").read(1):
        escaped(path)
""",
    ),
    Escape(
        "reads_what_only_the_host_has",
        """
for path in ("/etc/shadow", "/etc/sudoers", "/etc/ssh", "/root/.ssh", "/root/.bashrc", "/home", "/var/lib", "/var/log",
             "/sys/kernel", "/sys/fs/cgroup", "/boot", "/run/systemd", "/run/docker.sock", "/var/run/docker.sock",
             E["SECRET"], os.path.dirname(E["SUPERVISOR"])):
    tried(path, lambda: os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(10))
""",
    ),
    Escape(
        "reads_another_sessions_drive",
        "tried('drive', lambda: os.listdir(E['OTHER_DRIVE']))",
        controlled=True,
    ),
    Escape(
        "speaks_to_another_sessions_gateway",
        "tried('gateway', lambda: reach(socket.AF_UNIX, E['OTHER_SOCKET']))",
        controlled=True,
    ),
    Escape(
        "speaks_to_another_sessions_supervisor",
        "tried('supervisor', lambda: reach(socket.AF_UNIX, E['SUPERVISOR']))",
        controlled=True,
    ),
    Escape(
        "speaks_to_an_abstract_socket_of_the_host",
        "tried('abstract', lambda: reach(socket.AF_UNIX, chr(0) + E['ABSTRACT']))",
        controlled=True,
    ),
    Escape(
        "reaches_a_port_of_the_host",
        "tried('port', lambda: reach(socket.AF_INET, ('127.0.0.1', int(E['PORT']))))",
        controlled=True,
    ),
    Escape(
        "sees_a_process_of_the_host",
        """
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        line = open(f"/proc/{pid}/cmdline").read()
    except OSError:
        continue
    if E["MARKER"] in line and str(os.getpid()) != pid:
        escaped(line)
""",
        controlled=True,
    ),
    Escape(
        "reaches_the_metadata_of_a_cloud_or_the_internet",
        """
for host, port in (("169.254.169.254", 80), ("100.100.100.200", 80), ("192.168.0.1", 80), ("1.1.1.1", 443)):
    tried(host, lambda: reach(socket.AF_INET, (host, port)))
    tried("datagram to " + host, lambda: reach(socket.AF_INET, (host, 53), socket.SOCK_DGRAM))
tried("IPv6", lambda: reach(socket.AF_INET6, ("fd00:ec2::254", 80)))
tried("names", lambda: socket.getaddrinfo("example.com", 80))
""",
    ),
    Escape(
        "opens_other_kinds_of_sockets",
        """
tried("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
for family, name in ((17, "packet"), (40, "vsock"), (38, "alg"), (15, "key"), (31, "bluetooth"), (44, "xdp"), (29, "can")):
    tried(name, lambda: socket.socket(family, socket.SOCK_STREAM if family != 38 else socket.SOCK_SEQPACKET))
""",
    ),
    Escape(
        "becomes_another_user",
        """
for name in ("setuid", "setgid"):
    tried(name, lambda: getattr(os, name)(0))
tried("setgroups", lambda: os.setgroups([0]))
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    if int(status[name], 16):
        escaped(name + status[name])
if status["NoNewPrivs"].strip() != "1" or status["Seccomp"].strip() != "2":
    escaped("no new privileges: " + status["NoNewPrivs"] + status["Seccomp"])
for mount in open("/proc/self/mounts"):
    device, at, kind, options = mount.split()[:4]
    if "nosuid" not in options.split(",") and kind not in ("proc", "devpts"):
        escaped("setuid at " + mount)
""",
    ),
    Escape(
        "makes_namespaces_of_its_own",
        """
for flag in (0x10000000, 0x00020000, 0x20000000, 0x40000000, 0x08000000, 0x04000000, 0x02000000, 0x00000080):
    ctypes.set_errno(0)
    refused("unshare %x" % flag, libc.unshare(flag))
tried("unshare -Ur", lambda: subprocess.run(["unshare", "-Ur", "true"], check=True, capture_output=True))
ctypes.set_errno(0)
refused("setns", libc.setns(os.open("/proc/self/ns/net", os.O_RDONLY), 0))
pid = call(435, ctypes.create_string_buffer(struct.pack("=Q", 0x10000000) + bytes(56) + struct.pack("=QQQ", 0, 0, 0)), 88)
if pid == 0:
    os._exit(0)
refused("clone3", pid)
if os.uname().machine == "x86_64":
    pid = call(56, 0x10000000 | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    refused("clone", pid)
""",
    ),
    Escape(
        "looks_through_the_supervisor",
        """
for what in ("root", "cwd", "fd", "environ", "mem", "maps", "exe", "map_files"):
    path = "/proc/1/" + what
    tried(path, lambda: os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(10))
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1]) == 1:
        tried("keeper " + pid, lambda: open(f"/proc/{pid}/mem", "rb"))
        tried("keeper " + pid, lambda: os.listdir(f"/proc/{pid}/fd"))
""",
    ),
    Escape(
        "traces_the_supervisor",
        """
refused("attach", libc.ptrace(16, 1, 0, 0))
refused("seize", libc.ptrace(0x4206, 1, 0, 0))
buffer = ctypes.create_string_buffer(8)
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
here, there = Vector(ctypes.addressof(buffer), 8), Vector(0x400000, 8)
refused("read", libc.process_vm_readv(1, ctypes.byref(here), 1, ctypes.byref(there), 1, 0))
fd = os.pidfd_open(1)
for number in range(0, 16):
    refused("take a descriptor", call(438, fd, number, 0))
""",
    ),
    Escape(
        "kills_the_supervisor",
        """
for number in (9, 19, 15, 2, 1, 11):
    os.kill(1, number)
if open("/proc/1/stat").read().rpartition(")")[2].split()[0] in "TZX":
    escaped("the supervisor has stopped")
print("refused: it lives")
""",
    ),
    Escape(
        "makes_and_opens_devices",
        """
import stat
for kind, numbers in ((stat.S_IFBLK, (254, 0)), (stat.S_IFBLK, (8, 0)), (stat.S_IFCHR, (1, 1))):
    tried("mknod", lambda: os.mknod("/tmp/node%d" % numbers[0], kind | 0o666, os.makedev(*numbers)))
for path in ("/dev/mem", "/dev/kmsg", "/dev/vda", "/dev/sda", "/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/vsock", "/proc/kcore",
             "/dev/uinput", "/dev/vhost-vsock"):
    tried(path, lambda: open(path, "rb"))
known = {"core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"}
if set(os.listdir("/dev")) - known:
    escaped(str(set(os.listdir("/dev")) - known))
""",
    ),
    Escape(
        "uses_the_kernels_keyring",
        """
number = {"x86_64": (248, 249, 250), "aarch64": (217, 218, 219)}[os.uname().machine]
refused("add_key", call(number[0], b"user", b"name", b"secret", 6, -3))
refused("request_key", call(number[1], b"user", b"name", None, -3))
refused("keyctl", call(number[2], 0, -3, 0))
""",
    ),
    Escape(
        "uses_calls_that_have_led_out",
        """
x86 = {"bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "kexec_load": 246, "init_module": 175, "finit_module": 313,
       "delete_module": 176, "open_by_handle_at": 304, "name_to_handle_at": 303, "mount": 165, "umount2": 166, "pivot_root": 155,
       "chroot": 161, "swapon": 167, "reboot": 169, "syslog": 103, "acct": 163, "settimeofday": 164, "clock_settime": 227,
       "iopl": 172, "ioperm": 173, "quotactl": 179, "kcmp": 312, "fanotify_init": 300}
arm = {"bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "kexec_load": 104, "init_module": 105, "finit_module": 273,
       "delete_module": 106, "open_by_handle_at": 265, "name_to_handle_at": 264, "mount": 40, "umount2": 39, "pivot_root": 41,
       "chroot": 51, "swapon": 224, "reboot": 142, "syslog": 116, "acct": 89, "settimeofday": 170, "clock_settime": 112,
       "quotactl": 60, "kcmp": 272, "fanotify_init": 262}
both = {"io_uring_setup": 425, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsmount": 432, "mount_setattr": 442}
for name, number in {**(x86 if os.uname().machine == "x86_64" else arm), **both}.items():
    result = call(number, 0, 0, 0, 0, 0)
    if result >= 0 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
        escaped(name + " " + os.strerror(ctypes.get_errno()))
    print("refused:", name)
""",
    ),
    Escape(
        "uses_the_calls_of_a_32_bit_machine",
        """
if os.uname().machine == "x86_64":
    import mmap
    code = mmap.mmap(-1, 4096, prot=7)
    code.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))  # getpid by int 0x80
    at = ctypes.addressof(ctypes.c_char.from_buffer(code))
    result = ctypes.CFUNCTYPE(ctypes.c_int)(at)()
    if result >= 0:
        escaped("int 0x80: %d" % result)
    result = call(0x40000000 | 39)
    if result >= 0:
        escaped("x32: %d" % result)
print("refused")
""",
    ),
    Escape(
        "types_into_a_terminal",
        """
import fcntl, pty, termios
tried("the controlling one", lambda: os.open("/dev/tty", os.O_RDWR))
pid, fd = pty.fork()
if pid == 0:
    try:
        fcntl.ioctl(0, termios.TIOCSTI, b"x")
    except OSError as no:
        os._exit(0 if no.errno == errno.EPERM else 2)
    os._exit(1)
if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
    escaped("TIOCSTI")
tried("TIOCLINUX", lambda: fcntl.ioctl(fd, 0x541C, b"x"))
""",
    ),
    Escape(
        "changes_the_machine",
        """
for path in ("/usr/x", "/x", "/etc/passwd", "/etc/x", "/dev/x", "/bin/x", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger",
             "/proc/sys/kernel/hostname", "/proc/1/oom_score_adj", "/run/x", "/run/outlast/inside/__main__.py"):
    tried(path, lambda: open(path, "w").write("x"))
tried("remount", lambda: subprocess.run(["mount", "-o", "remount,rw", "/usr"], check=True, capture_output=True))
tried("hostname", lambda: socket.sethostname("x"))
tried("nice", lambda: os.nice(-5))
""",
    ),
    Escape(
        "inherits_what_is_the_workers",
        """
print("descriptors", os.listdir("/proc/self/fd"))
for name in os.listdir("/proc/self/fd"):
    if int(name) > 2:
        at = os.path.exists("/proc/self/fd/" + name) and os.readlink("/proc/self/fd/" + name)
        if at and not at.startswith("/proc/"):
            escaped(at)
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        text = open(f"/proc/{pid}/environ").read()
    except OSError:
        continue
    if "OUTLAST_TEST_SECRET" in text:
        escaped(text)
""",
    ),
    Escape(
        "fills_the_disk_or_the_memory_of_the_host",
        """
def fill(path):
    with open(path, "wb", buffering=0) as file:
        for _ in range(200):
            file.write(bytes(1 << 20))
for directory in ("/tmp", "/dev/shm", "/var/tmp", "/run/outlast", os.getcwd()):
    path = directory + "/filled"
    tried(directory, lambda: fill(path))
    os.unlink(path)
""",
    ),
)
"""With file systems in memory of at most 64 MB each (`grounds`)."""


def text_of(escape: Escape) -> str:
    return PREAMBLE + escape.program + END
