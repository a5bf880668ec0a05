"""Threads that share an engine: each has its own warm session, and an error loses none."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from fakes import FakeDevice, FakeTensorRT

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.runtime.runner import Runner
from trtsmith.converter.engine.runtime.session_pool import profile_feeds

Open = Callable[..., Runner]


def test_threads_get_their_own_results(open_runner: Open) -> None:
    pool = open_runner(b"double").pool(3)

    def ask(number: int) -> bool:
        x = np.full((1 + number % 8, 3), number, np.float32)
        return np.array_equal(pool({"x": x})["y"], 2 * x)

    with ThreadPoolExecutor(16) as threads:
        assert all(threads.map(ask, range(300)))


def test_a_session_belongs_to_one_thread_at_a_time(open_runner: Open) -> None:
    pool = open_runner(b"double").pool(2)
    with pool.session() as first, pool.session() as second:
        assert first is not second and first.stream != second.stream
        with pytest.raises(TimeoutError, match=r"all 2 sessions were busy for 0\.01 s"):
            pool({"x": np.zeros((1, 3), np.float32)}, timeout=0.01)
    with pool.session() as again:
        assert again is first  # the one that came back last


def test_an_error_gives_the_session_back(open_runner: Open) -> None:
    pool = open_runner(b"double").pool(1)
    for _ in range(2):
        with pytest.raises(UsageError, match="x"):
            pool({"x": np.zeros((1, 4), np.float32)}, timeout=1)
    assert pool({"x": np.ones((1, 3), np.float32)})["y"].tolist() == [[2, 2, 2]]


def test_every_session_is_warm(open_runner: Open, device: FakeDevice, tensorrt: FakeTensorRT) -> None:
    """No session captures a graph, or asks for memory, after warm-up."""
    pool = open_runner(b"double").pool(3, cuda_graph=True)
    x = np.ones((8, 3), np.float32)
    pool.warm_up({"x": x})
    assert device.calls["captures"] == 3
    before = device.calls["captures"], device.calls["allocate"]
    together = threading.Barrier(3)

    def ask(_: int) -> None:
        with pool.session() as session:
            together.wait(10)
            session.infer({"x": x})

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(ask, range(3)))
    assert (device.calls["captures"], device.calls["allocate"]) == before


@pytest.mark.parametrize("name", [b"double", b"constant", b"add", b"empty"])
def test_the_shapes_of_the_profile_are_run_unless_others_are_given(
    name: bytes, open_runner: Open, device: FakeDevice
) -> None:
    runner = open_runner(name)
    pool = runner.pool(1)
    pool.warm_up()
    before = device.calls["allocate"]
    pool(profile_feeds(runner.info, 0)[2])
    assert device.calls["allocate"] == before


def test_two_threads_may_warm_up_at_once(open_runner: Open) -> None:
    """Each takes every session; neither may keep half of them from the other."""
    pool = open_runner(b"double").pool(2)
    together = threading.Barrier(2)
    first = pool._free.get

    def slow(*arguments: object, **options: object) -> object:
        taken = first(*arguments, **options)
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(0.2)  # both have one, if both may have one
        return taken

    pool._free.get = slow
    threads = [threading.Thread(target=pool.warm_up, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)


def test_a_pool_of_no_sessions_is_refused(open_runner: Open) -> None:
    with pytest.raises(UsageError, match="a pool of 0 sessions serves no request"):
        open_runner(b"double").pool(0)


def test_values_that_decide_shapes_are_those_of_the_profile(open_runner: Open) -> None:
    feeds = profile_feeds(open_runner(b"reshape").info, 0)
    assert [given["s"].tolist() for given in feeds] == [[1, 1], [2, 3], [6, 6]]
    assert all(given["x"].tolist() == [1] * 6 for given in feeds)


def test_a_pinned_array_keeps_its_memory(open_runner: Open, device: FakeDevice) -> None:
    runner = open_runner(b"double")
    used = device.used
    array = runner.pinned((2, 3), ml_dtypes.bfloat16)
    assert array.shape == (2, 3) and array.dtype == ml_dtypes.bfloat16 and array.flags.writeable
    row = array[1]
    del array
    gc.collect()
    row[...] = 3  # the fake frees memory for others to write
    assert device.used > used and row.tolist() == [3, 3, 3]
    del row
    gc.collect()
    assert device.used == used
    assert runner.pinned((0, 3)).size == 0


def test_no_memory_that_can_be_locked(open_runner: Open, device: FakeDevice) -> None:
    runner = open_runner(b"double")
    device.capacity = device.used
    with pytest.raises(UsageError, match=r"Page-locked memory for \(4, 3\) of float32 cannot be allocated"):
        runner.pinned((4, 3))
