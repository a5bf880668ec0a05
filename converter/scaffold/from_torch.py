"""Drafts an operator from a function of PyTorch tensors: schema, reference, ONNX expansion, cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, helper

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.operators.package_files import FUNCTION_FILE
from trtsmith.converter.operators.watched_import import place
from trtsmith.converter.scaffold.case_sizes import chosen_cases, require_one_shape, rules_or_error
from trtsmith.converter.scaffold.draft import Draft
from trtsmith.converter.scaffold.names import Names
from trtsmith.converter.scaffold.node_example import node_example
from trtsmith.converter.scaffold.port_types import port_names, type_variables
from trtsmith.converter.scaffold.reference_source import body_file, of_function
from trtsmith.converter.scaffold.shape_rules import Run, ShapeRules, Sizes
from trtsmith.converter.scaffold.torch_export import exported_body
from trtsmith.converter.scaffold.torch_signature import Scalar, Signature, signature_of
from trtsmith.converter.scaffold.torch_source import ImportedFunction, load_function
from trtsmith.importers.dims import describe
from trtsmith.importers.function_bodies import run_body
from trtsmith.importers.opdef import Attr, Field, Port, Value

_NEAR = 1e-3
"""Relative difference of the exported body to the function, above which sizes count as not taken."""


_OLDEST = 13
"""The first opset that is tried for a body, which the exporter writes in a new one: models may be older."""


def draft_of_function(names: Names, spec: str, examples: Mapping[str, str]) -> Draft:
    """Drafts an operator from a function. Raises UsageError if that is not possible.

    spec: "module:function" or "FILE.py:function". examples: as signature_of takes them.
    """
    where = f"--from-torch {spec}"
    _require_torch(where)
    loaded = load_function(spec)
    signature = signature_of(loaded.function, examples, where)
    called = _Called(loaded, signature, where)
    shapes = {tensor.name: tensor.shape for tensor in signature.tensors}
    dtypes = {tensor.name: tensor.dtype for tensor in signature.tensors}
    first = called.outputs(shapes)
    zeros = called.outputs(shapes, {name: np.zeros_like(a) for name, a in called.inputs(shapes).items()})
    require_one_shape([{str(i): a.shape for i, a in enumerate(made)} for made in (first, zeros)], where)
    out_names = port_names(["output"] * len(first), "output", shapes)
    out_types = {name: called.narrow(array, dtypes) for name, array in zip(out_names, first, strict=True)}
    kinds_in, kinds_out = type_variables(dtypes, out_types, where)
    body, newest = called.exported(shapes, dtypes, out_names)
    older = (o for o in range(_OLDEST, newest) if called.agreeing(body, o, out_names)(shapes) is not None)
    opset = next(older, newest)
    values = {scalar.name: scalar.value for scalar in signature.scalars}
    whole = {s.name: int(s.value) for s in signature.scalars if isinstance(s.value, int) and not s.boolean}
    rules = rules_or_error([shapes], whole, called.agreeing(body, opset, out_names), where)
    op_type = _op_type(names, loaded.operator)
    return Draft(
        names=names,
        doc=_first_line(loaded.function.__doc__ or f"What {loaded.name} computes."),
        origin=f"--from-torch, from {loaded.name}",
        inputs=tuple(
            Port(t.name, kind, len(t.shape), f"parameter {t.name}, such as {describe(t.shape)}")
            for t, kind in zip(signature.tensors, kinds_in, strict=True)
        ),
        outputs=tuple(
            Port(name, kind, array.ndim, f"such as {describe(array.shape)}")
            for name, kind, array in zip(out_names, kinds_out, first, strict=True)
        ),
        fields=tuple(_field(scalar) for scalar in signature.scalars),
        alias=(names.domain, op_type),
        attributes=tuple(Attr(s.name, s.kind, s.default) for s in signature.scalars),
        source=f"{names.domain}, by PyTorch",
        rules=rules.outputs,
        equal=tuple(group for group in rules.free if len(group) > 1),
        fixed=rules.fixed,
        cases=chosen_cases(rules),
        values=values,
        reference=of_function(names, loaded, signature, shapes, dtypes, out_names),
        opset=opset,
        example=_example(
            names, op_type, values, rules, signature.order, out_names, {**dtypes, **out_types}, opset
        ),
        imports="from trtsmith.definitions import "
        f"exported_body, {'is_unedited, ' * bool(loaded.source)}{'python_function, ' * bool(loaded.operator)}wide\n",
        own_imports=f"from {names.snake}.body import BODY{', FUNCTION' * bool(loaded.source)}\n\n",
        torch_line="    torch_reference=_torch_reference,\n",
        node_inputs=signature.order,
        remarks=tuple(
            f"{name} is taken as a number; as a tensor of {values[name]} elements: "
            f"--example {name}={values[name]}:float32"
            for name in signature.guessed
        ),
        files={
            f"{names.snake}/body.py": body_file(names, "PyTorch's exporter", body, opset, loaded.source),
            **({f"{names.snake}/{FUNCTION_FILE}": loaded.source} if loaded.source else {}),
        },
    )


class _Called:
    """The function, called with the values of its example."""

    def __init__(self, loaded: ImportedFunction, signature: Signature, where: str) -> None:
        self.loaded = loaded
        self.signature = signature
        self.where = where

    def inputs(self, sizes: Sizes) -> dict[str, np.ndarray]:
        generator = np.random.default_rng(0)
        drawn: dict[str, np.ndarray] = {}
        for tensor in self.signature.tensors:
            shape = sizes[tensor.name]
            if tensor.dtype == "bool":
                drawn[tensor.name] = generator.uniform(size=shape) < 0.5
            elif tensor.dtype.startswith("int"):
                drawn[tensor.name] = generator.integers(0, 2, size=shape).astype(tensor.dtype)
            else:
                drawn[tensor.name] = generator.normal(size=shape)
        return drawn

    def outputs(self, sizes: Sizes, inputs: Mapping[str, np.ndarray] | None = None) -> list[np.ndarray]:
        """Outputs in float64. Raises UsageError if the function raises or returns anything but tensors."""
        import torch

        given = self.inputs(sizes) if inputs is None else inputs
        try:
            made = self(*(torch.from_numpy(array) for array in given.values()))
        except Exception as error:
            raise UsageError(
                f"the function raises {type(error).__name__}: {error}",
                f"{self.where}, with {', '.join(f'{n} {describe(s)}' for n, s in sizes.items())} in float64; "
                + place(error, self.loaded.name),
                "tensors, or one",
                "correct the function, or give an example that it takes: --example x=2x3x4",
            ) from error
        made = made if isinstance(made, (tuple, list)) else (made,)
        if not made or not all(isinstance(one, torch.Tensor) for one in made):
            kinds = ", ".join(type(one).__name__ for one in made) or "nothing"
            raise UsageError(
                f"the function returns {kinds}",
                self.where,
                "a tensor, or a tuple of tensors",
                "return tensors alone",
            )
        return [one.detach().cpu().numpy() for one in made]

    def __call__(self, *tensors: Any) -> Any:
        fields = {s.name: _argument(s) for s in self.signature.scalars}
        fields |= dict.fromkeys(self.signature.left_out)
        named = dict(zip((t.name for t in self.signature.tensors), tensors, strict=True))
        return self.loaded.function(**named, **fields)

    def agreeing(self, body: str, opset: int, outputs: Sequence[str]) -> Run:
        """Output shapes for accepted sizes at which the body agrees with the function."""

        def run(sizes: Sizes) -> Sizes | None:
            try:
                inputs = self.inputs(sizes)
                right = dict(zip(outputs, self.outputs(sizes, inputs), strict=True))
                made = run_body(body, opset, inputs, outputs)
            except Exception:  # whatever the function does with sizes that it does not take
                return None
            agree = all(made[n].shape == a.shape and _near(made[n], a) for n, a in right.items())
            return {name: array.shape for name, array in right.items()} if agree else None

        return run

    def narrow(self, array: np.ndarray, dtypes: Mapping[str, str]) -> str:
        """The type of an output for inputs of these types: float64 stands for that of the first such input."""
        floats = [dtype for dtype in dtypes.values() if "float" in dtype]
        return (floats[0] if floats else "float32") if array.dtype == np.float64 else str(array.dtype)

    def exported(self, shapes: Sizes, dtypes: Mapping[str, str], outputs: Sequence[str]) -> tuple[str, int]:
        wide = {n: "float32" if "float" in dtype else dtype for n, dtype in dtypes.items()}
        try:
            return exported_body(self, {n: (shape, wide[n]) for n, shape in shapes.items()}, outputs)
        except UsageError:
            raise
        except Exception as error:
            said = str(error).strip().splitlines()
            raise UsageError(
                f"PyTorch cannot export the function to ONNX: {said[0] if said else type(error).__name__}",
                self.where,
                "a function that torch.export and torch.onnx.export take",
                "write it in operators that PyTorch exports, or write the operator by hand: trtsmith op new without "
                "--from-torch",
            ) from error


def _require_torch(where: str) -> None:
    from importlib.util import find_spec

    missing = [name for name in ("torch", "onnxscript") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{missing[0]} is not installed",
            where,
            "PyTorch and its exporter",
            "pip install 'trtsmith[torch]'",
        )


def _near(found: np.ndarray, right: np.ndarray) -> bool:
    if right.dtype.kind != "f":
        return bool(np.array_equal(found, right))
    return bool(np.allclose(found, right, rtol=_NEAR, atol=_NEAR, equal_nan=True))


def _argument(scalar: Scalar) -> Any:
    if scalar.boolean:
        return bool(scalar.value)
    return list(scalar.value) if isinstance(scalar.value, tuple) else scalar.value


def _field(scalar: Scalar) -> Field:
    length = len(scalar.value) if isinstance(scalar.value, tuple) else None
    allowed = (0, 1) if scalar.boolean else ()
    return Field(scalar.name, scalar.kind, f"parameter {scalar.name}", length, scalar.default, None, allowed)


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0].strip()


def _op_type(names: Names, operator: str) -> str:
    """The op_type of nodes; the PyTorch operator's own name where the package's does not mean it."""
    namespace, _, name = operator.partition("::")
    return names.name if namespace != names.domain or name == names.snake else name


def _example(
    names: Names,
    op_type: str,
    values: Mapping[str, Value],
    rules: ShapeRules,
    order: Sequence[str],
    outputs: Sequence[str],
    dtypes: Mapping[str, str],
    opset: int,
) -> bytes:
    """One node, with the sizes and fields of the example."""
    sizes = rules.tried[0]
    inputs = [name if name in sizes else "" for name in order]
    node = helper.make_node(op_type, inputs, [*outputs], name=names.snake, domain=names.domain)
    for name, value in values.items():
        node.attribute.append(helper.make_attribute(name, list(value) if isinstance(value, tuple) else value))
    source = ModelProto(ir_version=10)
    source.opset_import.extend([helper.make_opsetid("", opset), helper.make_opsetid(names.domain, 1)])
    shapes = [rules.first[name] for name in outputs]
    return node_example(source, node, [*sizes], outputs, sizes.values(), dtypes, shapes)
