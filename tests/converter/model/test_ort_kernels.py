"""What onnxruntime computes on the CPU, asked of itself."""

from __future__ import annotations

import onnxruntime.capi.onnxruntime_pybind11_state as ort_state
import pytest

from trtsmith.converter.model.ort_kernels import operators_that_run, without_kernel
from trtsmith.converter.rewrite.rewrite import onnxruntime_runs


def test_a_schema_alone_computes_nothing() -> None:
    for name in ("GroupNorm", "SkipGroupNorm", "BiasSplitGelu", "ComplexMul"):
        assert without_kernel("com.microsoft", name) and not onnxruntime_runs("com.microsoft", name)
    for name in ("Inverse", "MatMulNBits", "SkipLayerNormalization", "Attention", "FastGelu"):
        assert onnxruntime_runs("com.microsoft", name) and not without_kernel("com.microsoft", name)
    for name in ("Conv", "HardSwish", "CenterCropPad", "GroupNormalization", "Constant", "Loop"):
        assert onnxruntime_runs("", name)
    assert not without_kernel("", "EfficientNMS_TRT") and not without_kernel("acme", "Twice")


def test_a_build_that_does_not_tell_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    operators_that_run.cache_clear()
    monkeypatch.delattr(ort_state, "get_all_opkernel_def")
    try:
        assert ("com.microsoft", "GroupNorm") in operators_that_run()
    finally:
        operators_that_run.cache_clear()
