"""The benchmark of memory: what it counts, what it takes off, the model that it makes. No size of a real run is tested."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import bench_memory
from benchmemory import bare_run
from benchmemory.chain import write_model
from benchmemory.watch import WORKERS, Peak, Resident, peak_of
from tests.converter.engine.runtime.fakes import FakeDevice, FakePlan, FakeTensor, FakeTensorRT, mapped_when
from trtsmith.converter.engine.build import build
from trtsmith.converter.engine.build.gpu import Gpu
from trtsmith.converter.engine.runtime.run_in_child import run_engine
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import reference

CHILD = "import time, numpy; a = numpy.ones({mib} << 17); time.sleep(0.3)"
MIB = 1 << 20


def test_the_memory_of_children_counts(tmp_path: Path) -> None:
    """64 MiB in a process and 128 MiB in its child, held at the same time; the child was started by a thread."""
    child = CHILD.format(mib=128)
    parent = (
        "import numpy, subprocess, sys, threading; a = numpy.ones(64 << 17);"
        f"t = threading.Thread(target=subprocess.run, args=([sys.executable, '-c', {child!r}],)); t.start(); t.join()"
    )
    alone = peak_of([sys.executable, "-c", "import numpy, time; time.sleep(0.3)"], tmp_path)
    both = peak_of([sys.executable, "-c", parent], tmp_path)
    assert 150 * MIB < both.anonymous - alone.anonymous < 250 * MIB
    assert both.total > both.anonymous > alone.anonymous > 0
    assert (both.without_tensorrt, both.beside_tensorrt) == (both.total, 0)


def test_mapped_files_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(256)) * (1 << 18))  # 64 MiB
    read = (
        "import mmap, time; f = open('a'); m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ);"
        "sum(m[::4096]); time.sleep(0.3)"
    )
    peak = peak_of([sys.executable, "-c", read], tmp_path)
    assert peak.mapped >= 64 * MIB > peak.anonymous


@pytest.mark.parametrize("worker", WORKERS)
def test_a_process_of_tensorrt_is_told_apart(tmp_path: Path, worker: str) -> None:
    """128 MiB before it starts, 32 MiB beside it, 256 MiB in it."""
    words = ["-c", CHILD.format(mib=256), worker]
    parent = (
        f"import numpy, subprocess, sys, time; a = numpy.ones(128 << 17); time.sleep(0.3); a = a[:32 << 17].copy();"
        f"subprocess.run([sys.executable, *{words!r}])"
    )
    peak = peak_of([sys.executable, "-c", parent], tmp_path)
    assert 128 * MIB < peak.without_tensorrt < 230 * MIB
    assert 32 * MIB < peak.beside_tensorrt < 128 * MIB
    assert peak.total > 288 * MIB


def test_the_largest_sum_is_of_one_moment() -> None:
    peak = Peak()
    peak.add([Resident(4, 1), Resident(6, 0, tensorrt=True)])
    peak.add([Resident(1, 3), Resident(0, 7, tensorrt=True)])
    peak.add([Resident(2, 7)])
    assert (peak.total, peak.anonymous, peak.mapped) == (11, 10, 10)
    assert (peak.without_tensorrt, peak.beside_tensorrt) == (9, 5)


def test_the_workers_that_are_known_are_those_that_are_started() -> None:
    """A module that has moved would be taken for a process without TensorRT."""
    builds, runs = WORKERS
    assert builds == build.WORKER and f'"{runs}"' in inspect.getsource(run_engine)


def test_a_command_that_fails_is_no_measurement(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        peak_of([sys.executable, "-c", "raise SystemExit(3)"], tmp_path)


@pytest.mark.parametrize("custom", [True, False])
def test_the_model_runs_and_has_a_custom_node_where_it_may(tmp_path: Path, custom: bool) -> None:
    write_model(tmp_path / "m.onnx", 2, custom=custom, width=16)
    model = load_model(tmp_path / "m.onnx")
    assert [n.op_type for n in model.proto.graph.node if n.domain] == ["InversePlugin"] * custom
    assert (tmp_path / "model.data").stat().st_size == 2 * 16 * 16 * 4
    x = np.random.default_rng(0).standard_normal((1, 4, 16)).astype(np.float32)
    outputs = run(reference(model), {"x": x})
    weights = np.fromfile(tmp_path / "model.data", np.float32).reshape(2, 16, 16)
    y = x @ weights[0] @ weights[1]
    assert outputs["y"] == pytest.approx(y, rel=1e-4, abs=1e-5)
    if custom:
        assert outputs["z"] == pytest.approx(np.linalg.inv(y[..., :4] + 9 * np.eye(4)), rel=1e-4, abs=1e-5)


def test_values_keep_their_size_from_layer_to_layer(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", 3, custom=False, width=256)
    weights = np.fromfile(tmp_path / "model.data", np.float32).reshape(3, 256, 256)
    x = np.random.default_rng(1).standard_normal((64, 256)).astype(np.float32)
    assert np.std(x @ weights[0] @ weights[1] @ weights[2]) == pytest.approx(1, abs=0.1)
    assert len({w.tobytes() for w in weights}) == 3


# What each process takes, by a word of its command.
Sizes = Mapping[str, Peak]
PEAKS: Sizes = {
    "import": Peak(total=70 * MIB),
    "bare_build": Peak(total=600 * MIB),
    "bare_run": Peak(total=500 * MIB),
    "convert": Peak(total=650 * MIB, without_tensorrt=120 * MIB, beside_tensorrt=60 * MIB),
    "verify": Peak(total=560 * MIB, without_tensorrt=125 * MIB, beside_tensorrt=40 * MIB),
}


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sizes], list[list[str]]]:
    """commands(sizes): no process is started, a model has 100 MiB, and a command takes what is said of it."""

    def watched(sizes: Sizes) -> list[list[str]]:
        seen: list[list[str]] = []

        def peak_of(
            command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
        ) -> Peak:
            words = list(command)
            seen.append(words)
            name = next(n for n in sizes if n in {Path(word).stem for word in words})
            if name == "bare_build":
                Path(words[3]).write_bytes(b"engine")
            if name == "convert":
                Path(words[words.index("-o") + 1]).write_bytes(b"e" * MIB)
                manifest = {"tensorrt": {"flavour": "tensorrt_rtx", "version": "1.6.1"}}
                (folder / "model.manifest.json").write_text(json.dumps(manifest))
            return sizes[name]

        def write_model(path: Path, layers: int, *, custom: bool) -> None:
            assert custom is False  # TensorRT-RTX 1.6 imports none
            with path.open("wb") as file:
                file.truncate(100 * MIB)

        monkeypatch.setattr(bench_memory, "peak_of", peak_of)
        monkeypatch.setattr(bench_memory, "write_model", write_model)
        return seen

    return watched


def test_what_the_engine_needs_by_itself_is_taken_off(
    tmp_path: Path, commands: Callable[[Sizes], list[list[str]]]
) -> None:
    seen = commands(PEAKS)
    record = bench_memory.measured_with_engine(tmp_path, 2)
    of = {name: entry["over_builder_over_model"] for name, entry in record["commands"].items()}
    # off convert, which has both, the larger: (650 - 600) / 100; off verify the engine's: (560 - 500) / 100
    assert of == {"convert --verify engine": 0.5, "verify": 0.6}
    assert [e["without_tensorrt_over_model"] for e in record["commands"].values()] == [1.2, 1.25]
    assert record["within_limits"] is True
    assert (record["builder"]["peak_mib"], record["runner"]["peak_mib"]) == (600.0, 500.0)
    assert record["engine"] == {"tensorrt": "tensorrt_rtx 1.6.1", "mib": 1.0}
    _, _, convert, ran, verify = seen
    engine = convert[convert.index("-o") + 1]
    assert ran[-1] == engine and verify[verify.index("verify") + 2] == engine
    assert "--target" not in convert  # the GPU that is there
    assert convert[convert.index("--verify") + 1] == "engine"


@pytest.mark.parametrize(
    ("sizes", "within"),
    [
        ({"verify": Peak(total=630 * MIB)}, True),
        ({"verify": Peak(total=631 * MIB)}, False),
        ({"verify": Peak(total=560 * MIB, without_tensorrt=131 * MIB)}, False),
        ({"bare_run": Peak(total=420 * MIB)}, False),  # less of verify's 560 is the engine's
        ({"convert": Peak(total=731 * MIB)}, False),
        ({"convert": Peak(total=731 * MIB), "bare_run": Peak(total=610 * MIB)}, True),
    ],
)
def test_a_limit_that_is_exceeded(
    tmp_path: Path, commands: Callable[[Sizes], list[list[str]]], sizes: Sizes, within: bool
) -> None:
    commands({**PEAKS, **sizes})
    assert bench_memory.measured_with_engine(tmp_path, 2)["within_limits"] is within


def test_the_record_of_a_gpu_has_a_place_of_its_own(
    tmp_path: Path, commands: Callable[[Sizes], list[list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands(PEAKS)
    monkeypatch.setattr(bench_memory, "ROOT", tmp_path)
    monkeypatch.setattr(bench_memory, "find_gpu", lambda: Gpu("NVIDIA H200", (9, 0)))
    monkeypatch.setattr(bench_memory, "missing_packages", lambda: None)
    assert bench_memory.main(["--engine", "--layers", "2"]) == 0
    record = json.loads((tmp_path / "benchmarks" / "h200" / "memory.json").read_text())
    assert record["machine"]["gpu"] == "NVIDIA H200" and record["model"]["mib"] == 100.0


def test_an_engine_needs_a_gpu(
    commands: Callable[[Sizes], list[list[str]]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen = commands(PEAKS)
    monkeypatch.setattr(bench_memory, "find_gpu", lambda: None)
    assert bench_memory.main(["--engine"]) == 2
    assert "no NVIDIA GPU" in capsys.readouterr().err and not seen


# y = 3 x + 1
PLAN = FakePlan(
    (FakeTensor("x", "FLOAT", (2, 3)), FakeTensor("y", "FLOAT", (2, 3), is_input=False)),
    lambda shapes, values: {"y": shapes["x"]},
    lambda arrays: {"y": arrays["x"] * 3 + 1},
)


class FakeDriver(SimpleNamespace):
    """cuda.bindings.driver on a FakeDevice: every call answers (error,) or (error, value)."""

    def __init__(self, device: FakeDevice) -> None:
        self.blocks: list[Any] = []
        self.done: list[str] = []

        def allocate(size: int) -> tuple[int, int]:
            self.blocks.append(device.allocate(size))
            return 0, self.blocks[-1].pointer

        def fill(pointer: int, value: int, size: int) -> tuple[int]:
            device.check_write(pointer, size)
            block = next(b.block for b in self.blocks if b.pointer == pointer)
            block[:size] = value
            return (0,)

        super().__init__(
            cuInit=lambda flags: (0,),
            cuDeviceGet=lambda number: (0, number),
            cuDevicePrimaryCtxRetain=lambda number: (0, "context"),
            cuCtxSetCurrent=lambda context: (0,),
            cuStreamCreate=lambda flags: (0, 7),
            cuStreamSynchronize=lambda stream: (self.done.append(f"stream {stream}"), (0,))[1],
            cuMemAlloc=allocate,
            cuMemsetD8=fill,
        )


def fake_tensorrt(device: FakeDevice) -> FakeTensorRT:
    module = FakeTensorRT(device, {b"engine": PLAN}, rtx=True)
    module.Logger = type("Logger", (), {"ERROR": 1, "__init__": lambda self, severity: None})  # type: ignore[attr-defined]
    return module


def test_the_bare_process_runs_the_engine(tmp_path: Path) -> None:
    device = FakeDevice()
    trt, driver = fake_tensorrt(device), FakeDriver(device)
    (tmp_path / "model.plan").write_bytes(b"engine".ljust(64, b"."))
    bare_run.run(trt, driver, str(tmp_path / "model.plan"))
    assert trt.calls["execute_async_v3"] == 1 and driver.done == ["stream 7"]
    assert np.all(driver.blocks[1].block[:24].view(np.float32) == 1)


def test_the_bare_process_lets_go_of_the_file_before_it_makes_a_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the runner does: what the bare process held longer would be excused in the runner."""
    engine = tmp_path / "model.plan"
    engine.write_bytes(b"engine".ljust(64, b"."))
    found = mapped_when(engine, monkeypatch)
    device = FakeDevice()
    bare_run.run(fake_tensorrt(device), FakeDriver(device), str(engine))
    assert found == {"read": True, "context": False}


