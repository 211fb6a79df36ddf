"""What a draw may read: interpreter, packages, the development part, scratch, what is registered.

Where the Linux kernel has Landlock, its allow list of files, it holds draws to this list, through
three system calls. A process that restricts itself, and all that it starts, opens what a rule names
and nothing else, whatever code asks: Python, native libraries, other programs. It cannot take that
back. What is not a way to a file's content (its size, whether it exists) is not restricted.

Elsewhere an audit hook refuses what Python itself is asked to open under the paths that hold the
target, keys or scores; native code and other programs go around it. Which of the two held is part
of every draw's record.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import importlib.util
import os
import stat
import struct
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntFlag
from urllib.parse import unquote, urlsplit

from proxyguard.draw.processes import LINUX, libc, prctl
from proxyguard.errors import DrawError

_CREATE, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_VERSION_FLAG, _PATH_BENEATH, _PR_SET_NO_NEW_PRIVS = 1, 1, 38
# Not in this kernel; switched off at its start; kept from this container.
_ABSENT = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)
_SCOPES = 0b11  # no abstract sockets and no signals to processes outside


class Access(IntFlag):
    """What can be done with files (``LANDLOCK_ACCESS_FS_*``)."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13  # link and rename from one folder to another; since version 2
    TRUNCATE = 1 << 14  # since version 3
    IOCTL_DEV = 1 << 15  # since version 5


_READ = Access.EXECUTE | Access.READ_FILE | Access.READ_DIR
_ALL = Access((1 << 16) - 1)
_ON_A_FILE = (
    Access.EXECUTE | Access.WRITE_FILE | Access.READ_FILE | Access.TRUNCATE | Access.IOCTL_DEV
)


class Use(Enum):
    """What a rule allows with a path and everything beneath it."""

    LIST = Access.READ_DIR
    READ = _READ
    CHANGE = _ALL


@dataclass(frozen=True, slots=True)
class Rule:
    """A path, and what is allowed with it; one that does not exist allows nothing."""

    path: str
    use: Use


def _call(number: int, *arguments: object) -> int:
    """Make a system call; the one function that the kernel is reached through."""
    result: int = libc().syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def version() -> int:
    """Return the version of the kernel's interface, 0 where it has none."""
    if not LINUX:
        return 0
    try:
        return _call(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))
    except OSError as error:
        if error.errno in _ABSENT:
            return 0
        raise


def restrict(rules: Sequence[Rule]) -> None:
    """Allow this process, from here on, what these rules name and nothing else."""
    _restrict(rules, _ALL, scoped=_SCOPES)


def restrict_changes(paths: Sequence[str]) -> None:
    """Allow this process, from here on, to change what is beneath these paths alone.

    Nor may it signal processes outside: it could stop the one that ends it when its time is up.
    """
    # Layers add up: the first one has settled what may be read, so this one handles changes alone.
    rules = [Rule(path, Use.CHANGE) for path in paths]
    _restrict(rules, _ALL & ~_READ & ~Access.IOCTL_DEV, scoped=_SCOPES)


def _restrict(rules: Sequence[Rule], handled: Access, *, scoped: int = 0) -> None:
    known = version()
    # What a ruleset does not handle stays allowed, truncating before version 3 for one. REFER alone
    # is refused wherever it is not allowed.
    handled &= _known_to(known)
    # Filters take effect for what starts later only if nothing that starts can gain rights.
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    attributes = struct.pack("=Q", handled)
    # The second field is about the network, which is left alone. A kernel refuses a structure in
    # which a field is set that it does not know.
    if known >= 6:
        attributes = struct.pack("=QQQ", handled, 0, scoped)
    ruleset = _call(_CREATE, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    try:
        for rule in rules:
            _add(ruleset, rule, handled)
        _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _known_to(known: int) -> Access:
    """Return the accesses that a version of the interface knows; others it would refuse."""
    later = {Access.REFER: 2, Access.TRUNCATE: 3, Access.IOCTL_DEV: 5}
    return _ALL & ~Access(sum(access for access, since in later.items() if known < since))


def _add(ruleset: int, rule: Rule, handled: Access) -> None:
    try:
        # O_PATH names the file and does not open it: a FIFO would wait for somebody to write.
        handle = os.open(rule.path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # nothing is there, or nothing that could be read anyway
    try:
        allowed = rule.use.value & handled
        # The kernel refuses a rule on a file that allows what is only done with folders.
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            allowed &= _ON_A_FILE
        if allowed:
            attributes = struct.pack("=Qi", allowed, handle)
            _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), attributes,
                  ctypes.c_uint32(0))  # fmt: skip
    finally:
        os.close(handle)


