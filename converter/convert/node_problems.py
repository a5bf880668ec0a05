"""Explains why a node cannot reach TensorRT: an unknown operator, or a plugin that cannot be created or run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from trtsmith.converter.base.options.suggestions import misspelt
from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.importers.dims import describe
from trtsmith.importers.fields import check_fields, fields_of_node
from trtsmith.importers.opdef import TYPE_VARIABLES, OpDef
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import (
    PROVIDER_DOMAIN,
    alias_names,
    find_aliases,
    known_domains,
    normalise_domain,
    op_name,
)


@dataclass(frozen=True)
class Elsewhere:
    """An operator that belongs outside an engine. what: its task. fix: where to run it."""

    what: str
    fix: str


_STRINGS = Elsewhere(
    "works on strings, and TensorRT has numbers only",
    "prepare the text before the engine (a tokenizer, or onnxruntime on that part of the model), and cut the model there",
)
_IMAGES = Elsewhere(
    "reads compressed image files",
    "decode the images before the engine (Pillow, OpenCV, nvJPEG), and cut the model behind the decoder",
)
_CLASSIC = Elsewhere(
    "belongs to classical machine learning, which TensorRT does not run",
    "run that part of the model in onnxruntime, and cut the model there",
)
_TRAINING = Elsewhere(
    "updates weights, and an engine's weights are fixed",
    "train in a framework or in onnxruntime-training, and export the model for inference",
)
_SEARCH = Elsewhere(
    "runs a decoder until a sentence ends",
    "convert the decoder by itself, and run the search around its engine (TensorRT-LLM, onnxruntime-genai)",
)
_PACKED = Elsewhere(
    "works on batches without padding, whose sizes depend on values",
    "optimise the model without packing, so that sequences keep their padding",
)
_CACHE = Elsewhere(
    "works in place on a cache that past and present share",
    "export the decoder without shared buffers, so that it has MultiHeadAttention or ONNX's Attention",
)
_COMPILED = Elsewhere(
    "holds a graph that another execution provider has compiled",
    "give the model from before that compilation",
)

_CAFFE2 = Elsewhere(
    "is Caffe2's, of detectron2's former export",
    "export the detector by detectron2's tools/deploy/export_model.py with --export-method tracing --format onnx, "
    "which writes ONNX's own operators",
)

_TENSORFLOW = Elsewhere(
    "is TensorFlow's, and tf2onnx left it as it is",
    "write that part of the model with other operators of TensorFlow; tf2onnx says which ones it does not convert",
)
_CALLED = Elsewhere(
    "calls a function of TensorFlow that tf2onnx did not convert, as Keras's grouped convolutions",
    "before the export, let Keras call it as others: from keras.src.layers.convolutional.base_conv import Conv; "
    "Conv._jit_compiled_convolution_op = Conv.convolution_op",
)


def _each(names: str, place: Elsewhere, domain: str = "") -> dict[tuple[str, str], Elsewhere]:
    return dict.fromkeys(((domain, name) for name in names.split()), place)


_OPERATORS: Mapping[tuple[str, str], Elsewhere] = {
    **_each("RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer", _STRINGS),
    **_each("ImageDecoder", _IMAGES),
    **_each("Gradient", _TRAINING),
    **_each("PartitionedCall StatefulPartitionedCall", _CALLED),
    **_each(
        """ComplexAbs FFT FFT2D FFT3D IFFT IFFT2D IFFT3D IRFFT IRFFT2D RFFT RFFT2D TensorListConcatV2 TensorListFromTensor
        TensorListGetItem TensorListReserve TensorListSetItem TensorListStack""",
        _TENSORFLOW,
    ),
    **_each("Tokenizer", _STRINGS, "com.microsoft"),
    **_each("EPContext", _COMPILED, "com.microsoft"),
    **_each(
        """BBoxTransform BatchPermutation BoxWithNMSLimit CollectAndDistributeFpnRpnProposals CollectRpnProposals
        CopyCPUToGPU CopyGPUToCPU DistributeFpnProposals GenerateProposals""",
        _CAFFE2,
        "org.pytorch._caffe2",
    ),
    **_each("BeamSearch GreedySearch Sampling WhisperBeamSearch", _SEARCH, "com.microsoft"),
    **_each(
        "PackedAttention PackedMultiHeadAttention RemovePadding RestorePadding", _PACKED, "com.microsoft"
    ),
    **_each(
        "DecoderAttention DecoderMaskedMultiHeadAttention DecoderMaskedSelfAttention PagedAttention SparseAttention",
        _CACHE,
        "com.microsoft",
    ),
}

_DOMAINS: Mapping[str, Elsewhere] = {
    "ai.onnx.ml": _CLASSIC,
    "ai.onnx.training": _TRAINING,
    "ai.onnx.preview.training": _TRAINING,
    "ai.onnx.contrib": _STRINGS,
}


_TUTORIALS = "mynamespace"
"""The domain of PyTorch's tutorial, which some projects kept: nodes in it are read, and nobody is told to write it."""


