"""Writes calls of other projects' PyTorch operators as the nodes that aliases match.

An alias means the operator of PyTorch whose namespace is its domain and whose name is its op_type, or that in snake_case:
`torchvision::roi_align` is torch.ops.torchvision.roi_align, and `mycompany::VoxelMaxPool` is
torch.ops.mycompany.voxel_max_pool. Tensors are the node's inputs, in the order of PyTorch's schema; all other arguments are
attributes, by their names there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import onnx.defs

from trtsmith.importers.dtypes import NUMBERS, type_string
from trtsmith.importers.opdef import Alias
from trtsmith.importers.registry import operators

_KINDS = {
    "int": onnx.defs.OpSchema.AttrType.INT,
    "bool": onnx.defs.OpSchema.AttrType.INT,
    "float": onnx.defs.OpSchema.AttrType.FLOAT,
    "number": onnx.defs.OpSchema.AttrType.FLOAT,
    "str": onnx.defs.OpSchema.AttrType.STRING,
    "List[int]": onnx.defs.OpSchema.AttrType.INTS,
    "List[bool]": onnx.defs.OpSchema.AttrType.INTS,
    "List[float]": onnx.defs.OpSchema.AttrType.FLOATS,
}
"""Attributes by the types of arguments, as PyTorch's schemas print them."""

_TENSORS = ("Tensor", "Optional[Tensor]")


@dataclass(frozen=True)
class CallArguments:
    """The arguments of an operator of PyTorch, in order. tensors: names of the inputs. attributes: types by name.

    defaults: of attributes; programs leave out what is as its default, and an alias may have another one.
    """

    names: tuple[str, ...]
    tensors: tuple[str, ...]
    attributes: dict[str, str]
    defaults: dict[str, Any]
    outputs: int

    @staticmethod
    def of(schema: Any) -> CallArguments:
        """Reads the arguments from a torch.FunctionSchema."""
        types = {argument.name: str(argument.type) for argument in schema.arguments}
        tensors = tuple(name for name, type_ in types.items() if type_ in _TENSORS)
        others = {name: _plain(type_) for name, type_ in types.items() if name not in tensors}
        defaults = {
            a.name: a.default_value for a in schema.arguments if a.name in others and a.has_default_value()
        }
        return CallArguments(tuple(types), tensors, others, defaults, len(schema.returns))

    def split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Splits one call's arguments into tensors in order, None for an absent one, and given attributes."""
        given = self.defaults | dict(zip(self.names, args, strict=False)) | kwargs
        attributes = {name: given[name] for name in self.attributes if given.get(name) is not None}
        return [given.get(name) for name in self.tensors], attributes


def _plain(type_: str) -> str:
    inner = re.fullmatch(r"Optional\[(.*)\]", type_)
    return inner[1] if inner else type_


def node_of_call(namespace: str, name: str) -> tuple[str, str] | None:
    """Returns (domain, op_type) of the node for a call of torch.ops.<namespace>.<name>, or None without an alias."""
    alias = alias_of_call(namespace, name)
    return None if alias is None else (namespace, alias.op_type)


def alias_of_call(namespace: str, name: str) -> Alias | None:
    """Returns the first alias that means torch.ops.<namespace>.<name>."""
    aliases = [alias for op in operators() for alias in op.aliases if namespace in alias.domains]
    exact = [alias for alias in aliases if alias.op_type == name]
    return next(iter(exact or [alias for alias in aliases if _snake(alias.op_type) == name]), None)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def argument_faults(schema: Any) -> list[str]:
    """Lists the reasons why a call with this schema cannot become a node, one sentence each."""
    told = CallArguments.of(schema)
    return [
        f"its argument {name!r} is of the type {type_}, which no attribute has"
        for name, type_ in told.attributes.items()
        if type_ not in _KINDS
    ]


def translation_of(schema: Any, domain: str, op_type: str) -> Callable[..., Any]:
    """Makes the function that torch.onnx.export calls for an operator: it writes the node `domain::op_type`."""
    from onnxscript.values import Op, Opset

    told = CallArguments.of(schema)
    node = Op(Opset(domain, 1), op_type, _onnx_schema(told, domain, op_type))

    def translate(*args: Any, **kwargs: Any) -> Any:
        tensors, attributes = told.split(args, kwargs)
        while tensors and tensors[-1] is None:
            tensors.pop()
        return node(*tensors, **{name: _value(value) for name, value in attributes.items()})

    return translate


def _value(value: Any) -> Any:
    """A value as an attribute has it: there are no booleans."""
    if isinstance(value, (list, tuple)):
        return [_value(item) for item in value]
    return int(value) if isinstance(value, bool) else value


def _onnx_schema(told: CallArguments, domain: str, op_type: str) -> onnx.defs.OpSchema:
    """Ports of any types: what a node may have, its alias says when the model is converted."""
    formal, option = onnx.defs.OpSchema.FormalParameter, onnx.defs.OpSchema.FormalParameterOption
    anything = [type_string(number) for number in NUMBERS.values()]
    inputs = [
        formal(name, f"T{index}", param_option=option.Optional) for index, name in enumerate(told.tensors)
    ]
    outputs = [formal(f"output_{index}", f"U{index}") for index in range(told.outputs)]
    return onnx.defs.OpSchema(
        op_type,
        domain,
        1,
        inputs=inputs,
        outputs=outputs,
        type_constraints=[(port.type_str, anything, "") for port in (*inputs, *outputs)],
        attributes=[
            onnx.defs.OpSchema.Attribute(name, _KINDS[type_], "", required=False)
            for name, type_ in told.attributes.items()
        ],
    )
