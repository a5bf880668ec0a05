"""The machine's GPU, as reported by a driver that is compiled here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import checkout_environment
from trtsmith.converter.engine.builder.gpu import Gpu

DRIVER = r"""
#include <string.h>
int cuInit(unsigned flags) { return RESULT; }
int cuDeviceGet(int *device, int ordinal) { *device = 7; return ordinal > 1; }
int cuDeviceGetName(char *name, int length, int device) { strncpy(name, "H200", length); return device != 7; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? 9 : attribute == 76 ? 0 : -1;
    return device != 7;
}
"""


@pytest.mark.parametrize(("result", "found"), [(0, Gpu("H200", (9, 0))), (100, None)])
def test_driver_is_asked(tmp_path: Path, result: int, found: Gpu | None) -> None:
    (tmp_path / "driver.c").write_text(DRIVER)
    options = ("-shared", "-fPIC", f"-DRESULT={result}")
    subprocess.run(["gcc", *options, tmp_path / "driver.c", "-o", tmp_path / "libcuda.so.1"], check=True)
    module = "trtsmith.converter.engine.builder.gpu"
    code = f"from {module} import find_gpu, find_gpus; print(find_gpu(), *find_gpus(), sep='\\n')"
    environment = checkout_environment(LD_LIBRARY_PATH=tmp_path)
    shown = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert shown.stdout.splitlines() == [str(found)] * (1 if found is None else 3)


def test_target_is_spelt_as_the_flag_takes_it() -> None:
    assert Gpu("any", (12, 0)).target == "sm120"
