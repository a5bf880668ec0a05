"""Runs a graph in reduced precision in onnxruntime, with values rounded as declared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.graph.infer import infer_shapes, value_dtypes
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.node_functions import calls_functions
from trtsmith.converter.model.ort import open_session, run_session
from trtsmith.converter.model.ort_kernels import holds_any
from trtsmith.converter.rewrite.local_functions import inlined
from trtsmith.converter.rewrite.precision.emulate import REDUCED, emulated, without_bfloat16
from trtsmith.converter.rewrite.precision.sum_noise import with_float16_sums
from trtsmith.converter.rewrite.rewrite import expand, runnable
from trtsmith.converter.rewrite.types import IoType, to_engine, to_model
from trtsmith.converter.verify.allowance import PROVES, changed_by, moved_by
from trtsmith.converter.verify.findings import Finding
from trtsmith.converter.verify.rounding import rounded
from trtsmith.importers.dtypes import dtype_name
from trtsmith.importers.opdef import Arrays

Run = Callable[[Arrays], dict[str, np.ndarray]]


def run_reduced(
    model: Model,
    feeds: Arrays,
    io_types: Sequence[IoType] = (),
    *,
    float16_sums: bool = False,
    exact: Collection[str] = (),
) -> dict[str, np.ndarray]:
    """Runs a graph in reduced precision, plugin nodes expanded. Outputs have the model's types. Raises ConversionError.

    float16_sums: whether products of float16 are summed in float16, as by TensorRT-RTX. exact: nodes that do not.
    """
    wanted = {value.name for value in model.proto.graph.input}
    given = to_engine({n: v for n, v in feeds.items() if n in wanted}, io_types)
    graph, sums = (
        with_float16_sums(model, exact=exact, feeds=given) if float16_sums else (model, frozenset[str]())
    )
    return to_model(run_in_types(runnable(graph), given, sums), io_types)


def run_in_types(model: Model, feeds: Arrays, unrounded: Collection[str] = ()) -> dict[str, np.ndarray]:
    """Returns all outputs of a model in standard operators, in its own types. Raises ConversionError.

    Nodes of float16 and bfloat16 compute in float32 and round their results once, but for those that are `unrounded`.
    """
    return _InTypes(model, unrounded).run(feeds)


class _InTypes:
    """A session of a model in standard operators that rounds values of float16 and bfloat16 as they are declared."""

    def __init__(self, model: Model, unrounded: Collection[str] = ()) -> None:
        self._wide, self._reduced = in_float32(model, unrounded)
        self._session = open_session(self._wide, optimise=False, in_order=True)

    def run(self, feeds: Arrays) -> dict[str, np.ndarray]:
        given = {n: v.astype(np.float32) if n in self._reduced else v for n, v in feeds.items()}
        found = run_session(self._session, self._wide, given)
        return {
            n: v.astype(np.dtype(self._reduced[n])) if n in self._reduced else v for n, v in found.items()
        }


def opened_in_types(model: Model, *, optimise: bool | None = None, in_order: bool = False) -> Run:
    """Opens a model in standard operators, and returns a function that runs it. Both raise ConversionError.

    A model without 16-bit types runs as onnxruntime has it, and so does one of which a function of the user's computes a
    node, or that cannot be run in its types.
    """
    if holds_any(model.proto, REDUCED) and not calls_functions(model.proto.graph):
        with suppress(ConversionError):
            return _InTypes(model).run
    model = without_bfloat16(model)
    session = open_session(model, optimise=optimise, in_order=in_order)
    return lambda feeds: run_session(session, model, feeds)


def in_float32(model: Model, unrounded: Collection[str] = ()) -> tuple[Model, dict[str, str]]:
    """The model with values of float16 and bfloat16 in float32, rounded; and by name the types of these."""
    whole = infer_shapes(inlined(model))
    names = frozenset(map(dtype_name, REDUCED))
    reduced = {name: dtype for name, dtype in value_dtypes(whole.proto).items() if dtype in names}
    return (emulated(whole, unrounded), reduced) if reduced else (model, {})


STEPS = 0.5
"""An engine in 8 bits may differ from its graph in onnxruntime by so much of what 8 bits change in the network. Values near
the middle between two steps may go to either: if one in 48 does, that is the square root of 12 / 48 of rounding to steps.
Never by more than PROVES, however much 8 bits change."""


@dataclass(frozen=True)
class EightBitOutputs:
    """Outputs of a graph in 8 bits, also with float32 products in TF32, and the tolerances for an engine.

    changes: what 8 bits change of each element of a float output: a value may go to the other step at any of them.
    moved: outputs of the original whose very shape 8 bits change, which are none of these. By name, why.
    """

    plain: dict[str, np.ndarray]
    narrow: dict[str, np.ndarray]
    allowed: Mapping[str, float]
    changes: Mapping[str, np.ndarray]
    moved: Mapping[str, Finding]


def run_quantized(
    model: Model, feeds: Arrays, expected: Arrays, precision: str, io_types: Sequence[IoType] = ()
) -> EightBitOutputs:
    """Runs an 8-bit graph in onnxruntime. expected: the original's outputs. precision: "int8" or "fp8".

    ConversionError if the graph cannot be run; if only its rounding to TF32 cannot, that is taken to change nothing.
    """
    found = run_reduced(model, feeds, io_types)
    expected = {name: value for name, value in expected.items() if name in found}  # and no value that decides
    moved = moved_by(expected, found, precision)
    plain = {name: value for name, value in found.items() if name not in moved}
    try:
        narrow = run_reduced(rounded(expand(model), "tf32"), feeds, io_types)
    except ConversionError:
        narrow = plain
    changed = {name: changed_by(expected[name], value) for name, value in plain.items()}
    allowed = {name: min(STEPS * share, PROVES) for name, share in changed.items()}
    changes = {
        name: np.abs(value.astype(np.float32) - expected[name].astype(np.float32))
        * min(1.0, PROVES / (STEPS * changed[name] or PROVES))
        for name, value in plain.items()
        if value.dtype.kind not in "iub"
    }
    return EightBitOutputs(plain, narrow, allowed, changes, moved)
