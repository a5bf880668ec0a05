"""Reads CUDA version, GPUs, kernels and dependencies of an aarch64 library, and judges them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envsetup.aarch64_packages import PREFIX, fetched

NEWEST = {"GLIBC": (2, 31), "GLIBCXX": (3, 4, 28), "CXXABI": (1, 3, 12), "GCC": (7, 0, 0)}
"""The versions that Debian 11 has, and JetPack 6 with newer ones."""

CUDA = {"cuda12": "12.", "cuda13": "13."}

REGISTERS, THREADS, STATIC_BYTES = 65536, 1024, 48 * 1024
"""Of one block: CUDA C++ Programming Guide, technical specifications per compute capability; the same from 8.7 to 12.1."""


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel. threads: the largest block, from its launch bound; None without a bound."""

    sm: int
    name: str
    registers: int
    shared_bytes: int
    threads: int | None

    def unfit(self) -> str | None:
        """The reason why a launch with the largest block fails, or None. Warps get registers in steps of 256, four warps at
        a time.
        """
        threads = self.threads if self.threads is not None else THREADS
        warps = -(-threads // 128) * 4
        registers = warps * -(-self.registers * 32 // 256) * 256
        if registers > REGISTERS:
            return f"{threads} threads of {self.registers} registers take {registers}, of {REGISTERS}"
        if threads > THREADS:
            return f"{threads} threads, of {THREADS}"
        if self.shared_bytes > STATIC_BYTES:
            return f"{self.shared_bytes} bytes of shared memory, of {STATIC_BYTES}"
        return None


def read_library(path: Path) -> dict[str, Any]:
    """The contents of a library: MiB, CUDA version and GPUs of the kernels, needed versions, kernels by GPU."""
    cuobjdump = fetched("cuda13") / "nvidia/cu13/bin/cuobjdump"
    images = _said([str(cuobjdump), "-elf", str(path)])  # it fails where there is no kernel, as in the host
    usage = _said([str(cuobjdump), "--dump-resource-usage", str(path)])
    readelf = fetched("compiler") / "tools" / f"{PREFIX}readelf"
    kernels = list(read_kernels(images, usage))
    cuda, architectures = read_images(images)
    return {
        "mib": round(path.stat().st_size / 2**20, 1),
        "cuda": " ".join(cuda),
        "architectures": " ".join(map(str, architectures)),
        "needs": needs(_said([str(readelf), "-VW", str(path)])),
        "kernels": {str(sm): _summary([one for one in kernels if one.sm == sm]) for sm in architectures},
    }


def faults_of(library: dict[str, Any], build: str) -> Iterator[str]:
    """The faults in a result of read_library for one of cross.ARCHITECTURES' builds."""
    if library["cuda"] and not library["cuda"].startswith(CUDA[build]):
        yield f"its kernels are of CUDA {library['cuda']}"
    if not library["needs"]:
        yield "nothing could be read of it"
    for name, version in library["needs"].items():
        if tuple(map(int, version.split("."))) > NEWEST[name]:
            yield f"it needs {name}_{version}, newer than {'.'.join(map(str, NEWEST[name]))}"
    for sm, kernels in library["kernels"].items():
        yield from (f"sm {sm}: {name}: {why}" for name, why in kernels["unfit"].items())


def read_images(dump: str) -> tuple[list[str], list[int]]:
    """The compilers' CUDA versions and the compute capabilities, from `cuobjdump -elf`."""
    found = re.findall(r"sm=(\d+), toolkit=(\d+)\.?(\d)", dump)
    return sorted({f"{major}.{minor}" for _, major, minor in found}), sorted({int(sm) for sm, _, _ in found})


def read_kernels(dump: str, usage: str) -> Iterator[Kernel]:
    """The kernels, from `cuobjdump -elf` and `--dump-resource-usage`, which list images in the same order."""
    bounds: dict[tuple[int, str], int] = {}
    for image in re.split(r"\n(?=64-?bit (?:ELF|elf):)", dump)[1:]:
        sm = int(re.findall(r"sm=(\d+)", image)[0])
        for name, text in re.findall(
            r"^\.nv\.info\.(\S+)\n(.*?)(?=^\.\w|\Z)", image, re.MULTILINE | re.DOTALL
        ):
            bound = re.search(r"EIATTR_MAX_THREADS\n.*\n\s*Value:\s*(0x\w+) (0x\w+) (0x\w+)", text)
            if bound:
                x, y, z = (int(size, 16) for size in bound.groups())
                bounds[sm, name] = x * y * z
    for image in usage.split("Fatbin elf code:")[1:]:
        sm = int(re.findall(r"arch = sm_(\d+)", image)[0])
        for name, registers, shared in re.findall(r"Function (\S+):\n\s*REG:(\d+).*? SHARED:(\d+)", image):
            yield Kernel(sm, name, int(registers), int(shared), bounds.get((sm, name)))


def needs(said: str) -> dict[str, str]:
    """The newest needed version of each versioned interface, from `readelf -VW`."""
    newest: dict[str, str] = {}
    for name, version in re.findall(r"Name: ([A-Z]+)_([\d.]+)", said):
        if _parts(version) > _parts(newest.get(name, "0")):
            newest[name] = version
    return newest


def _parts(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _summary(kernels: list[Kernel]) -> dict[str, Any]:
    return {
        "count": len(kernels),
        "unbounded": [one.name for one in kernels if one.threads is None],
        "most_registers": max((one.registers for one in kernels), default=0),
        "most_static_shared_bytes": max((one.shared_bytes for one in kernels), default=0),
        "unfit": {one.name: why for one in kernels if (why := one.unfit())},
    }


def _said(argv: list[str]) -> str:
    return subprocess.run(argv, check=False, capture_output=True, text=True).stdout
