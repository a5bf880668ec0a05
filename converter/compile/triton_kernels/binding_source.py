"""Writes the binding of an operator whose kernel Triton compiled: the C++ that one would write by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.compile.definitions.definition_source import definition_members
from trtsmith.converter.compile.definitions.rule_source import identifier, text_literal
from trtsmith.converter.compile.definitions.traced_rules import Rules
from trtsmith.converter.compile.triton_kernels.kernel_plan import ImageTarget, KernelPlan, Variant
from trtsmith.importers.opdef import TYPE_VARIABLES, OpDef

_TYPES = {
    "float32": "kFloat32",
    "float16": "kFloat16",
    "bfloat16": "kBFloat16",
    "int32": "kInt32",
    "int64": "kInt64",
    "bool": "kBool",
}


@dataclass(frozen=True)
class Compiled:
    """One binary. offset: in the file of all; warps, shared_bytes: as Triton's metadata has them."""

    variant: Variant
    name: str
    offset: int
    warps: int
    shared_bytes: int


def binding_source(
    plan: KernelPlan, rules: Rules, targets: Sequence[ImageTarget], images: Sequence[Compiled], file: Path
) -> str:
    """Writes the binding's file. file: the binaries, one after the other, which the assembler puts into the library."""
    symbol = f"trtsmith_triton_{identifier(plan.op.name)}"
    return f"""// {plan.op.name}, whose kernel is written in Triton. Made by `trtsmith op build`, which makes it anew.
#include "ops/binding.hpp"
#include "triton/launch.hpp"

{_embedding(symbol, file)}
extern "C" __attribute__((visibility("hidden"))) const unsigned char {symbol}[];

namespace trtsmith {{

struct {plan.op.name} {{
{definition_members(plan.op, rules, _offsets_check(plan))}
{_run(plan, symbol)}
private:
{_choice(plan)}
    static constexpr std::array<triton::Target, {len(targets)}> kTargets{{{{
{_lines(f"        {{{t.capability}, {_bool(t.exact)}, {_bool(t.ptx)}}}," for t in targets)}
    }}}};
    static constexpr std::array<triton::Image, {len(images)}> kImages{{{{
{_lines(f"        {_image(plan, targets, image)}," for image in images)}
    }}}};
}};

TRTSMITH_BIND({plan.op.name})

}}  // namespace trtsmith
"""


def _run(plan: KernelPlan, symbol: str) -> str:
    empty = " && ".join(f"elements(t.out[{i}]) == 0" for i in range(len(plan.op.outputs)))
    return f"""    static cudaError_t run([[maybe_unused]] const Params& p, const Tensors& t, void*, cudaStream_t stream) {{
        using namespace triton;
        if ({empty}) {{
            return cudaSuccess;
        }}
{_values(plan)}
        const bool aligned = {_alignment(plan)};
        const Place place = currentPlace();
        const int32_t target = chooseTarget(kTargets, place.capability);
        if (target < 0) {{
            failForCapability(kTargets, place.capability);
        }}
        for (const Image& image : kImages) {{
            [[maybe_unused]] const auto& constants = image.constants;
            if (image.target != target || image.nbInputs != t.nbInputs || image.aligned != aligned ||
                !hasTypes(image, t) || !applies(image, p, t)) {{
                continue;
            }}
            Arguments arguments;
{_arguments(plan)}
            const Grid grid{{{", ".join(plan.grid)}}};
            launch({symbol}, image, place, grid, arguments, stream);
            return cudaSuccess;
        }}
        fail("no tuning of the kernel is for these sizes and types");
    }}
"""


def _choice(plan: KernelPlan) -> str:
    """What of an image depends on the tensors: their types, and whether its tuning applies."""
    return f"""    static bool hasTypes([[maybe_unused]] const triton::Image& image, [[maybe_unused]] const Tensors& t) {{
        return {_type_check(plan.op)};
    }}

    static bool applies(const triton::Image& image, [[maybe_unused]] const Params& p,
                        [[maybe_unused]] const Tensors& t) {{
        using namespace triton;
        [[maybe_unused]] const auto& constants = image.constants;
        switch (image.tuning) {{
{_lines(f"            case {i}: return {text};" for i, text in enumerate(plan.conditions))}
            default: return false;
        }}
    }}
"""


