"""Runs the kernels of a user's package on every GPU of this machine, in one process, against their references.

    python3 scripts/ownoperators/package_kernels.py DIR       # DIR was built with trtsmith build-plugins

Every case of every operator, large ones too, in every type, aligned and not, on each GPU; then one plugin on all GPUs in
turns, and in CUDA contexts that are destroyed after it. What `trtsmith plugin test` does (captures, threads, fences) is not
done again. Needs the compiled plugin host, an NVIDIA GPU and its driver, numpy, ml_dtypes and onnx. Exit code 1 if anything
is wrong.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from trtsmith.converter.compile.package_folder import find_package  # noqa: E402
from trtsmith.converter.operators.loading import load_package  # noqa: E402
from trtsmith.converter.operators.sources import OperatorSource  # noqa: E402
from trtsmith.converter.plugin.cases import compute_reference, in_all_dtypes  # noqa: E402
from trtsmith.converter.plugin.checks.checks import CheckFailedError  # noqa: E402
from trtsmith.converter.plugin.checks.checks_gpu import compare  # noqa: E402
from trtsmith.converter.plugin.contract import GpuCase  # noqa: E402
from trtsmith.converter.plugin.host.device_memory import MemoryLayout  # noqa: E402
from trtsmith.converter.plugin.host.enqueue import run_plugin  # noqa: E402
from trtsmith.converter.plugin.host.host import Creator, Host, PluginError  # noqa: E402
from trtsmith.converter.plugin.host.plugin_values import field_values  # noqa: E402

CUDA_SUCCESS = 0


class Driver:
    """CUDA's driver, for its devices and contexts."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        self.devices = count.value

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != CUDA_SUCCESS:
            raise RuntimeError(f"{name}: CUDA error {status}")

    def use(self, device: int) -> None:
        """The primary context of a device, which stays."""
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)

    @contextmanager
    def context(self, device: int) -> Iterator[None]:
        """A context of its own, which is gone afterwards."""
        context = ctypes.c_void_p()
        self._call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        try:
            yield
        finally:
            self._call("cuCtxDestroy_v2", context)


def wrong(creator: Creator, case: GpuCase, offset: int = 0) -> str:
    """What is wrong with the kernel's outputs, or ""."""
    try:
        with creator.create(field_values(case.fields, creator.fields)) as plugin:
            compare(run_plugin(plugin, case.inputs, layout=MemoryLayout(offset=offset)), case)
    except PluginError as error:
        return str(error.problems[0])
    except CheckFailedError as error:
        return error.what
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    package = find_package(parser.parse_args().folder)
    operators = load_package(OperatorSource(str(package.module), str(package.root))).operators
    try:
        driver = Driver()
    except (OSError, RuntimeError) as error:
        print(f"there is no GPU to run kernels on: {error}", file=sys.stderr)
        return 2
    failures = runs = 0

    def note(what: str, case: GpuCase, fault: str) -> None:
        nonlocal failures, runs
        runs += 1
        failures += bool(fault)
        if fault:
            print(f"WRONG {case.plugin}, {case.name}, {what}: {fault}")

    for library in sorted(package.lib.glob("*.so")):
        driver.use(0)
        opened = Host().open(library)
        for op in operators:
            creator = opened.creator(op.name)
            cases = list(in_all_dtypes(op, op.cases, compute_reference))
            for device in range(driver.devices):
                driver.use(device)
                for case in cases:
                    element = min(array.dtype.itemsize for array in case.inputs)
                    for offset in (0, element, 16):
                        note(
                            f"GPU {device}, {offset} bytes into an allocation",
                            case,
                            wrong(creator, case, offset),
                        )
            small = [case for case in cases if max(array.size for array in case.inputs) < 1 << 16]
            for case in small:
                for device in (*range(driver.devices), 0):
                    driver.use(device)
                    note(f"in turns, GPU {device}", case, wrong(creator, case))
            for attempt in range(3):
                with driver.context(driver.devices - 1):
                    note(f"context {attempt + 1} of its own", small[0], wrong(creator, small[0]))
        print(f"{library.name}: {runs} runs on {driver.devices} GPUs so far, {failures} wrong")
    return 1 if failures or not runs else 0


if __name__ == "__main__":
    raise SystemExit(main())
