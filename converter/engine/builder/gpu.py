"""Finds the machine's GPU through the driver, without CUDA toolkit, TensorRT or torch."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR of cuda.h


@dataclass(frozen=True)
class Gpu:
    """A GPU of this machine. compute_capability is (9, 0) for a Hopper."""

    name: str
    compute_capability: tuple[int, int]

    @property
    def target(self) -> str:
        """The form that `--target` takes, such as "sm90"."""
        return "sm{}{}".format(*self.compute_capability)


def driver_cuda() -> int:
    """Returns the newest CUDA that the driver runs, as 13000; 0 without a driver. Starts nothing in the driver."""
    version = ctypes.c_int()
    try:
        failed = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except OSError:
        return 0
    return 0 if failed else version.value


def find_gpu() -> Gpu | None:
    """Returns the first GPU that the driver shows, or None without a driver or a device. Raises nothing."""
    return next(_gpus(), None)


def find_gpus() -> tuple[Gpu, ...]:
    """Returns all GPUs that the driver shows, in its order: that of CUDA_VISIBLE_DEVICES, if set. Raises nothing."""
    return tuple(_gpus())


def _gpus() -> Iterator[Gpu]:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    if cuda.cuInit(0) != 0:
        return
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    name = ctypes.create_string_buffer(256)
    for ordinal in itertools.count():
        calls: tuple[Callable[[], int], ...] = (
            partial(cuda.cuDeviceGet, ctypes.byref(device), ordinal),
            lambda: cuda.cuDeviceGetName(name, len(name), device),
            lambda: cuda.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, device),
            lambda: cuda.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, device),
        )
        if any(call() != 0 for call in calls):  # any() stops at the first call that fails
            return
        yield Gpu(name.value.decode(errors="replace"), (major.value, minor.value))