def _embedding(symbol: str, file: Path) -> str:
    """The binaries as read-only data of the library, under a name that does not leave it."""
    path = str(file).replace("\\", "\\\\").replace('"', '\\"')
    lines = (
        ".pushsection .rodata",
        ".balign 64",
        f".hidden {symbol}",
        f".globl {symbol}",
        f"{symbol}:",
        f'.incbin "{path}"',
        ".byte 0",
        ".popsection",
    )
    return "asm(\n" + "\n".join(f'    {text_literal(line)} "\\n"' for line in lines) + ");"


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _offsets_check(plan: KernelPlan) -> str:
    if plan.kernel.offsets == "int64":
        return ""
    return """        const std::string large = triton::checkOffsets(kSignature, t);
        if (!large.empty()) {
            return large;
        }
"""


def _values(plan: KernelPlan) -> str:
    """Integers that no constant of a tuning decides are computed once."""
    return _lines(
        f"        const int64_t value_{argument.name} = {argument.source};"
        for argument in plan.arguments
        if argument.kind.startswith("int") and "constants[" not in argument.source
    )


def _alignment(plan: KernelPlan) -> str:
    parts = []
    for argument in plan.arguments:
        if argument.kind == "pointer":
            test = f"isMultipleOf16({_data(plan.op, argument.port)})"
            parts.append(f"(!t.has({argument.port}) || {test})" if argument.optional else test)
        elif argument.often16 and "constants[" not in argument.source:
            parts.append(f"isMultipleOf16(value_{argument.name})")
    return " && ".join(parts) or "true"


def _data(op: OpDef, port: int) -> str:
    nb_inputs = len(op.inputs)
    return f"t.in[{port}].data" if port < nb_inputs else f"t.out[{port - nb_inputs}].data"


def _arguments(plan: KernelPlan) -> str:
    lines = []
    for argument in plan.arguments:
        if argument.kind == "pointer":
            line = f"arguments.pointer({_data(plan.op, argument.port)});"
            lines.append(f"if (t.has({argument.port})) {{ {line} }}" if argument.optional else line)
            continue
        if argument.kind == "float32":
            lines.append(f"arguments.float32({argument.source});")
            continue
        value = argument.source if "constants[" in argument.source else f"value_{argument.name}"
        name = f', "{argument.name}"' if argument.kind == "int32" else ""
        lines.append(f"arguments.{argument.kind}({value}{name});")
    return _lines(f"            {line}" for line in lines)


def _variables(op: OpDef) -> list[tuple[str, int]]:
    """Type variables that stand for several types, each with the first input that has it."""
    names = dict.fromkeys(port.type for port in op.inputs)
    return [
        (name, next(i for i, port in enumerate(op.inputs) if port.type == name))
        for name in names
        if len(TYPE_VARIABLES[name]) > 1
    ]


def _type_check(op: OpDef) -> str:
    parts = []
    for place, (_, port) in enumerate(_variables(op)):
        test = f"image.types[{place}] == t.in[{port}].type"
        parts.append(f"(!t.has({port}) || {test})" if op.inputs[port].optional else test)
    return " && ".join(parts) or "true"


def _image(plan: KernelPlan, targets: Sequence[ImageTarget], image: Compiled) -> str:
    variant = image.variant
    types = ", ".join(f"DType::{_TYPES[variant.types[name]]}" for name, _ in _variables(plan.op))
    constants = ", ".join(str(plan.kernel.ways[variant.tuning].constants[name]) for name in plan.constants)
    return (
        f"{{{list(targets).index(variant.target)}, {variant.tuning}, {variant.nb_inputs}, {{{types}}}, "
        f'{_bool(variant.aligned)}, "{image.name}", {image.offset}, {image.warps}, {image.shared_bytes}, {{{constants}}}}}'
    )
