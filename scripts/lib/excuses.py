"""Which skipped tests this host excuses: a reason given by a test, and proof that the host lacks the named feature.

A skip whose reason matches no entry, or whose entry finds the facility present, counts as a failure.
"""

import ctypes
import errno
import mmap
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile

LIBC = ctypes.CDLL(None, use_errno=True)


def lacks_syscall(number, *arguments):
    """True if the kernel does not know the call, or an administrator switched it off for everybody."""
    ctypes.set_errno(0)
    result = LIBC.syscall(number, *arguments)
    if result >= 0:
        return False
    return ctypes.get_errno() == 38 or (os.geteuid() == 0 and ctypes.get_errno() == 1)


def lacks_socket_family(family):
    try:
        socket.socket(family, socket.SOCK_STREAM).close()
    except OSError as error:
        return error.errno == 97
    return False


def lacks_user_namespaces():
    command = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
    if os.geteuid() == 0:
        command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] + command
    return subprocess.run(command, capture_output=True).returncode != 0


def lacks_cgroups():
    """No hierarchy in which this user could make a group."""
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        return not os.access("/sys/fs/cgroup", os.W_OK)
    controllers = ("memory", "pids", "freezer", "unified")
    return not any(os.access(f"/sys/fs/cgroup/{name}", os.W_OK) for name in controllers)


def lacks_user_attributes():
    """The file system of temporary folders keeps none for their owners."""
    with tempfile.NamedTemporaryFile() as file:
        try:
            os.setxattr(file.name, "user.atoll", b"x")
        except OSError as error:
            return error.errno in (errno.ENOTSUP, errno.EPERM)
    return False


def lacks_cgroup1_freezer():
    return not os.access("/sys/fs/cgroup/freezer/cgroup.procs", os.W_OK)


def lacks_cgroup2_controllers():
    """No v2 hierarchy with a controller of memory in which this user could make a group."""
    with open("/proc/self/mountinfo") as mounts:
        fields = [line.split(" - ") for line in mounts]
    for folder in (left.split()[4] for left, right in fields if right.startswith("cgroup2 ")):
        with open(folder + "/cgroup.controllers") as controllers:
            if "memory" in controllers.read().split() and os.access(folder, os.W_OK):
                return False
    return True


def lacks_pipes_that_do_not_wait():
    """RWF_NOWAIT of preadv2(2) for pipes: kernels before 6.4 know it for files alone."""
    reader, writer = os.pipe()
    try:
        os.pwritev(writer, [b"x"], -1, os.RWF_NOWAIT)
        return False
    except OSError as error:
        return error.errno == errno.EOPNOTSUPP
    finally:
        os.close(reader)
        os.close(writer)


def lacks_project_quotas():
    """Temporary folders are on a file system without them, or this user may not set them."""
    folder, options = os.path.realpath(tempfile.gettempdir()), ""
    with open("/proc/self/mountinfo") as mounts:
        for line in mounts:
            left, right = line.split(" - ")
            at = left.split()[4]
            if folder == at or folder.startswith(at.rstrip("/") + "/"):
                options = right.split()[2]
    return os.geteuid() != 0 or not re.search(r"\b(prjquota|pquota)\b", options)


INT80 = b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"  # mov eax, getpid; int 0x80; ret


def call_int80():
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(INT80)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    sys.exit(0 if ctypes.CFUNCTYPE(ctypes.c_int)(address)() == os.getpid() else 1)


def lacks_i386():
    if platform.machine() != "x86_64":
        return True
    return subprocess.run([sys.executable, __file__, "int80"], capture_output=True).returncode != 0


def lacks_x32():
    return platform.machine() != "x86_64" or LIBC.syscall(0x40000000 + 39) < 0


def lacks_named_agent(reason):
    """The agent that the reason names by its folder is not installed."""
    found = re.search(r"there is no agent (/\S+): scripts/setup --agents", reason)
    return found is not None and not os.path.isdir(os.path.join(found[1], "node_modules"))


def lacks_chromium():
    """Ubuntu has it as a snap only, which scripts/setup does not install."""
    with open("/etc/os-release") as release:
        is_ubuntu = re.search(r"^ID=\"?ubuntu\"?$", release.read(), re.M) is not None
    names = ("chromium", "google-chrome", "google-chrome-stable")
    return is_ubuntu and not os.environ.get("ATOLL_CHROMIUM") and not any(shutil.which(name) for name in names)


X86_64 = platform.machine() == "x86_64"
# (text in the reason of the skip, whether the host excuses it)
EXCUSES = (
    (r"\broot\b", lambda build: os.geteuid() != 0),
    (r"user namespaces?|rootless", lambda build: lacks_user_namespaces()),
    (r"cgroup", lambda build: lacks_cgroups()),
    (r"without cgroup v1", lambda build: not os.path.exists("/sys/fs/cgroup/memory/cgroup.procs")),
    (r"freezer of cgroup v1", lambda build: lacks_cgroup1_freezer()),
    (r"accounts no pressure", lambda build: not os.path.exists("/proc/pressure/cpu")),
    (r"cgroup v2 hierarchy here", lambda build: lacks_cgroup2_controllers()),
    (r"this user was told to have a part", lambda build: "ATOLL_TEST_DELEGATED" not in os.environ),
    (r"no extended attributes of users", lambda build: lacks_user_attributes()),
    (r"asked not to wait for a pipe", lambda build: lacks_pipes_that_do_not_wait()),
    (r"project quotas", lambda build: lacks_project_quotas()),
    (r"vsock", lambda build: lacks_socket_family(40)),
    (r"ipv6", lambda build: not os.path.exists("/proc/net/if_inet6")),
    (r"i386|32-bit|int 0x80", lambda build: lacks_i386()),
    (r"\bx32\b", lambda build: lacks_x32()),
    (r"x86", lambda build: not X86_64),
    (r"io_uring", lambda build: lacks_syscall(425, 0, None) if X86_64 else False),
    (r"userfaultfd", lambda build: lacks_syscall(323, -1) if X86_64 else False),
    (r"\bbpf\b", lambda build: lacks_syscall(321, -1, None, 0) if X86_64 else False),
    (r"cachestat", lambda build: lacks_syscall(451, -1, None, None, 0)),
    (r"keyctl", lambda build: lacks_syscall(250, -1) if X86_64 else False),
    (r"TIOCSTI", lambda build: os.path.exists("/proc/sys/dev/tty/legacy_tiocsti")
        and open("/proc/sys/dev/tty/legacy_tiocsti").read().strip() == "0"),
    (r"chromium", lambda build: lacks_chromium()),
    (r"\bpip\b", lambda build: subprocess.run(["/usr/bin/python3", "-c", "import pip"], capture_output=True).returncode != 0),
    (r"\bnpm\b", lambda build: not shutil.which("npm", path="/usr/local/bin:/usr/bin:/bin")),
    (r"saniti[sz]er|\basan\b", lambda build: build == "asan"),
)


def excused(reason, build):
    """True if this host, or the kind of build, explains the skip."""
    return lacks_named_agent(reason) or any(re.search(pattern, reason, re.I) and holds(build) for pattern, holds in EXCUSES)


if __name__ == "__main__" and sys.argv[1:] == ["int80"]:
    call_int80()
