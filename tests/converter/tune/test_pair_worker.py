"""The child that times engines in turn, on the fake GPU of the benchmarks."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import numpy as np
import pytest

from tests.converter.bench.fakes import FakeDevice, FakeRunner
from trtsmith.converter.engine.runtime.exchange import read_arrays, write_arrays
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.tune import pair_worker
from trtsmith.converter.tune.engine_pair import PairRequest, PairTimes

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def measured(tmp_path: Path, device: FakeDevice, *seconds: float, rounds: int = 5) -> PairTimes:
    """Times of engines that take so long with a CUDA graph, in turn; their outputs for two sets of inputs."""
    inputs = tuple(tmp_path / f"in{number}" for number in range(2))
    for number, folder in enumerate(inputs):
        write_arrays(folder, {"x": X + number, "frozen": X})  # frozen is no input of the engine
    outputs = tuple(tmp_path / f"out{number}" for number in range(2))
    run = RunRequest(Path("m.plan"), flavour="tensorrt_rtx")
    request = PairRequest(tuple(run for _ in seconds), inputs, outputs, rounds)
    assert PairRequest.from_json(request.to_json()) == request
    runners = [FakeRunner(device, compute_s=1.0, graph_s=one) for one in seconds]
    found = pair_worker.measure(request, device, runners, device.clock, pytest.fail)  # type: ignore[arg-type]
    return PairTimes.from_json(found)


def test_each_engine_has_a_time_in_every_round(tmp_path: Path) -> None:
    times = measured(tmp_path, FakeDevice(), 0.002, 0.004)
    assert [len(one) for one in times.ms] == [5, 5] and times.memory == (512, 512)
    np.testing.assert_allclose(times.ms, [[2.0] * 5, [4.0] * 5], rtol=1e-6)
    assert times.ratio().median == pytest.approx(0.5) and times.ratio().is_faster


def test_outputs_are_those_of_the_first_engine(tmp_path: Path) -> None:
    measured(tmp_path, FakeDevice(), 0.001, rounds=0)
    for number in range(2):
        np.testing.assert_array_equal(read_arrays(tmp_path / f"out{number}")["y"], 2 * (X + number))


def test_rounds_that_are_far_off_decide_nothing() -> None:
    noisy = PairTimes(((1.0, 1.0, 1.0, 9.0, 1.0), (1.1, 1.1, 1.1, 1.1, 0.2)), (0, 0))
    ratio = noisy.ratio()
    assert (ratio.low, ratio.median) == (pytest.approx(1 / 1.1), pytest.approx(1 / 1.1))
    assert not ratio.is_faster and not ratio.is_slower  # two rounds are off, and one of them counts


def test_another_search_times_its_engines_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_worker.tempfile, "gettempdir", lambda: str(tmp_path))
    device, held = FakeDevice(), []

    def clock() -> float:
        other = os.open(tmp_path, os.O_RDONLY)
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.append(True)
        else:
            held.append(False)
        finally:
            os.close(other)
        return FakeDevice.clock(device)

    monkeypatch.setattr(device, "clock", clock, raising=False)
    measured(tmp_path, device, 0.001)
    assert held and all(held)
