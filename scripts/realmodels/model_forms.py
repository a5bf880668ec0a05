"""Makes the forms in which a network is tried, each in a process: python -m realmodels.model_forms FORM IN OUT."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.processes import run_boxed

AS_IT_IS, SAVED, QUANTIZED = "as it is", "saved by onnxruntime", "quantized by onnxruntime"
FORMS = (AS_IT_IS, SAVED, QUANTIZED)

LIMIT_S = 300.0
"""For onnxruntime to make one."""


class NotMadeError(Exception):
    """Raised if onnxruntime cannot make the form."""


def make_form(form: str, original: Path) -> Path:
    """The network in one of FORMS, in a file beside its own. Raises NotMadeError with onnxruntime's last message."""
    if form == AS_IT_IS:
        return original
    path = original.with_name(f"{original.stem}.{form.partition(' ')[0]}.onnx")
    command = [sys.executable, "-m", "realmodels.model_forms", form, str(original), str(path)]
    made = run_boxed(command, LIMIT_S, Path(__file__).resolve().parents[1])
    if made.problem is not None or not path.exists():
        why = (made.output.strip().splitlines() or [made.problem or "nothing was written"])[-1]
        raise NotMadeError(f"onnxruntime cannot make it: {why}")
    return path


def _save(path: Path, target: Path, level: str = "ORT_ENABLE_EXTENDED") -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _quantize(path: Path, target: Path) -> None:
    """Quantizes by onnxruntime's tool, after an optimisation that turns constant nodes into the initializers it needs."""
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
