"""Explains TensorRT's messages: a table of message fragments, each with its cause and its fix."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from trtsmith.importers.problem import Problem


@dataclass(frozen=True)
class Explanation:
    """The meaning of a message of TensorRT.

    fragments: all of them occur in the message (lower case is compared with lower case).
    cause:     what went wrong. expected and fix: as in Problem.
    """

    fragments: tuple[str, ...]
    cause: str
    expected: str
    fix: str


NO_GPU = Explanation(
    ("driver version is insufficient",),
    "This needs a GPU, and there is none, or its driver is older than TensorRT's CUDA.",
    "a GPU with a driver that is new enough",
    "install a newer driver, or build with TensorRT-RTX, which needs no GPU: --flavour tensorrt_rtx",
)
"""The message comes beside any failure on a machine without a GPU, and is the cause only where it is alone."""

# The first row that matches wins, so a special case stands above the general one.
EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        ("plugin not found",),
        "TensorRT has neither an importer nor a registered plugin for this operator.",
        "an operator that TensorRT imports, or a plugin library that has this name, version and namespace",
        "'trtsmith check' shows how each node reaches TensorRT; give the plugin's library with --plugins "
        "(plugin_version and plugin_namespace must be string attributes)",
    ),
    Explanation(
        ("creator not found",),
        "The engine needs a plugin whose creator is not registered.",
        "the plugin library, loaded before the engine",
        "give the library with --plugins (trtexec: --dynamicPlugins), or build with --embed-plugins",
    ),
    Explanation(
        ("symboladdress", "getcreators"),
        "The library has no function getCreators, so TensorRT cannot load plugins from it.",
        "a library that exports getCreators (TensorRT 10's way) or getPluginCreators",
        "export one of them, or load the library with the tool that it was written for",
    ),
    Explanation(
        ("exists already",),
        "A plugin of this name, version and namespace is registered already.",
        "each plugin registered once",
        "give the library once, and do not load a library that is embedded in the engine",
    ),
    Explanation(
        ("undefined symbol", "getpluginregistry"),
        "The library registers its plugins when it is loaded, but is not linked with TensorRT.",
        "a library that is linked with libnvinfer, or one that exports getCreators",
        "link it with -lnvinfer, or give it getCreators and drop REGISTER_TENSORRT_PLUGIN",
    ),
    Explanation(
        ("undefined symbol",),
        "The library needs a symbol that no library here has.",
        "a library with all of its dependencies",
        "'ldd -r LIBRARY' lists what is missing; put the folder that has it on LD_LIBRARY_PATH, or link it",
    ),
    Explanation(
        ("cannot open shared object file",),
        "A shared library that is needed was not found.",
        "the library, and all that it is linked with, where the loader looks",
        "'ldd LIBRARY' shows which one is missing; put its folder on LD_LIBRARY_PATH",
    ),
    *(
        Explanation(
            (fragment,),
            "The plugin accepts none of the types and formats that the network offers it.",
            "a plugin that accepts linear tensors of the network's types",
            "convert the node's inputs to a type of the plugin ('trtsmith plugin inspect LIBRARY' lists them)",
        )
        for fragment in ("could not find any supported formats", "failed to find any supported plugin")
    ),
    Explanation(
        ("combination", "limit"),
        "The plugin accepts more format combinations than TensorRT tries.",
        "at most 100 combinations, unless getFormatCombinationLimit says more",
        "let supportsFormatCombination tie the types of all ports to the first one",
    ),
    Explanation(
        ("could not create the plugin",),
        "The plugin's creator returned nothing: it rejected a field.",
        "all fields of the creator, with values that it accepts",
        "'trtsmith plugin inspect LIBRARY' lists the fields; correct the node's attributes",
    ),
    Explanation(
        ("more output tensors",),
        "The node has another number of outputs than its plugin.",
        "exactly the outputs of the plugin, all of them named",
        "name the outputs that are not used, or remove those that the plugin does not have",
    ),
    Explanation(
        ("(input) != nullptr",),
        "An optional input of a plugin node is left out ('').",
        "a tensor at every input",
        "give the node a tensor of neutral values there, or a plugin version without that input",
    ),
    Explanation(
        ("no optimization profile",),
        "An input has dynamic dimensions, but no sizes were given for it.",
        "the smallest, usual and largest size of every dynamic input",
        "--shapes NAME=MIN:OPT:MAX, one for each input, such as --shapes x=1x3x64x64:1x3x64x64:8x3x64x64",
    ),
    *(
        Explanation(
            (fragment,),
            "The node's inputs have different types, and TensorRT converts none by itself.",
            "one type at all inputs, since the network is strongly typed",
            "put a Cast before the input that differs",
        )
        for fragment in ("must have same input types", "of same types but has")
    ),
    Explanation(
        ("reshape changes volume",),
        "A Reshape asks for another number of elements than its input has.",
        "a shape with as many elements as the input",
        "correct the shape where the model is exported, or the sizes in --shapes if it follows from them",
    ),
    Explanation(
        ("must resolve to a build-time constant",),
        "The model computes this operand of the node, and TensorRT needs it as a constant.",
        "an initializer, or a value that follows from initializers",
        "--freeze INPUT=VALUE if it comes from an input of the model; else export it as a constant",
    ),
    Explanation(
        ("found unsupported input type",),
        "TensorRT does not compute this operator in the type of its input.",
        "another element type",
        "cast the node's inputs to float32, and its outputs back, where the model is exported",
    ),
    Explanation(
        ("uint8", "intermediate"),
        "UINT8 is only for inputs and outputs of the network.",
        "another type inside the network",
        "put a Cast to float after the UINT8 input, and one to UINT8 before the output",
    ),
    Explanation(
        ("plugin creator version", "was not found in plugin registry"),
        "TensorRT-RTX's parser makes this operator a plugin of TensorRT's, which TensorRT-RTX does not have.",
        "an operator that this TensorRT runs",
        "if the number of results is fixed, declare it as the output's shape in the model; else end the model before the "
        "node and do the rest outside of the network, or build with the full TensorRT",
    ),
    Explanation(
        ("has no runners that implement it",),
        "This TensorRT has a layer for the operator, but no kernel for the layer.",
        "an operator that this TensorRT runs: TensorRT-RTX has no NonMaxSuppression, for one",
        "end the model before the node and do the rest outside of the network, or build with the full TensorRT",
    ),
    Explanation(
        ("version tag does not match",),
        "The engine was built by another version of TensorRT.",
        "the version that runs it",
        "build the engine again with this version",
    ),
    Explanation(
        ("illegal memory access",),
        "A kernel read or wrote memory that is not its own; most often this is a plugin's.",
        "kernels that read and write only inside their tensors",
        "'trtsmith plugin test LIBRARY' runs each kernel against its reference; then compute-sanitizer",
    ),
    Explanation(
        ("within workspace limit",),
        "No kernel for this node runs in so little workspace.",
        "a workspace as large as a kernel needs",
        "leave the limit out, or raise it: --workspace is in MiB, and 4096 are 4 GiB",
    ),
    Explanation(
        ("could not find any implementation for node",),
        "No kernel fits this node: too little workspace, or a combination that the optimiser cannot build.",
        "a node, or a fused group of nodes, that a kernel exists for",
        "give more memory with --workspace, which is in MiB, or split the group by making a tensor inside it an output",
    ),
    Explanation(
        ("cannot compile for target", "datatypes"),
        "The model has an element type that one of the target GPUs lacks.",
        "GPUs that have the type: bf16 from sm80, fp8 from sm89, fp4 from sm100",
        "leave that GPU out of --target, or convert with --precision fp16",
    ),
    Explanation(
        ("cannot compile operation", "turing"),
        "TensorRT-RTX has no fp32 kernels for this operation on Turing GPUs (sm75).",
        "fp16 there, or targets from sm80 up",
        "leave sm75 out of --target; --precision fp16 helps where the node is not kept in float32, by --keep-fp32, "
        "--accumulate fp32 or a neighbour of float32, such as a plugin",
    ),
    Explanation(
        ("contradictory",),
        "Dimensions that share a name in the ONNX file have different sizes.",
        "one name for dimensions that are always equal",
        "rename the dimensions (dim_param) that may differ",
    ),
    *(
        Explanation(
            (fragment,),
            "There is not enough memory for the build.",
            "memory for weights and workspace",
            "end other programs on the GPU (`nvidia-smi` lists them), or lower --workspace",
        )
        for fragment in ("insufficient memory", "out of memory")
    ),
    Explanation(
        ("failed to parse", "onnx"),
        "The file is not a complete ONNX model.",
        "an ONNX file, with its external data beside it",
        "export or copy the model again",
    ),
    Explanation(
        ("failed to import initializer",),
        "A weight could not be read: its external data is missing or too short, or its type unsupported.",
        "the external data files in the model's folder, complete, of a type that TensorRT has",
        "copy the data files beside the model, or save the model again with its weights inside",
    ),
    Explanation(
        ("external data",),
        "A weight that is stored outside the ONNX file could not be read.",
        "the external data files in the model's folder, complete",
        "copy them beside the model, or save the model again with its weights inside",
    ),
    Explanation(
        ("tensor-ds.cpp", "name_to_tensor_index"),
        "TensorRT-RTX gave two tensors of the engine one name: a fault of its own, seen in DETR in float16 with the scales "
        "of zero that an untrained network has.",
        "layers that TensorRT-RTX joins in another way",
        "trained weights, --precision bf16, or --precision fp16 --keep-fp32 Add: DETR runs in any of these ways",
    ),
    NO_GPU,
)

# When no fragment fits, the parser's error code still says something.
CODES: dict[str, Explanation] = {
    "UNSUPPORTED_NODE": Explanation(
        (),
        "TensorRT's ONNX parser does not import this operator, or not with these attributes and types.",
        "an operator as TensorRT supports it",
        "'trtsmith check' shows how each node reaches TensorRT; give a plugin library with --plugins, or write the node "
        "in standard operators",
    ),
    "UNSUPPORTED_NODE_ATTR": Explanation(
        (),
        "TensorRT's ONNX parser does not support an attribute of this node.",
        "attributes as TensorRT supports them",
        "export the node with another value of that attribute, or rewrite it",
    ),
    "UNSUPPORTED_NODE_INPUT": Explanation(
        (),
        "TensorRT's ONNX parser does not support an input of this node; often it must be a constant.",
        "inputs as TensorRT supports them",
        "make the input an initializer (constant folding does this where the value is known)",
    ),
    "UNSUPPORTED_NODE_DATATYPE": Explanation(
        (),
        "TensorRT does not support a data type of this node.",
        "float32, float16, bfloat16, int32, int64, int8 or bool",
        "put a Cast around the node",
    ),
    "INVALID_NODE": Explanation(
        (),
        "TensorRT's ONNX parser finds this node invalid.",
        "a node as the ONNX specification describes it",
        "'python -m onnx.bin.checker' or a new export may say more",
    ),
    "MODEL_DESERIALIZE_FAILED": Explanation(
        (),
        "The file is not a complete ONNX model.",
        "an ONNX file, with its external data beside it",
        "export or copy the model again",
    ),
}

_NO_GPU_FOR_RTX = Explanation(
    NO_GPU.fragments,
    "TensorRT-RTX gives no reason but the missing GPU, which most builds do not need.",
    "a build that needs no GPU, or a GPU with a driver that is new enough",
    "build on a machine with a GPU to see whether it is the cause; -v shows TensorRT's whole log",
)

_UNKNOWN = Explanation(
    (),
    "TensorRT refused the model.",
    "a model that TensorRT can build",
    "look for the node and the reason in TensorRT's message; -v shows its whole log",
)

_DRIVER = re.compile(r"driver version is insufficient|\bcudaError ?35\b|catchCudaError", re.IGNORECASE)
_LONGEST = 6000
"""Characters of a message of TensorRT's that are shown: Myelin's have the graph before the reason."""


def find_explanation(message: str, code: str = "", *, rtx: bool = False) -> Explanation | None:
    """Returns the first row whose fragments all occur in the message; else the row of the parser's error code.

    rtx: whether TensorRT-RTX said it, which builds without a GPU.
    """
    low = message.lower()
    for explanation in EXPLANATIONS:
        if all(fragment in low for fragment in explanation.fragments):
            return _NO_GPU_FOR_RTX if rtx and explanation is NO_GPU else explanation
    return CODES.get(code)


def reasons(messages: Sequence[str]) -> list[str]:
    """Picks the messages that say why something failed.

    On a machine without a GPU every error comes with one about the missing driver, as a message or a line of one: noise,
    unless there is nothing else.
    """
    kept = []
    for message in messages:
        lines = [line for line in message.splitlines() if line.strip() and not _DRIVER.search(line)]
        if lines:
            kept.append("\n".join(lines))
    return kept or list(messages)


def explain(message: str, where: str, code: str = "", *, rtx: bool = False) -> Problem:
    """Makes a four-part problem of a message of TensorRT's, which stays in its first part."""
    (message,) = reasons([message])
    explanation = find_explanation(message, code, rtx=rtx) or _UNKNOWN
    return Problem(
        f"{explanation.cause} {SAYS}{one_line(message)}",
        where,
        explanation.expected,
        explanation.fix,
    )


SAYS = "TensorRT says: "
"""Stands before a message of TensorRT's own."""


def one_line(message: str, longest: int = _LONGEST) -> str:
    """Puts the message on one line; a very long one keeps its start and its end, where the reason is."""
    text = " ".join(message.split())
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} ... {text[-half:]}"