def test_the_calls_of_the_fake_driver_are_those_of_the_real_one() -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    names = [name for name in vars(FakeDriver(FakeDevice())) if name.startswith("cu")]
    assert len(names) == 8 and [name for name in names if not callable(getattr(driver, name, None))] == []


@pytest.mark.parametrize("call", ["cuInit", "cuMemAlloc", "cuStreamSynchronize"])
def test_a_bare_process_that_cuda_refuses_is_no_measurement(tmp_path: Path, call: str) -> None:
    device = FakeDevice()
    driver = FakeDriver(device)
    setattr(driver, call, lambda *arguments: (2, None))
    (tmp_path / "model.plan").write_bytes(b"engine".ljust(64, b"."))
    with pytest.raises(SystemExit, match="CUDA refuses: 2"):
        bare_run.run(fake_tensorrt(device), driver, str(tmp_path / "model.plan"))


@pytest.mark.parametrize(
    "path",
    [bench_memory.OUTPUT, *sorted(bench_memory.OUTPUT.parent.glob(f"*/{bench_memory.RECORD}"))],
    ids=lambda path: path.parent.name,
)
def test_the_records_that_are_kept_are_within_their_limits(path: Path) -> None:
    record = json.loads(path.read_text())
    assert record["within_limits"] is True and record["model"]["mib"] >= 2048
    for command in record["commands"].values():
        for name in ("over_builder_over_model", "without_tensorrt_over_model"):
            assert 0 < command[name] <= record["limits"][name] == bench_memory.LIMIT
