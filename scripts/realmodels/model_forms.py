"""Makes the forms in which a network is tried, each in its own process: python -m realmodels.model_forms FORM IN OUT."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

AS_IT_IS, SAVED, QUANTIZED = "as it is", "saved by onnxruntime", "quantized by onnxruntime"
FORMS = (AS_IT_IS, SAVED, QUANTIZED)


def _save(path: Path, target: Path, level: str = "ORT_ENABLE_EXTENDED") -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _quantize(path: Path, target: Path) -> None:
    """onnxruntime's tool wants weights as initializers, which its simplest optimisation makes of constant nodes."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    plain = target.with_suffix(".plain.onnx")
    _save(path, plain, "ORT_ENABLE_BASIC")
    quantize_dynamic(str(plain), str(target), weight_type=QuantType.QInt8)


_MAKERS: Mapping[str, Callable[[Path, Path], None]] = {SAVED: _save, QUANTIZED: _quantize}


def main(form: str, path: str, target: str) -> None:
    try:
        _MAKERS[form](Path(path), Path(target))
    except Exception as error:  # onnxruntime's tools raise whatever they like
        sys.exit(" ".join(str(error).split())[:300])


if __name__ == "__main__":
    main(*sys.argv[1:4])
