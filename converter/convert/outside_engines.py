"""Lists operators that no engine can run, and says where to run them instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Elsewhere:
    """what: what the operator does that an engine does not. fix: where to do it."""

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

_OPERATORS: Mapping[tuple[str, str], Elsewhere] = {
    **dict.fromkeys(
        [
            ("", name)
            for name in (
                "RegexFullMatch",
                "StringConcat",
                "StringNormalizer",
                "StringSplit",
                "TfIdfVectorizer",
            )
        ],
        _STRINGS,
    ),
    ("", "ImageDecoder"): _IMAGES,
    ("", "Gradient"): _TRAINING,
    ("com.microsoft", "Tokenizer"): _STRINGS,
    ("com.microsoft", "EPContext"): _COMPILED,
    **dict.fromkeys(
        [("com.microsoft", name) for name in ("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch")],
        _SEARCH,
    ),
    **dict.fromkeys(
        [
            ("com.microsoft", name)
            for name in ("PackedAttention", "PackedMultiHeadAttention", "RemovePadding", "RestorePadding")
        ],
        _PACKED,
    ),
    **dict.fromkeys(
        [
            ("com.microsoft", name)
            for name in (
                "DecoderAttention",
                "DecoderMaskedMultiHeadAttention",
                "DecoderMaskedSelfAttention",
                "PagedAttention",
                "SparseAttention",
            )
        ],
        _CACHE,
    ),
}

_DOMAINS: Mapping[str, Elsewhere] = {
    "ai.onnx.ml": _CLASSIC,
    "ai.onnx.training": _TRAINING,
    "ai.onnx.preview.training": _TRAINING,
    "ai.onnx.contrib": _STRINGS,
}


def elsewhere(domain: str, op_type: str) -> Elsewhere | None:
    """Where to run the operator; None for one that an engine could have."""
    return _OPERATORS.get((domain, op_type)) or _DOMAINS.get(domain)
