"""Each real message of TensorRT is explained by its own row of the table."""

from __future__ import annotations

import pytest

from trtsmith.converter.engine.builder import log as build_log
from trtsmith.converter.engine.builder.explain import CODES, EXPLANATIONS, explain, find_explanation, reasons
from trtsmith.converter.engine.child.exits import describe_exit

CUDA_35 = "cudaError 35: CUDA driver version is insufficient for CUDA runtime version"

# Messages as TensorRT, its parser or the dynamic loader write them, and a word of the fix that must come.
MESSAGES = [
    ('creator && "Plugin not found, are the plugin name, version, and namespace correct?"', "--plugins"),
    (
        "Cannot deserialize plugin since corresponding IPluginCreator Creator not found in Plugin Registry",
        "--embed",
    ),
    ("Error Code 3: (SymbolAddress for getCreators could not be loaded, check function name)", "export one"),
    (
        "Cannot register the library as plugin creator of Identity exists already. In loadLibraryCommon",
        "once",
    ),
    ("libx.so: undefined symbol: getPluginRegistry", "-lnvinfer"),
    ("libx.so: undefined symbol: _ZN3foo3barEv", "ldd -r"),
    ("libcudart.so.12: cannot open shared object file: No such file or directory", "LD_LIBRARY_PATH"),
    ("Error Code 9: could not find any supported formats consistent with input/output data types", "inspect"),
    (
        "Assertion !formatTacticCombinations.empty() failed. Failed to find any supported plugin format",
        "inspect",
    ),
    ("number of format combinations 6561 exceeds the limit", "supportsFormatCombination"),
    ("Could not create the plugin", "attributes"),
    ("Node has more output tensors than TRT expected", "name the outputs"),
    ("PluginV3Layer: Assertion (input) != nullptr failed", "neutral"),
    ("Network has dynamic or shape inputs, but no optimization profile has been defined.", "--shapes"),
    ("IElementWiseLayer: must have same input types. But they are of types Half and Float.", "Cast"),
    (
        "creator && kV3ONE: NonZero plugin creator version 1 was not found in plugin registry. [importNonZero]",
        "declare",
    ),
    ("Assertion !layerImpls.empty() failed. y has no runners that implement it", "outside"),
    (
        "[Select]: ISelectLayer must have `thenInput` and `elseInput` of same types but has Half and Float.",
        "Cast",
    ),
    (
        "ITensor::getDimensions: Error Code 4: Shape Error (reshape changes volume. Reshaping [3,5,4] to [3,4].",
        "shape",
    ),
    (
        "Assertion failed: resolvedWeights(axesWeights): Axis input must resolve to a build-time constant (an initializer)!",
        "--freeze",
    ),
    ("Assertion failed: status.is_success(): Found unsupported input type of BOOL", "cast"),
    (
        "Cannot compile for target(s) sm80, because the model contains HW-specific datatypes: fp8_e4m3. In compileGraph",
        "--precision fp16",
    ),
    ("UINT8 types for intermediate tensors are not supported", "Cast"),
    ("Version tag does not match. Note: Current Version: 240, Serialized Engine Version: 239", "again"),
    ("CUDA error 700: an illegal memory access was encountered", "compute-sanitizer"),
    (
        "Myelin ([tactic.cpp:1676: enumerate_tactics] Tactic Selection: no tactics to implement the operation within "
        "workspace limit. Consider increase the allowed workspace size if applicable.; [tactic.cpp:264: run]",
        "--workspace is in MiB",
    ),
    ("Could not find any implementation for node {ForeignNode[a...b]}", "--workspace"),
    (
        "Myelin (Cannot compile operation 'm1' for Turing (SM75): FP32 GEMM is not supported.",
        "sm75 out of --target;",
    ),
    ("ISymbolicExpr: contradictory assertions about the dimension ?", "dim_param"),
    (
        "MyelinCheckException: tensor-ds.cpp:186: CHECK(vm->name_to_tensor_index .emplace(tens->name(), 1) .second) failed.",
        "--precision bf16",
    ),
    ("cudaError 35: CUDA driver version is insufficient for CUDA runtime version", "--flavour tensorrt_rtx"),
    ("Failed to parse the ONNX model.", "again"),
    ("convertOnnxWeights(initializer, &weights): Failed to import initializer: w0", "data files"),
]