HOOK = "audit hook"
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
# Patterns of what a GPU is reached through: CUDA, CUDA beneath Windows, ROCm.
GPU_DEVICES = ("/dev/nvidia*", "/dev/dxg", "/dev/kfd", "/dev/dri")
# Where its driver's libraries lie that are not among the system's.
GPU_LIBRARIES = ("/etc/nvidia", "/opt/rocm", "/run/opengl-driver")
# CUDA does not start where it cannot name its threads in /proc. The process that prepares, in which
# our own code alone runs, may write there for its forks; each of them to its own entry.
PROCESSES, OWN_PROCESS = "/proc", "/proc/self"
# What programs and libraries read wherever they run. /proc shows which processes there are, and
# with which words and environment they were started, which a draw inherits anyway; their memory,
# open files and folders the kernel refuses a restricted process.
SYSTEM = (
    "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr", "/nix/store", "/proc", "/sys",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
    "/etc/localtime", "/etc/timezone", "/etc/mime.types", "/etc/fonts", "/etc/passwd", "/etc/group",
    "/etc/nsswitch.conf", "/etc/hosts", "/etc/resolv.conf", "/etc/ssl/certs",
    "/etc/ca-certificates", "/etc/pki/tls/certs", "/etc/pki/ca-trust", "/etc/R",
)  # fmt: skip
_OF_A_PREFIX = ("bin", "lib", "lib64", "libexec", "include", "share", "etc", "pyvenv.cfg")
_PACKAGES = ("site-packages", "dist-packages")
_CODE = (".py", ".pyc", ".so", ".zip", ".egg", ".egg-info", ".dist-info", "__pycache__")


