"""The GPU's context in threads that use several GPUs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from converter.runtime import device as module
from converter.runtime.device import Device

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
    """cuda-core's Device."""

    def __init__(self, index: int) -> None:
        self.index, self.name, self.compute_capability = index, "Fake GPU", (9, 0)

    def set_current(self) -> None:
        enter(self.index + 1)


def test_each_device_works_in_its_own_context(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: tuple[Any, ...] = (driver(), SimpleNamespace(Device=Core, Buffer=None), None)
    monkeypatch.setattr(module, "_import", lambda: modules)
    monkeypatch.setattr(module, "find_gpu", lambda: object())
    devices = [Device(0), Device(1)]
    for index in (0, 1, 1, 0):
        devices[index].make_current()
        assert devices[index].allocate(8).pointer == index + 1