def elsewhere(domain: str, op_type: str) -> Elsewhere | None:
    """Names where to run the operator instead; None for operators that an engine could run."""
    return _OPERATORS.get((domain, op_type)) or _DOMAINS.get(domain)


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """Returns attribute values by name; strings as ONNX's bytes."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def plugin_faults(
    node: onnx.NodeProto,
    op: OpDef,
    shapes: dict[str, tuple[int | None, ...]],
    dtypes: dict[str, str],
    record: Rewrite | None,
) -> Iterator[Problem]:
    """Finds problems that prevent the plugin from being created or run, as far as types and shapes are known."""
    where = f"node {record.node!r} ({record.op_type})" if record else f"node {node.name!r} ({op_name(node)})"
    try:
        fields = fields_of_node(op, attributes_of(node))
    except (KeyError, TypeError) as error:
        yield Problem(
            f"a field is missing: {error}", where, "every field of the plugin", "export the node again"
        )
        return
    refusal = check_fields(op, fields)
    if refusal is not None:
        yield Problem(refusal.reason, where, refusal.expected, refusal.fix)
        return
    fix = "correct the node's inputs where the model is exported"
    connected = {port.name: value for port, value in zip(op.inputs, node.input, strict=False) if value}
    known = {port: shapes[value] for port, value in connected.items() if value in shapes}
    wrong_rank = False
    for port in op.inputs:
        shape = known.get(port.name)
        if shape is not None and port.rank is not None and len(shape) != port.rank:
            wrong_rank = True
            what = f"input {port.name!r} has rank {len(shape)}, shape {describe(shape)}"
            yield Problem(what, where, f"rank {port.rank}: {port.doc}", fix)
        dtype = dtypes.get(connected.get(port.name, ""))
        if dtype is not None and dtype not in TYPE_VARIABLES[port.type]:
            yield Problem(
                f"input {port.name!r} is {dtype}",
                where,
                "one of " + ", ".join(TYPE_VARIABLES[port.type]),
                fix,
            )
    if wrong_rank:
        return
    for fault in op.check(fields, known):
        ports = "; ".join(f"{port.name}: {port.doc}" for port in op.inputs if port.name in connected)
        yield Problem(fault, where, ports, fix)


def unknown_operator(node: onnx.NodeProto, kind: str, model: Path) -> Problem:
    """Returns the problem of a node that neither TensorRT nor a plugin takes, with a suggestion. model: its file."""
    place = elsewhere(normalise_domain(node.domain), node.op_type)
    if place is not None:
        return Problem(
            f"operator {kind} {place.what}",
            f"node {node.name!r} ({kind})",
            "an operator that an engine can run",
            place.fix,
        )
    known = find_aliases(PROVIDER_DOMAIN, node.op_type)
    if known:
        domains = {domain or "none" for _, entry in known for domain in entry.domains or ("",)}
        return Problem(
            f"no importer for operator {kind}",
            f"node {node.name!r} ({kind})",
            f"{node.op_type} in one of the domains {', '.join(sorted(domains - {_TUTORIALS}))}",
            "correct the node's domain if it is that operator, or load a plugin library that has it with --plugins",
        )
    near = next(_like(node), None)
    if near is not None:
        fix = (
            f"did you mean {near!r}, which computes something else if the name is right? `trtsmith ops` lists every alias; "
            f"else write one of your own, from `{new_command(node, model)}`"
        )
    elif normalise_domain(node.domain) in known_domains() or node.domain:
        fix = (
            f"write one of your own, from `{new_command(node, model)}`; or name a package that has it with --ops, or a "
            "library with --plugins"
        )
    else:
        fix = f"export the model without it, or write one of your own, from `{new_command(node, model)}`"
    named = (
        f"node {node.name!r}" if node.name else f"the node of output {next(filter(None, node.output), '')!r}"
    )
    return Problem(
        f"no importer for operator {kind}",
        f"{named} ({kind})",
        "an operator that TensorRT's ONNX parser imports, or one that `trtsmith ops` lists",
        fix,
    )


def _like(node: onnx.NodeProto) -> Iterator[str]:
    """Yields names of operators with the node's numbers of ports that its own may be a misspelling of."""
    names = alias_names()
    # The end of the names of TensorRT's plugins is easily left out.
    like = [f"{node.op_type}_TRT", *misspelt(node.op_type, names)]
    yield from (name for name in like if name in names and _has_ports_of(node, name))
    if not normalise_domain(node.domain):
        schemas = (one for one in onnx.defs.get_all_schemas() if not one.domain)
        standard = [one.name for one in schemas if one.min_input <= len(node.input) <= one.max_input]
        yield from misspelt(node.op_type, standard)


def _has_ports_of(node: onnx.NodeProto, op_type: str) -> bool:
    """Whether an operator of this name fits the node's numbers of inputs and outputs."""
    for op, alias in find_aliases(PROVIDER_DOMAIN, op_type):
        least = sum(not name.endswith("?") for name in alias.inputs)
        most = len(alias.inputs) + len(alias.constants)
        if least <= len(node.input) <= most and len(node.output) <= len(alias.outputs or op.outputs):
            return True
    return False


def new_command(node: onnx.NodeProto, model: Path) -> str:
    """Returns the command that writes a package for the node's operator."""
    from trtsmith.converter.scaffold.names import own_name  # only for a node that is unknown

    command = ["trtsmith", "op", "new", own_name(node.op_type)]
    command += ["--domain", node.domain] if normalise_domain(node.domain) else []
    command += ["--from-model", str(model), "--node", node.name or next(filter(None, node.output), "")]
    return shlex.join(command)