def guard_here() -> str:
    """Return what holds draws on this machine."""
    known = version()
    return f"landlock ABI {known}" if known else HOOK


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """All that a draw may read, list or change."""

    read: tuple[str, ...]
    listed: tuple[str, ...]
    changed: tuple[str, ...]
    kept: tuple[str, ...] = ()  # changed while the generator prepares, and only read by draws

    def rules(self) -> list[Rule]:
        """Return the kernel's rules."""
        uses = (
            (self.listed, Use.LIST), (self.read, Use.READ),
            (self.changed, Use.CHANGE), (self.kept, Use.CHANGE),
        )  # fmt: skip
        return [Rule(path, use) for paths, use in uses for path in paths]

    def check_apart(self, forbidden: Sequence[str]) -> None:
        """Raise where something that no draw may read lies in what it may read."""
        secrets = {os.path.realpath(secret): secret for secret in forbidden}
        for path in (*self.read, *self.changed, *self.kept):
            whole = (os.path.realpath(path),)
            for place, secret in secrets.items():
                if _beneath(place, whole):
                    raise DrawError(
                        f"draws may read {path}, and {secret}, which no draw may read, lies there; "
                        "move it to a folder of its own"
                    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What code that is not ours is run for, and what it must not see."""

    forbidden: tuple[str, ...]
    reads: tuple[str, ...]  # files and folders
    lists: tuple[str, ...] = ()  # folders of which the names are enough
    keeps: tuple[str, ...] = ()  # folders where a preparation is kept that cannot be made again
    allow: tuple[str, ...] = ()  # patterns that a mechanism registered
    code: tuple[str, ...] = ()  # import paths, module:attribute
    gpu: bool = False  # whether code of ours computes on one, which nobody registers


def reach_of(needs: Needs, scratch: str) -> Reach:
    """Return what a process may read; asked before any code of a stranger runs in it."""
    read, listed = _code(needs.code)
    registered = allowed_paths(needs.allow)
    # Where a path leads and not how it is written: /dev/../x is no device, and would be writable.
    devices = [path for path in registered if _beneath(os.path.realpath(path), ("/dev",))]
    others = [path for path in registered if path not in devices]
    if needs.gpu:
        devices += [*gpu_devices(), PROCESSES]
        others += GPU_LIBRARIES
    return Reach(
        read=tuple(dict.fromkeys([*SYSTEM, *read, *needs.reads, *others])),
        listed=tuple(dict.fromkeys([*listed, *needs.lists])),
        changed=(scratch, *DEVICES, *devices),
        kept=needs.keeps,
    )


def gpu_devices() -> list[str]:
    """Return what a GPU of this machine is reached through, if it has one.

    By name: to ask its driver would start it in this process, and it does not outlive a fork.
    """
    return sorted(path for pattern in GPU_DEVICES for path in glob.glob(pattern))


def allowed_paths(patterns: Iterable[str]) -> list[str]:
    """Return what a mechanism registered to be read: devices, interpreters, caches of models.

    What is digested and what is opened to draws both come from here: a pattern that one of them
    read otherwise would open a file that nobody compares.
    """
    allowed: list[str] = []
    for pattern in patterns:
        paths = sorted(glob.glob(os.path.expanduser(pattern)))
        if not paths:
            raise DrawError(f"allow = [{pattern!r}, ...] is registered, and nothing is there")
        allowed += paths
    return allowed


def _code(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the code that can be imported, and folders of which names alone are seen.

    A folder of packages is read as a whole. Any other folder that modules are looked for in,
    such as the one that the command was started in, may hold data beside its modules: there
    modules and packages are read.
    """
    read = [os.path.join(prefix, name) for name in _OF_A_PREFIX for prefix in
            {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}]  # fmt: skip
    read += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    read += [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if path]
    listed = []
    for entry in dict.fromkeys(os.path.abspath(path) for path in sys.path):
        if _beneath(entry, (*read, *SYSTEM)):
            continue
        if os.path.basename(entry) in _PACKAGES or not os.path.isdir(entry):
            read.append(entry)
            continue
        listed.append(entry)
        with contextlib.suppress(PermissionError), os.scandir(entry) as parts:
            read += [part.path for part in parts if _is_code(part)]
    return [*read, *_named_code(names)], listed


def _is_code(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(_CODE) or os.path.exists(os.path.join(entry.path, "__init__.py"))


def _named_code(names: Iterable[str]) -> Iterator[str]:
    """Yield where named modules lie, also those of packages without __init__."""
    for top in {name.partition(":")[0].partition(".")[0] for name in names if ":" in name}:
        spec = importlib.util.find_spec(top) if top.isidentifier() else None
        if spec is not None:
            yield from spec.submodule_search_locations or ([spec.origin] if spec.origin else [])


def texts_in(settings: object) -> Iterator[str]:
    """Yield every text in plain values, however deep: any of them may name code, or a file."""
    if isinstance(settings, str):
        yield settings
    elif isinstance(settings, bytes | os.PathLike):
        yield os.fsdecode(settings)
    elif isinstance(settings, Mapping):
        for inner in settings.values():
            yield from texts_in(inner)
    elif isinstance(settings, list | tuple):
        for inner in settings:
            yield from texts_in(inner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confined:
    """What holds a process, and what it may read."""

    guard: str
    reach: Reach


def confine(needs: Needs, scratch: str) -> Confined:
    """Hold this process, and all that it starts, to what it needs; it cannot be undone.

    Parameters
    ----------
    needs
        What its code is run for, and what it must not see.
    scratch
        A folder that it may change, for everything temporary.

    Returns
    -------
    Confined
        What holds it, the kernel or the audit hook, and what it may read.

    Raises
    ------
    DrawError
        If something that is forbidden lies in what may be read, or nothing is where a pattern of
        ``allow`` leads.
    """
    reach = reach_of(needs, scratch)
    # A target that lies among what draws read would be open to them, and the record would say all
    # the same that the kernel held them.
    reach.check_apart(needs.forbidden)
    for folder in needs.keeps:
        os.makedirs(folder, exist_ok=True)  # the kernel allows nothing in what is not there
    use_scratch(scratch)
    sys.dont_write_bytecode = True  # beside its modules, where nothing may be written
    guard = guard_here()
    if guard == HOOK:
        forbid(needs.forbidden)
    else:
        restrict(reach.rules())
    return Confined(guard=guard, reach=reach)


# How the kernel calls an architecture, and the number of its call ``socket``.
_ARCHITECTURES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
_PR_SET_SECCOMP, _FILTER = 22, 2
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | errno.EACCES, 0x80000000
_OTHER_NUMBERS, _IO_URING_SETUP = 0x40000000, 425


def leave_network() -> None:
    """Let this process, and all that it starts, open no socket from here on.

    By a filter of system calls, where the kernel has one for this architecture; elsewhere an audit
    hook refuses what Python itself is asked for, and native code goes around it.
    """
    known = _ARCHITECTURES.get(os.uname().machine) if LINUX else None
    if known is None:
        sys.addaudithook(_refuse_sockets)
        return
    architecture, number = known
    # Calls of another architecture, or by other numbers of this one, would open sockets too; a
    # ring of requests opens them without the call.
    steps = [
        (_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0), (_AT_LEAST, 2, 0, _OTHER_NUMBERS), (_EQUAL, 1, 0, number),
        (_EQUAL, 0, 1, _IO_URING_SETUP), (_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW),
    ]  # fmt: skip
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    header = struct.pack("@HP", len(steps), ctypes.addressof(program))
    prctl(_PR_SET_NO_NEW_PRIVS, 1)  # without it a filter is for whoever may do everything
    zeros = [ctypes.c_ulong(0)] * 2
    if libc().prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_FILTER), header, *zeros) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"a filter of system calls was refused: {os.strerror(error)}")


