"""Runs commands whose Python processes, and children, record what they open, connect to and import.

The hook is a sitecustomize.py on the module path, which sees Python's own calls (PEP 578); strace sees those of C++, too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.processes import checkout_environment

_LOG = "TRTSMITH_TEST_AUDIT_LOG"

_HOOK = f"""
import importlib.machinery, importlib.util, json, os, sys

_log = os.open(os.environ[{_LOG!r}], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
_writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_off = ("ORT_DISABLE_TELEMETRY", "RAY_USAGE_STATS_ENABLED", "HF_HUB_DISABLE_TELEMETRY")
_reporting = {{"onnxruntime", "ray", "huggingface_hub"}}
_paths = {{"os.mkdir": (0,), "os.rename": (0, 1), "os.link": (1,), "os.symlink": (1,), "os.truncate": (0,)}}

def _write(kind, what):
    os.write(_log, (json.dumps([kind, what, os.getpid()]) + "\\n").encode())

def _hook(event, args):
    if event == "open" and isinstance(args[0], (str, bytes)) and (args[2] or 0) & _writing:
        _write("wrote", os.path.abspath(os.fsdecode(args[0])))
    elif event in _paths:
        for place in _paths[event]:
            if isinstance(args[place], (str, bytes, os.PathLike)):
                _write("wrote", os.path.abspath(os.fsdecode(args[place])))
    elif event in ("socket.connect", "socket.bind", "socket.sendto") and isinstance(args[1], tuple):
        _write("socket", event + " " + str(args[1]))
    elif event.startswith(("socket.getaddrinfo", "socket.gethostby", "urllib.", "http.")):
        _write("socket", event + " " + str(args[0]))
    elif event == "import" and args[0] in _reporting:
        _write("import", [args[0], [os.environ.get(name) for name in _off]])

sys.addaudithook(_hook)
_write("began", sys.argv[:1])

# What another sitecustomize.py on the path does is not lost.
_here = os.path.dirname(os.path.abspath(__file__))
_spec = importlib.machinery.PathFinder.find_spec("sitecustomize", [p for p in sys.path if os.path.abspath(p) != _here])
if _spec is not None:
    _spec.loader.exec_module(importlib.util.module_from_spec(_spec))
"""


@dataclass(frozen=True)
class Watched:
    """What the processes of a command did. wrote: absolute paths; imports: (library, the telemetry variables then)."""

    code: int
    said: str
    wrote: frozenset[Path]
    sockets: tuple[str, ...]
    imports: tuple[tuple[str, tuple[str | None, ...]], ...]
    processes: int


def run_watched(words: Sequence[str], folder: Path, log: Path) -> Watched:
    """`trtsmith WORDS` in folder/work, with HOME and TMPDIR in folder. log: an empty folder elsewhere."""
    hook = log / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(_HOOK)
    events = log / "events"
    known = environment(folder, **{_LOG: events})
    known["PYTHONPATH"] = f"{hook}{os.pathsep}{known['PYTHONPATH']}"
    done = run([sys.executable, "-m", "trtsmith", *words], folder, known)
    told = [json.loads(line) for line in events.read_text().splitlines()]
    return Watched(
        done.returncode,
        done.stdout + done.stderr,
        frozenset(Path(what) for kind, what, _ in told if kind == "wrote"),
        tuple(what for kind, what, _ in told if kind == "socket"),
        tuple((what[0], tuple(what[1])) for kind, what, _ in told if kind == "import"),
        len({process for _, _, process in told}),
    )


def can_trace() -> bool:
    """Whether there is strace, and it may trace processes: a container may forbid that."""
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True).returncode == 0


_CALL = re.compile(r"\b(?P<name>[a-z_0-9]+)\((?P<rest>.*)")
_OPENED = re.compile(r'"(?P<path>(?:[^"\\]|\\.)*)", [A-Z_|]*O_(?:WRONLY|RDWR|CREAT|TRUNC)')
_MADE = re.compile(r'"(?P<path>(?:[^"\\]|\\.)*)"[^"]*$')


def run_traced(words: Sequence[str], folder: Path, log: Path) -> tuple[set[Path], list[str]]:
    """(paths that were written, calls that name an address of the internet) of `trtsmith WORDS`, as strace sees them.

    Relative paths are left out: who may write to the working folder may write there.
    """
    calls = "open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat"
    sockets = "connect,bind,sendto,sendmsg,sendmmsg"
    trace = ["strace", "-f", "-qq", "-s", "4096", "-e", f"trace={calls},{sockets}", "-e", "signal=none"]
    command = [*trace, "-o", str(log / "strace"), sys.executable, "-m", "trtsmith", *words]
    done = run(command, folder, environment(folder))
    assert done.returncode == 0, done.stderr
    wrote: set[Path] = set()
    internet = []
    for line in (log / "strace").read_text(errors="replace").splitlines():
        call = _CALL.search(line)
        if call is None:
            continue
        if call["name"] in sockets.split(","):
            if "AF_INET" in call["rest"]:
                internet.append(line)
            continue
        form = _OPENED if call["name"].startswith("open") else _MADE
        found = form.search(call["rest"])
        if found is not None and found["path"].startswith("/"):
            wrote.add(Path(found["path"]))
    return wrote, internet


def environment(folder: Path, **more: object) -> dict[str, str]:
    """Without what this process already has by importing trtsmith: children have to set it themselves."""
    for name in ("home", "tmp", "work"):
        (folder / name).mkdir(exist_ok=True)
    plain = checkout_environment(
        HOME=folder / "home", TMPDIR=folder / "tmp", PYTHONDONTWRITEBYTECODE=1, **more
    )
    dropped = ("ORT_", "RAY_", "HF_", "XDG_", "TRTSMITH_CACHE")
    return {name: value for name, value in plain.items() if not name.startswith(dropped)}


def run(
    command: Sequence[str], folder: Path, known: dict[str, str], umask: int = -1
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder / "work", env=known, capture_output=True, text=True, umask=umask
    )
