"""Loads ONNX's own backend node tests as plain data: model, inputs, expected outputs, and subject."""

from __future__ import annotations

import pickle
import random
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from trtsmith.converter.graph.walk import all_graphs

STRING = onnx.TensorProto.STRING
CLASSICAL = "ai.onnx.ml"
TRAINING = "ai.onnx.preview.training"

RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Operators whose values ONNX does not prescribe: of their outputs only types and shapes are compared."""


@dataclass(frozen=True, eq=False)
class CoverageCase:
    """One test. `group` is "tensors" or another subject: "strings", "images", "ai.onnx.ml", "training".

    operator: the operator that is tested; for its expansions (`_expanded`) too.
    inputs, outputs: arrays by name; lists and None for sequences and optionals.
    random: whether only types and shapes of the outputs are prescribed.
    """

    name: str
    operator: str
    group: str
    model: onnx.ModelProto
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    rtol: float
    atol: float
    random: bool


@cache
def load_cases() -> tuple[CoverageCase, ...]:
    """All cases, by name. Takes seconds the first time, as onnx computes the expected outputs."""
    from onnx.backend.test import loader

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx's cases overflow on purpose
        found: list[Any] = [t for t in loader.load_model_tests(kind="node") if t.model is not None]
    kinds = {test.name: _own_operator(test.model) for test in found}
    return tuple(sorted((_case(test, kinds) for test in found), key=lambda case: case.name))


def write_cases(cases: Iterable[CoverageCase], folder: Path) -> None:
    """Writes a file for each case, for `read_case` in another process."""
    for case in cases:
        (folder / f"{case.name}.case").write_bytes(pickle.dumps(case))


def read_case(name: str, folder: Path) -> CoverageCase:
    case: CoverageCase = pickle.loads((folder / f"{name}.case").read_bytes())
    return case


def choose(
    cases: Sequence[CoverageCase],
    operators: Sequence[str] = (),
    pattern: str = "",
    sample: int = 0,
    seed: int = 0,
) -> list[CoverageCase]:
    """The cases of these operators with matching names, or a fixed random sample of them."""
    chosen = [
        case
        for case in cases
        if (not operators or case.operator in operators) and re.search(pattern, case.name)
    ]
    if 0 < sample < len(chosen):
        chosen = sorted(random.Random(seed).sample(chosen, sample), key=lambda case: case.name)
    return chosen


def _own_operator(model: onnx.ModelProto) -> str:
    return str(model.graph.node[-1].op_type) if model.graph.node else ""


def _case(test: Any, kinds: Mapping[str, str]) -> CoverageCase:
    base = re.sub(r"_expanded.*$", "", test.name)
    operator = kinds.get(base, kinds[test.name])
    graph = test.model.graph
    inputs, outputs = test.data_sets[0]
    types = {node.op_type for part in all_graphs(graph) for node in part.node}
    training = any(
        node.op_type == "Dropout" and len(node.input) > 2 for part in all_graphs(graph) for node in part.node
    )
    return CoverageCase(
        name=test.name,
        operator=operator,
        group=_group(test.model),
        model=test.model,
        inputs=dict(zip([v.name for v in graph.input], map(_array, inputs), strict=False)),
        outputs=dict(zip([v.name for v in graph.output], map(_array, outputs), strict=False)),
        rtol=test.rtol,
        atol=test.atol,
        random=bool(types & RANDOM) or (training and base.startswith("test_training_dropout")),
    )


def _array(value: Any) -> Any:
    """An array from a TensorProto, which some cases have for types that numpy lacks, or from a numpy scalar, which
    onnxruntime refuses.
    """
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def _group(model: onnx.ModelProto) -> str:
    nodes = [node for graph in all_graphs(model.graph) for node in graph.node]
    domains = {node.domain for node in nodes}
    if CLASSICAL in domains:
        return CLASSICAL
    if TRAINING in domains:
        return "training"
    if any(node.op_type == "ImageDecoder" for node in nodes):
        return "images"
    values = (*model.graph.input, *model.graph.output, *model.graph.value_info)
    ends = len(model.graph.input) + len(model.graph.output)
    if any(value.type.WhichOneof("value") in ("sequence_type", "optional_type") for value in values[:ends]):
        return "strings" if any(_has_strings(value.type) for value in values) else "sequences"
    casts = any(a.name == "to" and a.i == STRING for node in nodes for a in node.attribute)
    if any(node.op_type == "TfIdfVectorizer" for node in nodes):
        return "strings"  # it counts words, given as numbers or not
    return "strings" if casts or any(_has_strings(value.type) for value in values) else "tensors"


def _has_strings(type_: onnx.TypeProto) -> bool:
    kind = type_.WhichOneof("value")
    if kind == "tensor_type":
        return bool(type_.tensor_type.elem_type == STRING)
    if kind in ("sequence_type", "optional_type"):
        return _has_strings(getattr(type_, kind).elem_type)
    return False