@pytest.mark.parametrize(("message", "word"), MESSAGES)
def test_message_finds_its_row(message: str, word: str) -> None:
    problem = explain(message, "node 'n' (Op)")
    assert word in problem.fix
    assert message in problem.what
    assert problem.where == "node 'n' (Op)"
    assert problem.expected


def test_every_row_is_reached_by_some_message() -> None:
    reached = {id(find_explanation(message)) for message, _ in MESSAGES}
    # memory and external data are said in several ways; one message each
    for message in ("insufficient memory", "Out of memory", "failed to open external data file w.bin"):
        reached.add(id(find_explanation(message)))
    assert [row.fragments for row in EXPLANATIONS if id(row) not in reached] == []


def test_code_is_used_when_no_fragment_fits() -> None:
    assert find_explanation("false", "UNSUPPORTED_NODE") is CODES["UNSUPPORTED_NODE"]
    assert find_explanation("Plugin not found", "UNSUPPORTED_NODE") is EXPLANATIONS[0]
    assert find_explanation("false") is None
    assert "false" in explain("false", "here").what


def test_long_messages_keep_their_end_where_the_reason_is() -> None:
    myelin = f"Error during shape inference of {'x' * 2000}\nError is:\nthe extent of dimension 0"
    assert "Error is: the extent of dimension 0" in explain(myelin, "here").what
    what = explain("x" * 50000 + " Error is: this", "here").what
    assert len(what) < 7000
    assert what.endswith("Error is: this")


@pytest.mark.parametrize("noise", [CUDA_35, f"{CUDA_35}\n", f"In catchCudaError at x.cpp:1 ({CUDA_35})"])
def test_the_missing_gpu_is_named_only_where_nothing_else_is(noise: str) -> None:
    problem = explain(f"{noise}\nMyelin (the extent is wrong)", "here", rtx=True)
    assert problem.what == "TensorRT refused the model. TensorRT says: Myelin (the extent is wrong)"
    assert reasons([noise, "the extent is wrong"]) == ["the extent is wrong"]
    assert reasons([noise]) == [noise]
    assert "--flavour tensorrt_rtx" in explain(CUDA_35, "here").fix
    alone = explain(CUDA_35, "here", rtx=True)
    assert "--flavour" not in alone.fix
    assert "the missing GPU" in alone.what


def test_last_node_of_a_log() -> None:
    log = (
        "VERBOSE: Static check for parsing node: c1 [Conv]\nVERBOSE: Parsing node: c1 [Conv]\n"
        "VERBOSE: Parsing node: odd [name] [Relu]\nINFO: words\n"
    )
    assert build_log.last_node(log) == "node 'odd [name]' (Relu)"
    building = log + "VERBOSE: =============== Computing costs for {ForeignNode[c1...odd]}\n"
    assert build_log.last_node(building) == "{ForeignNode[c1...odd]}"
    assert build_log.last_node("INFO: nothing\n") is None
    read = "VERBOSE: Parsing node: last [Relu]\n"
    assert build_log.last_node(read) == "node 'last' (Relu)"
    assert build_log.last_node(read, parsing=False) is None
    assert build_log.last_node(f"{read}VERBOSE: Computing costs for c1\n", parsing=False) == "c1"


def test_exit_is_described() -> None:
    assert "SIGSEGV" in describe_exit(-11)
    assert "out of memory" in describe_exit(-9)
    assert describe_exit(127) == "exited with code 127"


def test_tail_drops_banner_and_node_lines() -> None:
    log = (
        "INFO: "
        + "-" * 40
        + "\nINFO: Opset version:    17\nVERBOSE: Parsing node: a [Relu]\nterminate called\n"
    )
    assert build_log.tail(log) == "    terminate called"
