"""The GPU's context in threads that use several GPUs, and streams that wait for each other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from trtsmith.converter.engine.runtime import device as module
from trtsmith.converter.engine.runtime.device import Device, DeviceError

current = SimpleNamespace(context=0)


def enter(context: int) -> tuple[int]:
    current.context = context
    return (0,)


def driver() -> Any:
    """Contexts are GPUs counted from 1; memory of a context has its number as the address."""
    return SimpleNamespace(
        cuCtxGetCurrent=lambda: (0, current.context),
        cuCtxSetCurrent=enter,
        cuCtxPushCurrent=enter,
        cuCtxPopCurrent=lambda: (0,),
        cuMemAlloc=lambda size: (0, current.context),
        cuMemFree=lambda pointer: (0,),
    )


class Core:
    """cuda-core's Device. It may be used in threads in which it was made current by its own call."""

    ready = threading.local()

    def __init__(self, index: int) -> None:
        self.index, self.name, self.compute_capability = index, "Fake GPU", (9, 0)

    def set_current(self) -> None:
        enter(self.index + 1)
        self.ready.index = self.index

    def create_event(self) -> str:
        if getattr(self.ready, "index", None) != self.index:
            raise RuntimeError("Device 0 is not yet initialized")
        return f"event of {self.index}"


class CoreStream:
    """cuda-core's Stream. said: (what, stream, event) of every call; refusing: the handle that CUDA refuses."""

    said: ClassVar[list[tuple[str, int, object]]] = []
    refusing = 13

    def __init__(self, handle: int) -> None:
        assert handle, "cuda-core takes no null handle for the default stream"
        self.handle = handle

    from_handle = classmethod(lambda cls, handle: cls(handle))

    def record(self, event: object) -> None:
        if self.handle == self.refusing:
            raise RuntimeError("CUDA_ERROR_INVALID_HANDLE: invalid resource handle")
        self.said.append(("record", self.handle, event))

    def wait(self, event: object) -> None:
        self.said.append(("wait", self.handle, event))


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    core = SimpleNamespace(Device=Core, Buffer=None, Stream=CoreStream)
    modules: tuple[Any, ...] = (driver(), core, None)
    monkeypatch.setattr(module, "_import", lambda: modules)
    monkeypatch.setattr(module, "find_gpu", lambda: object())
    CoreStream.said.clear()


@pytest.mark.usefixtures("fakes")
def test_each_device_works_in_its_own_context() -> None:
    devices = [Device(0), Device(1)]
    for index in (0, 1, 1, 0):
        devices[index].make_current()
        assert devices[index].allocate(8).pointer == index + 1


@pytest.mark.usefixtures("fakes")
def test_a_stream_waits_for_what_others_have_queued() -> None:
    wait = Device(0).waiter(cast(Any, SimpleNamespace(handle=7)))
    for producer in (5, 5, 0):
        wait(producer)
    events = {event for _, _, event in CoreStream.said}
    assert events == {"event of 0"}
    assert [what[:2] for what in CoreStream.said] == [
        ("record", 5), ("wait", 7), ("record", 5), ("wait", 7), ("record", 1), ("wait", 7),
    ]  # fmt: skip


@pytest.mark.usefixtures("fakes")
def test_sessions_are_made_in_threads_that_did_not_open_the_device() -> None:
    device = Device(0)

    def prepare() -> None:
        device.make_current()
        device.waiter(cast(Any, SimpleNamespace(handle=7)))(5)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(prepare).result()
    assert CoreStream.said == [("record", 5, "event of 0"), ("wait", 7, "event of 0")]


@pytest.mark.usefixtures("fakes")
def test_what_cuda_refuses_has_cuda_s_name() -> None:
    wait = Device(0).waiter(cast(Any, SimpleNamespace(handle=7)))
    for _ in range(2):
        with pytest.raises(DeviceError, match="invalid resource handle") as caught:
            wait(CoreStream.refusing)
        assert caught.value.code == "CUDA_ERROR_INVALID_HANDLE"
    wait(5)
    assert CoreStream.said[-2:] == [("record", 5, "event of 0"), ("wait", 7, "event of 0")]
