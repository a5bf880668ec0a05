"""Stand-ins for the converting worker in tests without TensorRT: they do what a task's words say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trtsmith.converter.batch.task import BatchTask, Needs

NAME = "fake_batch_worker"

SOURCE = r"""
import ctypes, json, os, signal, subprocess, sys, tempfile, time
from pathlib import Path
from trtsmith.converter.engine.child.serve import serve

DAEMON = (
    "import subprocess, sys; from pathlib import Path;"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True);"
    "Path(sys.argv[1]).write_text(str(child.pid))"
)

def work(request, events, log_path):
    asked = json.loads(request)
    folder, words = Path(asked["folder"]), asked["words"]
    events.phase("at work")
    Path(tempfile.mkdtemp()).joinpath("left").write_text("a temporary file")
    code, converted = 0, True
    for word in words:
        do, _, value = word.partition("=")
        if do == "begun":  # says that it has begun, and by which process
            Path(value).write_text(str(os.getpid()))
        if do == "child":  # a process in a session of its own, as TensorRT's is
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
            Path(value).write_text(str(child.pid))
        if do == "daemon":  # one whose parent has ended
            subprocess.run([sys.executable, "-c", DAEMON, value])
        if do == "wait":  # until there is such a file
            while not Path(value).exists():
                time.sleep(0.01)
        if do == "hang":
            time.sleep(600)
        if do == "eat":
            eaten = b"x" * (int(value) << 20)
            time.sleep(600)
        if do == "count":
            with open(value, "a") as log:
                log.write(asked["name"] + "\n")
        if do == "gpus":
            Path(value).write_text(os.environ["CUDA_VISIBLE_DEVICES"])
        if do == "segfault":
            print("the last words", flush=True)
            ctypes.string_at(0)
        if do == "mistake":
            raise KeyError("no such key")
        if do == "code":
            code = int(value)
    problems = [{"what": "a", "where": f"{folder}/model.plan", "expected": "c", "fix": "d"}] if code in (1, 2) else []
    if not problems:
        (folder / "model.plan").write_bytes(b"engine of " + asked["source"].encode())
    report = {"converted": not problems, "engine": {"engine_path": str(folder / "model.plan"), "flavour": "tensorrt_rtx"},
              "verdict": None if "unverified" in words else {}, "warnings": ["w"], "seconds": {"build": 0.5}}
    return {"exit_code": code, "problems": problems, "death": None, "warnings": [], "report": report, "bench": None,
            "tune": None, "seconds": {}, "versions": {"trtsmith": "1", "tensorrt": "10.9", "tensorrt_rtx": "1.7"}}

if __name__ == "__main__":
    serve(sys.argv[1:], work)
"""


def write_worker(folder: Path) -> None:
    """The module, in a folder for Python to look in."""
    (folder / f"{NAME}.py").write_text(SOURCE)


def task(name: str, *words: object, source: str = "", needs: Needs | None = None) -> BatchTask:
    """One whose worker does what the words say. Its name stands for a model's."""
    model, _, variant = name.partition("/")
    return BatchTask(
        name=name,
        model=model,
        source=source or f"/models/{model}.onnx",
        words=tuple(map(str, words)),
        files=(),
        variant={"target": variant} if variant else {},
        needs=needs or Needs(),
    )


def left_in(folder: Path) -> Sequence[str]:
    """What is in a folder, at any depth, but for folders."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def pid_in(path: Path) -> int:
    return int(path.read_text())
