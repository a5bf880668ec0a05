"""scripts/plugin_vs_native.py: the order of jobs, the report of dead workers, and the tables."""

from __future__ import annotations

from typing import Any

import pytest

import plugin_vs_native as script
from docpages.native_times import native_tables
from harness.jobs import Finding

FIGURES = {"median_us": 12.34, "error": 1.23e-7, "workspace": 1 << 20}
NATIVE = {"median_us": 1234.5, "error": 1.23e-7, "device_memory": 3 << 20, "layers": 9}


def test_the_first_case_of_each_operator_comes_first() -> None:
    jobs = script.jobs_of(["MatrixInverse", "ModulatedDeformableConvolution"], ["float32"])
    assert jobs[:3] == [
        "ModulatedDeformableConvolution:resnet_256x64x64:float32",
        "MatrixInverse:million_poses:float32",
        "ModulatedDeformableConvolution:resnet_512x32x32:float32",
    ]


def test_without_a_gpu_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "find_gpu", lambda: None)
    assert script.main(["--op", "MatrixInverse"]) == 2
    assert "no GPU is found" in capsys.readouterr().err


def test_the_tables_show_figures_and_say_what_is_missing() -> None:
    head: dict[str, Any] = {
        "gpu": "G",
        "driver": "1",
        "packages": {"torch": "2"},
        "date": "2026-01-02T",
        "command": "c",
    }
    found = {"tensorrt": "TensorRT-RTX 9", "plugin": FIGURES, "native": NATIVE}
    rows = [
        script.row_of("MatrixInverse:small:float32", Finding(found), head),
        script.row_of("MatrixInverse:huge:float16", Finding({}, "crashes: SIGABRT"), head),
    ]
    lines = native_tables({**head, "rows": rows}).splitlines()
    assert "| small | float32 | 12.3 | 1,234 | ×100.0 | 1.2e-07 | 1.2e-07 | 1.0 | 3.0 | 9 |" in lines
    assert "| huge | float16 | - | - | - | - | - | - | - | - |" in lines
    assert "Not measured, native: crashes: SIGABRT (huge float16)." in lines
    assert lines[-1].startswith("G, driver 1, TensorRT-RTX 9, PyTorch 2, 2026-01-02, `c`.")
