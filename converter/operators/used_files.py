"""Records the files that operators' modules read while imported and called, and finds those missing from a set of files.

A batch makes the key of a conversion before it, of files that it lists without running anything. What the conversion used
in the end is asked here: a process that has the variable notes it in the file that the variable names, and so do the
processes that it begins. Not seen are a look whether a file exists, and what C code opens by itself.
"""

from __future__ import annotations

import json
import os
import site
import sys
import sysconfig
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from importlib.util import source_from_cache
from pathlib import Path
from types import FrameType
from typing import Any

from trtsmith.converter.base.process.package_folders import PACKAGE_FOLDERS

VARIABLE = "TRTSMITH_USED_FILES"

FILE, LIBRARY, SETTING, PROGRAM = "file", "library", "variable", "program"
"""What is noted: a file that is read, a mapped library, a variable of the environment, a program or connection."""

_EVENTS = {
    "open": FILE,
    "import": FILE,
    "ctypes.dlopen": FILE,
    "sqlite3.connect": FILE,
    **dict.fromkeys(
        ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect"), PROGRAM
    ),
}
"""Of Python's audit events, and what their arguments name."""

_FOLDERS = tuple(f"{folder}{os.sep}" for folder in PACKAGE_FOLDERS)
_PYTHON = tuple({f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib")})
_ZIP = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
_SYSTEM = (
    *(
        "/proc/",
        "/dev/",
        "/sys/",
        "/lib/",
        "/lib32/",
        "/lib64/",
        "/usr/lib",
        "/usr/bin/",
        "/usr/share/",
        "/usr/include/",
    ),
    *("/usr/local/cuda", "/usr/local/nvidia/"),
)
"""The operating system and the driver, which are in no key."""

_UNCHECKED = 0b01
"""The flags of a .pyc that Python takes whatever its source is (PEP 552)."""


class _Recorder:
    """Notes each thing once, as a line of JSON, [kind, name]."""

    def __init__(self, path: str) -> None:
        self._out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._known: set[tuple[str, str]] = set()
        self._own = threading.local()
        self.imports = 0
        self.roots: set[str] = set()
        """Top-level modules of operators, which may lie among those of installed packages."""

    def note(self, kind: str, name: str) -> None:
        if (kind, name) not in self._known:
            self._known.add((kind, name))
            os.write(self._out, f"{json.dumps([kind, name])}\n".encode())

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """The audit hook, which also sees its own calls."""
        kind = _EVENTS.get(event)
        if kind is None or getattr(self._own, "busy", False):
            return
        self._own.busy = True
        try:
            frame = sys._getframe(1)
            if kind is PROGRAM:
                if self._is_foreign(_caller(frame)):
                    self.note(kind, f"{event} {str(arguments[1 if event == 'socket.connect' else 0])[:200]}")
            elif (path := _path_read(event, arguments)) and (self.imports or self._any_foreign(frame)):
                self.note(kind, os.path.abspath(path))
        except OSError:  # of a working folder that is gone: whoever opens a file has no part in it
            self.note(PROGRAM, event)
        finally:
            self._own.busy = False

    def asked(self, variable: str) -> None:
        if self._is_foreign(_caller(sys._getframe(2))):
            self.note(SETTING, variable)

    def note_modules(self) -> None:
        """The files of the modules of operators: what was imported before the recording, or by other means than open."""
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if file and name.partition(".")[0] in self.roots:
                self.note(FILE, os.path.abspath(file))

    def _any_foreign(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if self._is_foreign(frame):
                return True
            frame = frame.f_back
        return False

    def _is_foreign(self, frame: FrameType | None) -> bool:
        """Whether the code is a user's: of operators, and of what is neither ours, nor Python's, nor installed."""
        if frame is None:
            return False
        module = str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] in self.roots or module == "__main__":  # the worker's own
            return module != "__main__"
        file = frame.f_code.co_filename
        return not file.startswith(("<", *_FOLDERS, *_PYTHON, *_installed_folders()))


class _WatchedEnvironment(os._Environ[str]):
    """os.environ, which notes the variables that a user's code asks for."""

    def __getitem__(self, key: str) -> str:
        if _recorder is not None:
            _recorder.asked(key)
        return super().__getitem__(key)


_recorder: _Recorder | None = None  # an audit hook stays as long as its process


def _running() -> _Recorder | None:
    """Begin to record, where the variable asks for it."""
    global _recorder
    path = os.environ.get(VARIABLE)
    if path and _recorder is None:
        _installed_folders()
        _recorder = _Recorder(path)
        sys.addaudithook(_recorder.hear)
        os.environ.__class__ = _WatchedEnvironment
    return _recorder


@contextmanager
def recorded_import(spec: str) -> Iterator[set[str]]:
    """Records all files read in the block. Importers add module names to the set."""
    recorder = _running()
    if recorder is None:
        yield set()
        return
    if os.sep not in spec:
        recorder.roots.add(spec.partition(".")[0])
    recorder.imports += 1
    try:
        yield recorder.roots
    finally:
        recorder.imports -= 1
        recorder.note_modules()


def note_libraries() -> None:
    """Records mapped libraries, and operator modules imported since."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    recorder = _recorder or _Recorder(path)
    recorder.note_modules()
    try:
        lines = Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    mapped = {parts[5] for line in lines if len(parts := line.split(maxsplit=5)) == 6 and "x" in parts[1]}
    for name in sorted(mapped):
        if name.startswith(os.sep) and name != os.path.realpath(sys.executable):
            recorder.note(LIBRARY, name.removesuffix(" (deleted)"))


def _path_read(event: str, arguments: tuple[Any, ...]) -> str:
    """The file that an event reads; "" for none."""
    named = arguments[1] if event == "import" else arguments[0]
    if not isinstance(named, (str, bytes, os.PathLike)):
        return ""
    if event == "open" and isinstance(arguments[2], int):
        flags = arguments[2]
        if flags & os.O_ACCMODE == os.O_WRONLY or flags & (os.O_TRUNC | os.O_EXCL):
            return ""  # nothing is read that was there before
    path = os.fsdecode(named)
    return (
        "" if event == "ctypes.dlopen" and os.sep not in path else path
    )  # the loader finds it: see note_libraries


def _caller(frame: FrameType | None) -> FrameType | None:
    """The innermost code that is not of Python's own library."""
    while frame is not None and frame.f_code.co_filename.startswith(("<frozen", *_PYTHON)):
        if frame.f_code.co_filename.startswith(_installed_folders()):
            break
        frame = frame.f_back
    return frame


@cache
def _installed_folders() -> tuple[str, ...]:
    """Where pip installs packages, ended by a separator."""
    folders = (*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_path("purelib"))
    return tuple(dict.fromkeys(f"{folder}{os.sep}" for folder in folders))


def uncovered(record: Path, files: Iterable[Path], variables: Collection[str] = ()) -> list[str]:
    """Lists recorded files that are not among these files, nor of Python, an installed package, trtsmith or the system.

    record: in the folder in which the processes keep what they make, temporary files too.
    variables: with what the names of variables begin that are known. OSError where the record cannot be read.
    """
    known = {os.path.abspath(file) for file in files}
    real = {os.path.realpath(file) for file in known}
    noted = [json.loads(line) for line in record.read_text().splitlines()]
    foreign = {name for kind, name in noted if kind == LIBRARY and name in real and not _is_ours(name)}
    made = os.path.join(os.path.realpath(record.parent), "")
    found = []
    for kind, name in noted:
        if kind == SETTING:
            covered = name.startswith(tuple(variables))
        elif (
            kind == LIBRARY
        ):  # TensorRT's and onnxruntime's go by their versions, unless a library of the user's is there
            covered = not foreign or name in real or _is_of_loader(name) or _is_of_others(name)
        else:
            covered = kind == FILE and (_source(name) in known or _is_of_others(name))
        covered = covered or (kind in (FILE, LIBRARY) and name.startswith(made))
        if not covered:
            found.append(name if kind in (FILE, LIBRARY) else f"{kind} {name}")
    return sorted(set(found))


def _source(name: str) -> str:
    """The source of a file of Python's cache that is only taken where it fits the source; else the file itself."""
    is_cache = os.path.basename(os.path.dirname(name)) == "__pycache__"
    if sys.pycache_prefix:
        is_cache = name.startswith(os.path.join(sys.pycache_prefix, ""))
    if not is_cache or not name.endswith(".pyc"):
        return name
    try:
        with open(name, "rb") as file:
            flags = file.read(8)[4:]
    except FileNotFoundError:
        flags = b"\0"
    except OSError:
        return name
    return name if int.from_bytes(flags, "little") == _UNCHECKED else source_from_cache(name)


def _is_ours(name: str) -> bool:
    return name.startswith(_FOLDERS)


def _is_of_loader(name: str) -> bool:
    """Whether the library is in a folder that LD_LIBRARY_PATH names: keys know what these hold."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return os.path.dirname(name) in {os.path.realpath(folder) for folder in folders if folder}


def _is_of_others(name: str) -> bool:
    source = _source(name)
    if _is_ours(source) or source.startswith(_SYSTEM) or os.path.basename(source) == _ZIP:
        return True
    if folder := next(filter(source.startswith, _installed_folders()), ""):
        # By the file's own name, not its target's: an installer may put links to a store of packages there.
        installed = os.path.join(os.path.realpath(folder), source.removeprefix(folder))
        return ".dist-info/" in source or installed in _recorded()
    prefixes = {os.path.realpath(os.path.join(prefix, "lib")) for prefix in (sys.prefix, sys.base_prefix)}
    return (
        source.startswith(_PYTHON)
        or os.path.dirname(os.path.realpath(source)) in prefixes
        or source in _recorded()
    )


@cache
def _recorded() -> frozenset[str]:
    """The files of all installed distributions, as their own lists have them, and the targets of libraries that are links:
    a process maps these.
    """
    found: set[str] = set()
    for distribution in metadata.distributions():
        folder = os.path.realpath(str(distribution.locate_file("")))
        lines = (distribution.read_text("RECORD") or "").splitlines()
        found |= {os.path.join(folder, line.rsplit(",", 2)[0].strip('"')) for line in lines}
    return frozenset(found | {os.path.realpath(path) for path in found if ".so" in path})
