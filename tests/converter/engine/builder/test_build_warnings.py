"""Each real warning of TensorRT gets its sentence, and each sentence appears once."""

from __future__ import annotations

import re
import string
from pathlib import Path
from typing import Any

import pytest

from tests.builds import FLAVOUR, build_in_pool
from tests.converter.models import written
from trtsmith.converter.engine.builder.build_request import BuildRequest
from trtsmith.converter.engine.builder.build_warnings import WARNINGS, WarningList
from trtsmith.converter.engine.builder.messages import Messages


def said(*lines: str) -> tuple[str, ...]:
    warnings = WarningList()
    for line in lines:
        warnings.add(line)
    return warnings.sentences()


# Lines that TensorRT-RTX 1.7 wrote; those about memory and weights are from the libraries' strings. How the sentence begins.
LINES = [
    ("Unused Input: z", "input 'z': no node reads it"),
    ("Detected layernorm nodes in FP16.", "a layer normalization written in single operators"),
    ("Detected layernorm nodes in FP16: /enc/norm, /dec/norm", "node '/enc/norm': a layer normalization"),
    (
        'onnxOpImporters.cpp:5202: TensorRT currently ignores the "seed" field in RandomUniform or RandomNormal op. Random '
        "seeds will be used.",
        "TensorRT ignores the attribute 'seed'",
    ),
    (
        "onnxOpImporters.cpp:1980: TensorRT supports QuantizeLinear/DequantizeLinear with UINT8 zero_point only on DLA "
        "(version >= 3.16). Defaulting to INT8 instead. To import as UINT8, set the kIMPORT_UINT8_QUANTIZATION flag.",
        "TensorRT quantizes to int8 where the model has uint8",
    ),
    (
        "WeightsContext.cpp:80: One or more weights outside the range of FLOAT was clamped",
        "the model has weights outside the range of FLOAT",
    ),
    (
        "- 62 weights are affected by this issue: Detected subnormal FP16 values.",
        "62 weights are subnormal in FP16",
    ),
    (
        "- 26 weights are affected by this issue: Detected values less than smallest positive FP16 subnormal value and "
        "converted them to the FP16 minimum subnormalized value.",
        "26 weights are smaller than any FP16 number",
    ),
    (
        "- 1 weights are affected by this issue: Detected finite FP32 values which would overflow in BF16 and converted "
        "them to the closest finite BF16 value.",
        "1 weights are too large for BF16",
    ),
    (
        "TensorRT supports ONNX graphs generated with at least opset 7. Models using older",
        "the model's opset is below 7",
    ),
    (
        "Attribute axis not found in plugin node! Ensure that the plugin creator has a default value defined or the engine "
        "may fail to build.",
        "a plugin node lacks the attribute 'axis'",
    ),
    (
        "IPluginV3 ignores some format combinations because combination limit of 100",
        "a plugin accepts more than 100",
    ),
    (
        "Tactic Device request: 5123MB Available: 4096MB. Device memory is insufficient to use tactic.",
        "TensorRT skipped tactics",
    ),
    (
        "UNSUPPORTED_STATESkipping tactic 3 due to insufficient memory on requested size of 5372379136 detected for tactic "
        "0x0000000000000004.",
        "TensorRT skipped tactics",
    ),
    (
        "Profile kOPT values are not self-consistent. ",
        "the OPT shapes of the optimization profile contradict",
    ),
    (
        "To achieve better performance on this platform, Q/DQ nodes will not be fused because INT8 is slower than FP16.",
        "on this GPU int8 is slower",
    ),
    (
        "CUDA lazy loading is not enabled. Enabling it can significantly reduce device memory usage and speed up TensorRT "
        "initialization.",
        "CUDA loads all kernels at start",
    ),
    (
        "Failed to deserialize timing cache. Returning an empty timing cache.",
        "the timing cache comes from another",
    ),
]
NOTHING = [
    "ModelImporter.cpp:1303: Make sure output output_1 has Int64 binding.",
    "onnxOpImporters.cpp:4022: For loop node /loop both a trip limit and a loop termination condition was set! If the "
    "number of iterations of the loop is less than the trip limit during runtime, scan output s may have the wrong "
    "shape. For consistent results it's recommended to export loops with only a trip limit.",
    "[RemoveDeadLayers] Input Tensor n is unused or used only at compile-time, but is not being removed.",
    "Running layernorm after self-attention with FP16 Reduce or Pow may cause overflow. Forcing Reduce or Pow Layers in "
    "FP32 precision, or exporting the model to use INormalizationLayer (available with ONNX opset >= 17) can help "
    "preserving accuracy.",
    "WeightsContext.cpp:73: Weight at index 0: 1e+300 is out of range. Clamping to: 3.40282e+38",
    "TensorRT encountered issues when converting weights between types and that could affect accuracy.",
    "If this is not the desired behavior, please modify the weights or retrain with regularization to adjust the magnitude "
    "of the weights.",
    "Check verbose logs for the list of affected weights.",
    'Scatter was deprecated in Opset 11. Node: "s" will be converted to ScatterElements.',
    "/reshape: Using attribute allowzero with opset < 14 is a TensorRT extension.",
    "A node named /add already exists, the output tensors of this new instance will not be queryable.",
    "The timing cache will not be used!",
    "WeightsContext.cpp:525: Empty initializer roi was provided with non-empty data. Overriding data to nullptr",
]


@pytest.mark.parametrize(("line", "beginning"), LINES)
def test_a_line_in_our_words(line: str, beginning: str) -> None:
    (sentence,) = said(line)
    assert sentence.startswith(beginning)


@pytest.mark.parametrize("line", NOTHING)
def test_a_line_that_changes_nothing_is_left_out(line: str) -> None:
    assert said(line) == ()


def test_every_row_has_a_real_line() -> None:
    lines = [*(line for line, _ in LINES), *NOTHING]
    taken = {next((row.pattern for row in WARNINGS if re.search(row.pattern, line)), None) for line in lines}
    assert taken == {row.pattern for row in WARNINGS}


def test_one_sentence_for_many_nodes() -> None:
    many = [f"Unused Input: x{i}" for i in range(4)]
    assert said(*many) == ("input 'x0' and 3 more: no node reads it; the engine still asks for an array",)


def test_an_unknown_warning_comes_once_as_tensorrts_words() -> None:
    assert said("Layer /a/1 is odd", "Layer /b/2 is odd", "That is all") == (
        "TensorRT says: Layer /a/1 is odd (2 times)",
        "TensorRT says: That is all",
    )


def test_of_very_many_unknown_kinds_the_first_are_told() -> None:
    words = [a + b for a in string.ascii_lowercase for b in string.ascii_lowercase]
    told = said(*(f"Something is {word}" for word in [*words, *words]))
    assert told == tuple(f"TensorRT says: Something is {word} (2 times)" for word in words[:50])


def test_the_log_keeps_what_is_left_out(tmp_path: Path) -> None:
    nobody: Any = None
    messages = Messages(tmp_path / "log", False, nobody)
    messages.add("WARNING", NOTHING[0])
    assert messages.warnings() == () and "Int64 binding" in (tmp_path / "log").read_text()


def test_warnings_of_a_real_build(tmp_path: Path) -> None:
    body = "(float16[2,8] x, float16[2,8] z) => (float16[2,8] y) { y = Relu (x) }"
    model = written(tmp_path / "m.onnx", body)
    result = build_in_pool(BuildRequest(model, tmp_path / "m.plan", flavour=FLAVOUR))
    assert result.warnings == ("input 'z': no node reads it; the engine still asks for an array",)
