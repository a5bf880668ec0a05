"""The contents of aarch64 libraries and their judgement, and the wheel's record."""

from __future__ import annotations

import json

import pytest

from crosscheck.library_contents import Kernel, faults_of, needs, read_images, read_kernels
from envsetup import ROOT, cross, native
from trtsmith.importers.registry import OPS

RECORD = json.loads((ROOT / "benchmarks" / "aarch64.json").read_text(encoding="utf-8"))

# What cuobjdump and readelf print, cut short. CUDA 12's own words differ from CUDA 13's.
DUMP = """
Fatbin elf code:
================
arch = sm_87

64-bit ELF: type=ET_EXEC, ABI=8, sm=87, toolkit=13.0, flags=0x6005704
Sections:
.nv.info
\tAttribute:\tEIATTR_REGCOUNT
.nv.info.first
\t<0x14>
\tAttribute:\tEIATTR_MAX_THREADS
\tFormat:\tEIFMT_SVAL
\tValue:\t0x100 0x1 0x1
\t<0x15>
.nv.info.second
\tAttribute:\tEIATTR_CRS_STACK_SIZE
.text.first

64bit elf: type=2, abi=7, sm=110, toolkit=124, flags = 0x570557
.nv.info.first
\tAttribute:\tEIATTR_MAX_THREADS
\tFormat:\tEIFMT_SVAL
\tValue:\t0x10 0x10 0x2
"""
USAGE = """
Fatbin elf code:
================
arch = sm_87

Resource usage:
 Common:
  GLOBAL:0
 Function first:
  REG:40 STACK:0 SHARED:1024 LOCAL:0 CONSTANT[0]:656 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function second:
  REG:16 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:400 TEXTURE:0 SURFACE:0 SAMPLER:0

Fatbin elf code:
================
arch = sm_110

Resource usage:
 Function first:
  REG:255 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:656 TEXTURE:0 SURFACE:0 SAMPLER:0
"""


def test_kernels_are_read_with_their_launch_bounds() -> None:
    assert read_images(DUMP) == (["12.4", "13.0"], [87, 110])
    assert list(read_kernels(DUMP, USAGE)) == [
        Kernel(87, "first", 40, 1024, 256),
        Kernel(87, "second", 16, 0, None),
        Kernel(110, "first", 255, 0, 512),
    ]


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (Kernel(87, "fits", 128, 49152, 512), None),
        (Kernel(87, "registers", 129, 0, 512), "69632, of 65536"),
        (Kernel(87, "warps come in fours", 255, 0, 225), None),
        (Kernel(87, "no bound", 65, 0, None), "1024 threads of 65 registers"),
        (Kernel(87, "threads", 16, 0, 2048), "2048 threads, of 1024"),
        (Kernel(87, "shared memory", 16, 49153, 32), "49153 bytes"),
    ],
)
def test_a_launch_that_does_not_fit_is_named(kernel: Kernel, why: str | None) -> None:
    assert why in kernel.unfit() if why else kernel.unfit() is None  # type: ignore[operator]


def test_needed_versions_are_the_newest_of_each_interface() -> None:
    said = "Name: GLIBC_2.17  Flags: none\nName: GLIBC_2.4  Flags\nName: GLIBCXX_3.4.21  Flags\nName: GCC_3.0  Flags"
    assert needs(said) == {"GLIBC": "2.17", "GLIBCXX": "3.4.21", "GCC": "3.0"}


def test_faults_of_a_library_are_named() -> None:
    found = {
        "cuda": "13.0",
        "needs": {"GLIBC": "2.34", "GLIBCXX": "3.4.28"},
        "kernels": {"87": {"unfit": {"k": "why"}}},
    }
    assert list(faults_of(found, "cuda13")) == ["it needs GLIBC_2.34, newer than 2.31", "sm 87: k: why"]
    assert "its kernels are of CUDA 13.0" in list(faults_of(found, "cuda12"))


def test_the_record_shows_every_library_and_every_creator() -> None:
    assert RECORD["faults"] == []
    assert set(RECORD["libraries"]) == set(cross.ARCHITECTURES)
    for build, libraries in RECORD["libraries"].items():
        assert list(libraries) == list(native.LIBRARIES)
        for name, found in libraries.items():
            assert list(faults_of(found, build)) == []
            if name != "libtrtsmith_host.so":
                assert "87" in found["kernels"]
    for answers in RECORD["registries"].values():
        for interface in ("V3", "V2"):
            known = [op.name for op in OPS if interface in op.interfaces]
            assert list(answers["asked"][interface]) == known