def _refuse_sockets(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("socket.__new__", *_PROGRAMS):
        raise PermissionError(f"{event}: code that was named here has no network")


def confine_draw(confined: Confined, scratch: str) -> None:
    """Hold one draw to a scratch folder of its own, so that it leaves nothing for the next."""
    use_scratch(scratch)
    if confined.guard != HOOK:
        # The first of these is the scratch of the whole job, in which the folders of other draws
        # lie. What is kept is left out: draws read it and must not fit it anew.
        changed = confined.reach.changed[1:]
        restrict_changes([scratch, *(OWN_PROCESS if p == PROCESSES else p for p in changed)])


def use_scratch(folder: str) -> None:
    """Let everything temporary, and what libraries keep beside settings, go here."""
    kept = (
        "TMPDIR", "TMP", "TEMP", "MPLCONFIGDIR", "CUDA_CACHE_PATH", "PYTORCH_KERNEL_CACHE_PATH",
    )  # fmt: skip
    os.environ.update(dict.fromkeys(kept, folder))
    tempfile.tempdir = None  # it is looked up again


class HardLinks:
    """Other names of a file that no draw may read, in a folder that draws may read.

    The kernel's list is of folders: a second name of the table that lies in one of them can
    be opened by that name. A file knows how many names it has, so most often nothing is
    searched, and after one search not before a name was added or moved.

    Parameters
    ----------
    forbidden
        Files and folders that no draw may read.
    allowed
        Files and folders that draws may read.
    """

    def __init__(self, forbidden: Sequence[str], allowed: Sequence[str]) -> None:
        self._forbidden, self._allowed = tuple(forbidden), tuple(allowed)
        self._searched: dict[tuple[int, int], tuple[int, int]] = {}

    def check(self) -> None:
        """Raise where a draw could read something by another name."""
        linked: dict[tuple[int, int], str] = {}
        state = {}
        for path in _files(self._forbidden):
            with contextlib.suppress(FileNotFoundError):
                facts = os.stat(path)
                if facts.st_nlink > 1:
                    linked[_identity(facts)] = path
                    state[_identity(facts)] = (facts.st_nlink, facts.st_ctime_ns)
        # The count of names alone would not do: one that is removed and another that is added leave
        # it as it was, but not the time of change.
        if not linked or state == self._searched:
            return
        for path in self._allowed:
            for name, identity in _identities(path, {device for device, _ in linked}):
                if identity in linked:
                    raise DrawError(
                        f"{name} is a hard link to {linked[identity]}, which no draw may read, "
                        "where draws may read; remove the link and draw again, what was drawn is "
                        "kept"
                    )
        self._searched = state


def _files(paths: Iterable[str]) -> Iterator[str]:
    """Yield these files, and all files beneath these folders."""
    for path in paths:
        if not os.path.isdir(path):
            yield path
        for folder, _, names in os.walk(path):
            yield from (os.path.join(folder, name) for name in names)


def _identities(path: str, devices: set[int]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield a file, or all that is in a folder on these devices, with device and number."""
    with contextlib.suppress(OSError):  # it is not here, or has just gone
        facts = os.stat(path)
        if not os.path.isdir(path):
            yield path, _identity(facts)
        # A hard link lies on the file system of its file; no other has to be searched.
        elif facts.st_dev in devices:
            with os.scandir(path) as entries:
                for entry in entries:
                    # Symbolic links are not followed: the kernel judges the file that they lead to.
                    if entry.is_dir(follow_symlinks=False):
                        yield from _identities(entry.path, devices)
                    else:
                        yield entry.path, (facts.st_dev, entry.inode())


def _beneath(path: str, roots: Iterable[str]) -> bool:
    # With the separator: /data/target-old does not lie beneath /data/target.
    return any(path == root or path.startswith(root.rstrip(os.sep) + os.sep) for root in roots)


# Where the paths stand among the arguments of what Python tells before it does it.
_PATHS: dict[str, tuple[int, ...]] = {
    "open": (0,), "os.listdir": (0,), "os.scandir": (0,), "os.truncate": (0,), "os.remove": (0,),
    "os.rename": (0, 1), "os.link": (0, 1), "os.symlink": (0, 1), "sqlite3.connect": (0,),
    "shutil.copyfile": (0, 1), "shutil.move": (0, 1), "shutil.copytree": (0, 1),
}  # fmt: skip
_PROGRAMS = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system")


def forbid(paths: Sequence[str]) -> None:
    """Refuse, from here on, what Python is asked to open of these files and folders.

    By path, and by device and number: a file that was renamed, linked or reached through an
    open folder is still the same file.
    """
    sys.addaudithook(watcher(paths))


def watcher(paths: Sequence[str]) -> Callable[[str, tuple[object, ...]], None]:
    """Return the audit hook that refuses these files and folders."""
    roots = tuple(os.path.realpath(path) for path in paths)
    known = set()
    for path in _files(roots):
        with contextlib.suppress(FileNotFoundError):
            known.add(_identity(os.stat(path)))

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        # What a program reads once it runs is not seen, only the words that it is started with: a
        # guard rail for honest code.
        if event in _PROGRAMS:
            words = " ".join(texts_in(arguments))
            for root in roots:
                if root in words:
                    raise PermissionError(f"a draw may not read {root}")
        for index in _PATHS.get(event, ()):
            text = _path_text(arguments[index])
            if text is not None and (
                _beneath(os.path.realpath(text), roots) or _leads_to(text, known)
            ):
                raise PermissionError(f"a draw may not read {text}")

    return watch


def _path_text(argument: object) -> str | None:
    """Return a path as text; an open file that is passed on was refused when it was opened."""
    if not isinstance(argument, str | bytes | os.PathLike):
        return None
    text = os.fsdecode(argument)
    return unquote(urlsplit(text).path) if text.startswith("file:") else text  # as sqlite has it


def _leads_to(text: str, known: set[tuple[int, int]]) -> bool:
    """Return whether a path leads to a known file from here or from any folder that is open.

    Python does not tell which open folder a relative path starts from.
    """
    starts: list[int | None] = [None]
    if not os.path.isabs(text) and os.path.isdir("/dev/fd"):
        starts += [int(name) for name in os.listdir("/dev/fd")]
    for start in starts:
        with contextlib.suppress(OSError, ValueError):
            facts = os.stat(text) if start is None else os.stat(text, dir_fd=start)
            if _identity(facts) in known:
                return True
    return False


def _identity(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_dev, facts.st_ino
