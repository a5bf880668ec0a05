"""No command uses the network, reports its use, or writes outside of its named files."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.converter.models import written
from tests.security.watched import Watched, can_trace, environment, run, run_traced, run_watched
from trtsmith import TELEMETRY_OFF

MODEL = """(float[2, 6] x) => (float[2, 6] z) { [gate] y = acme.Op <slope = 0.25> (x) z = Tanh (y) }
<domain: "acme", opset_import: ["" : 18]>
Op <slope: float = 0.1> (data) => (out) { out = LeakyRelu <alpha: float = @slope> (data) }
"""

RTX = importlib.util.find_spec("tensorrt_rtx") is not None
BUILD = ["convert", "model.onnx", "-o", "out/model.plan", "--flavour", "tensorrt_rtx"]

NEW = ["new", "MyOp", "--from-model", "model.onnx", "--node", "gate", "-o", "out/package"]
COMMANDS: dict[str, tuple[list[str], set[str] | None]] = {
    "check": (["check", "model.onnx", "--json"], set()),
    "rewrite": (["rewrite", "model.onnx", "-o", "out/model.onnx"], {"model.onnx"}),
    "new": (NEW, {"package"}),
    "convert": (BUILD, {"model.plan", "model.manifest.json"}),
    "ops": (["ops"], set()),
    "doctor": (["doctor"], set()),
    "batch": (["batch", "zoo.toml", "-o", "out", "--no-cache"], None),
}
"""Words, and what lies in out/ afterwards; None: what batch says that it writes there."""

ZOO = '[[model]]\npath = "model.onnx"\n'


@dataclass(frozen=True)
class Ran:
    """A command that has run. made: as in COMMANDS."""

    command: str
    made: set[str] | None
    folder: Path
    log: Path
    seen: Watched


def _folder(parent: Path) -> Path:
    work = parent / "all" / "work"
    (work / "out").mkdir(parents=True)
    written(work / "model.onnx", MODEL, opset=18)
    (work / "zoo.toml").write_text(ZOO)
    return parent / "all"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return _folder(tmp_path)


def left_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def strange(wrote: set[Path] | frozenset[Path], folder: Path) -> list[Path]:
    """Of paths that were written, those that are neither below the folder nor devices nor of a process itself."""
    fine = (folder, Path("/dev"), Path("/proc"))
    return sorted(path for path in wrote if not any(path.is_relative_to(one) for one in fine))


@pytest.fixture(scope="module", params=COMMANDS)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A command in a folder of its own, watched."""
    command: str = request.param
    words, made = COMMANDS[command]
    if command in ("convert", "batch") and not RTX:
        pytest.skip("TensorRT-RTX is not installed, which builds without a GPU")
    folder, log = _folder(tmp_path_factory.mktemp(command)), tmp_path_factory.mktemp("log")
    seen = run_watched(words, folder, log)
    assert seen.code == 0, seen.said
    return Ran(command, made, folder, log, seen)


def test_no_command_uses_the_network_or_reports_its_use(ran: Ran) -> None:
    assert not ran.seen.sockets
    if ran.command in ("convert", "batch"):
        assert ran.seen.processes > 1 and "onnxruntime" in {library for library, _ in ran.seen.imports}
    for library, variables in ran.seen.imports:
        assert variables == tuple(TELEMETRY_OFF.values()), library


def test_it_writes_nowhere_but_where_you_said(ran: Ran) -> None:
    work = ran.folder / "work"
    assert not strange({path for path in ran.seen.wrote if not path.is_relative_to(ran.log)}, ran.folder)
    assert left_in(ran.folder / "home") == left_in(ran.folder / "tmp") == set()
    assert {path.name for path in work.iterdir()} == {"out", "model.onnx", "zoo.toml"}
    if ran.made is not None:
        assert {path.name for path in (work / "out").iterdir()} == ran.made


@pytest.mark.skipif(not can_trace(), reason="no strace that may trace: Debian's package strace")
@pytest.mark.skipif(not RTX, reason="TensorRT-RTX is not installed, which builds without a GPU")
def test_no_command_uses_the_network_says_strace(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    wrote, internet = run_traced(BUILD, folder, log)
    assert not internet
    assert not strange(wrote, folder)
    assert left_in(folder / "home") == left_in(folder / "tmp") == set()


@pytest.mark.skipif(not RTX, reason="TensorRT-RTX is not installed, which builds without a GPU")
@pytest.mark.parametrize("umask", [0o077, 0o002])
def test_the_umask_says_who_may_read_what_is_written(umask: int, folder: Path) -> None:
    out = folder / "work" / "out"
    words = [*BUILD, "--html", "out/page.html", "--report", "out/report.json"]
    for command in (words, NEW):
        done = run([sys.executable, "-m", "trtsmith", *command], folder, environment(folder), umask=umask)
        assert done.returncode == 0, done.stderr
    modes = {str(path.relative_to(out)): path.stat().st_mode & 0o777 for path in out.rglob("*")}
    made = {"model.plan", "model.manifest.json", "page.html", "report.json", "package/README.md"}
    assert made < modes.keys()
    for name, mode in modes.items():
        assert mode == (0o777 if (out / name).is_dir() else 0o666) & ~umask, (name, oct(mode))
