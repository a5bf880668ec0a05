"""The child's work, done here with the fakes: one set of outputs for each set of inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import FakeDevice, FakeTensorRT, flavour_of, log_of

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.runtime.exchange import read_arrays, write_arrays
from trtsmith.converter.engine.runtime.run_request import ChildRequest, RunRequest
from trtsmith.converter.engine.runtime.run_worker import furthest, run
from trtsmith.converter.engine.runtime.tensors import EngineInfo
from trtsmith.converter.rewrite.types import IoType


class Phases:
    def __init__(self) -> None:
        self.said: list[str] = []

    def phase(self, text: str) -> None:
        self.said.append(text)


def work(
    request: ChildRequest, device: FakeDevice, module: FakeTensorRT, phases: Any = None
) -> dict[str, Any]:
    fake: Any = device
    return run(request, fake, flavour_of(module), log_of(module), phases or Phases())


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    path = tmp_path / "m.plan"
    path.write_bytes(b"double".ljust(100, b"."))
    return path


def test_several_sets_of_inputs(
    engine: Path, device: FakeDevice, tensorrt: FakeTensorRT, tmp_path: Path
) -> None:
    folders = [tmp_path / f"in{n}" for n in range(3)], [tmp_path / f"out{n}" for n in range(3)]
    for count, folder in enumerate(folders[0], 1):
        write_arrays(folder, {"x": np.full((count, 3), count, np.float64)})
    casts = (IoType("x", "float64", "float32"),)
    request = ChildRequest(RunRequest(engine, io_types=casts), *map(tuple, folders))
    phases = Phases()
    answer = work(request, device, tensorrt, phases)
    for count, folder in enumerate(folders[1], 1):
        assert read_arrays(folder)["y"].tolist() == [[2.0 * count] * 3] * count
    assert "running the engine on inputs 2 of 3" in phases.said
    assert EngineInfo.from_json(answer["info"]).inputs[0].name == "x" and answer["warnings"] == []


def test_profile(engine: Path, device: FakeDevice, tensorrt: FakeTensorRT, tmp_path: Path) -> None:
    write_arrays(tmp_path / "in", {"x": np.ones((12, 3), np.float32)})
    for profile, fits in ((1, True), (0, False)):
        request = ChildRequest(RunRequest(engine, profile=profile), (tmp_path / "in",), (tmp_path / "out",))
        if fits:
            work(request, device, tensorrt)
            assert read_arrays(tmp_path / "out")["y"].shape == (12, 3)
        else:
            with pytest.raises(UsageError, match="outside the optimization profile"):
                work(request, device, tensorrt)


def test_no_inputs_only_describe(engine: Path, device: FakeDevice, tensorrt: FakeTensorRT) -> None:
    answer = work(ChildRequest(RunRequest(engine)), device, tensorrt)
    assert EngineInfo.from_json(answer["info"]).profiles == 2
    assert tensorrt.calls["execute_async_v3"] == 0


def test_disk_is_full(
    engine: Path, device: FakeDevice, tensorrt: FakeTensorRT, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_arrays(tmp_path / "in", {"x": np.ones((1, 3), np.float32)})
    request = ChildRequest(RunRequest(engine), (tmp_path / "in",), (tmp_path / "no" / "out",))
    with pytest.raises(UsageError, match="outputs cannot be written") as error:
        work(request, device, tensorrt)
    assert "TMPDIR" in error.value.problems[0].fix


def test_an_engine_that_gives_the_same_each_time(
    engine: Path, device: FakeDevice, tensorrt: FakeTensorRT, tmp_path: Path
) -> None:
    write_arrays(tmp_path / "in", {"x": np.ones((1, 3), np.float32)})
    request = ChildRequest(RunRequest(engine), (tmp_path / "in",), (tmp_path / "out",), repeats=3)
    assert work(request, device, tensorrt)["unsteady"] == {}
    assert tensorrt.calls["execute_async_v3"] == 4


def test_the_run_furthest_from_the_first_counts() -> None:
    """Whole: rows of several outputs belong together."""
    x, n = np.array([3.0, 4.0], np.float32), np.array([1, 2])
    first = {"x": x, "n": n, "nan": np.array([np.nan], np.float32)}
    runs = [first, {**first, "x": x + np.float32(2)}, {**first, "x": x * np.float32(2), "n": n + 1}, first]
    found, apart = furthest(iter(runs).__next__, first, len(runs))
    assert found is runs[2]
    assert apart == {"x": pytest.approx(1.0), "n": pytest.approx(np.sqrt(2 / 5))}


@pytest.mark.parametrize("other", [np.zeros(3, np.float32), np.array([1, np.inf], np.float32)])
def test_runs_of_other_shapes_or_beyond_numbers_are_infinitely_far_apart(other: np.ndarray) -> None:
    assert furthest(lambda: {"x": other}, {"x": np.ones(2, np.float32)}, 1)[1] == {"x": np.inf}
