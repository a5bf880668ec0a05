"""Defines the data of a new operator before its package is written, from any source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trtsmith.converter.scaffold.names import Names, is_operator_name, is_own_domain
from trtsmith.converter.scaffold.shape_rules import Axis, Sizes
from trtsmith.converter.scaffold.torch_command import FUNCTION, shape_example, torch_command
from trtsmith.importers.opdef import TYPE_VARIABLES, Attr, Field, OpDef, Port, Value

TORCH_NAMES = (
    f"with your function for {FUNCTION}, and before each = the name that the function has for that parameter"
)
"""What a user replaces in torch_command."""


@dataclass(frozen=True)
class Draft:
    """An operator, without a kernel unless it is written in Triton.

    origin:     where it comes from, after "written by `trtsmith op new`", or another command.
    alias:      (domain, op_type) of its nodes. attributes: of these. source: who defines them.
    node_inputs: of these, in their order; one that is no port must be absent. Empty: the ports.
    equal, fixed, rules: its sizes (shape_rules.ShapeRules); rules are None where the rule is to be written by hand.
    cases:      input shapes by name of the case; all have the same fields.
    reference:  Python source of `_reference`, `_expand` and what they need; imports: of other projects, own: of the package.
    torch_line: the line of the OpDef that names its PyTorch form.
    files:      further files of the package, by their paths.
    triton:     the file with its kernel, if that is written in Triton.
    unwritten:  names of the functions that the user has to write, in definition.py, in the order of work.
    no_rule:    body of a shape rule that raises, where it is to be written by hand; "": one that names `unwritten`.
    remarks:    what the user may have meant otherwise, a sentence each.
    version:    of the plugin. has_kernel: whether a CUDA kernel is written beside the definition.
    workspace:  whether that kernel asks for one.
    """

    names: Names
    doc: str
    origin: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    fields: tuple[Field, ...]
    alias: tuple[str, str]
    attributes: tuple[Attr, ...]
    source: str
    rules: Mapping[str, tuple[str, ...]] | None
    equal: tuple[tuple[Axis, ...], ...]
    fixed: tuple[tuple[Axis, int], ...]
    cases: Mapping[str, Sizes]
    values: Mapping[str, Value]
    reference: str
    opset: int
    example: bytes
    imports: str = ""
    own_imports: str = ""
    torch_line: str = ""
    node_inputs: tuple[str, ...] = ()
    files: Mapping[str, bytes] | None = None
    triton: bytes = b""
    unwritten: tuple[str, ...] = ()
    no_rule: str = ""
    command: str = "op new"
    remarks: tuple[str, ...] = ()
    version: str = "1"
    has_kernel: bool = False
    workspace: bool = False

    @property
    def domain(self) -> str:
        """The domain of its nodes, if a package may have it; else that of its names."""
        return self.alias[0] if is_own_domain(self.alias[0]) else self.names.domain

    def torch_command(self, folder: str) -> str:
        """The command that writes the package of a PyTorch function beside the folder, with an example of each parameter.

        It names parameters as the ports and fields, since the function is not known: see TORCH_NAMES.
        """
        name = self.alias[1] if is_operator_name(self.alias[1]) else self.names.name
        first = next(iter(self.cases.values()))
        examples = {
            port.name: shape_example(first[port.name], TYPE_VARIABLES[port.type][0]) for port in self.inputs
        }
        for field, value in self.values.items():
            examples[field] = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        return torch_command(name, self.domain, examples, output=f"{folder}_torch")

    def operator(self) -> OpDef:
        """Returns the declarations of the operator, without rules and functions."""
        return OpDef(
            name=self.names.name,
            doc=self.doc,
            inputs=self.inputs,
            outputs=self.outputs,
            fields=self.fields,
            shape=lambda fields, shapes: {},
            check=lambda fields, shapes: [],
            reference=lambda fields, inputs: {},
            expand=lambda expansion: "",
            cases=(),
            version=self.version,
        )
