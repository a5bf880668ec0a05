"""Checks output types, shapes and formats. All need a case, since inputs cannot be guessed."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterable, Mapping, Sequence

from trtsmith.converter.plugin.checks.checks import (
    CheckFailedError,
    ContractCheck,
    CreatorUnderTest,
    NotTestableError,
)
from trtsmith.converter.plugin.contract import ContractCase
from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.host import Plugin
from trtsmith.converter.plugin.host.host_library import Io, PluginError
from trtsmith.converter.plugin.host.plugin_values import Shape

SEED = 20261121
MOST_COMBINATIONS = 2000  # where counting stops
RANDOM_BASES = 40
VARIATIONS = 4

_ANY = ("linear",)
_LAYOUTS: Mapping[str, tuple[str, ...]] = {
    "float32": ("linear", "chw32", "hwc", "dhwc"),
    "float16": ("linear", "chw2", "hwc8", "chw4", "chw16", "chw32", "dhwc8", "cdhw32", "hwc16"),
    "int8": ("linear", "chw4", "chw32", "cdhw32", "hwc16"),
    "int32": ("linear", "chw32"),
    "bfloat16": ("linear", "hwc8", "dhwc8"),
    "bool": _ANY,
    "int64": _ANY,
    "uint8": ("linear", "hwc"),
    "float8_e4m3fn": _ANY,
}
"""Layouts that TensorRT knows for an element type, after the table at nvinfer1::TensorFormat."""

_PAIRS = tuple((dtype, layout) for dtype, layouts in _LAYOUTS.items() for layout in layouts)
Combination = tuple[tuple[str, str], ...]


def _case(case: ContractCase | None) -> ContractCase:
    if case is None:
        raise NotTestableError("no case is known: its inputs are not known")
    return case


def output_types(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """The plugin's output types are those of its definition."""
    case = _case(case)
    with session.create(case) as plugin:
        found = plugin.output_types([desc.dtype for desc in case.inputs])
    wanted = tuple(desc.dtype for desc in case.outputs)
    if found != wanted:
        raise CheckFailedError(
            f"output types are {', '.join(found)}", f"{', '.join(wanted)}, as it is defined"
        )
    return None


def output_shapes(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """The plugin's output shapes are those of its definition; size tensors are int32."""
    case = _case(case)
    shapes = [desc.shape for desc in case.inputs]
    with session.create(case) as plugin:
        found = plugin.concrete_shapes(shapes, case.shape_values)
        rules = plugin.output_shapes(shapes, shape_values=case.shape_values)
        holders = {dim.size_output for rule in rules for dim in rule if dim.size_output is not None}
        types = plugin.output_types([desc.dtype for desc in case.inputs]) if holders else ()
    for holder in sorted(holders):
        if types[holder] != "int32":
            raise CheckFailedError(
                f"output {holder} is a size tensor of {types[holder]}",
                "int32, the one type that TensorRT reads",
            )
    wanted = tuple(desc.shape for desc in case.outputs)
    if found != wanted:
        raise CheckFailedError(f"output shapes are {_shapes(found)}", f"{_shapes(wanted)}, as it is defined")
    return None


def symbolic_shapes(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """The expressions of unknown dimensions come to the shapes that known ones give."""
    case = _case(case)
    shapes = [desc.shape for desc in case.inputs]
    wanted = tuple(desc.shape for desc in case.outputs)
    all_dims = [(1 << len(shape)) - 1 for shape in shapes]
    masks = {"all dimensions unknown": all_dims, "the batch unknown": [1 & mask for mask in all_dims]}
    for odd in (0, 1):
        masks[f"every other dimension unknown, from {odd}"] = [
            mask & (0xAA >> (1 - odd)) for mask in all_dims
        ]
    for i in range(len(shapes)):
        masks[f"input {i} unknown"] = [mask if j == i else 0 for j, mask in enumerate(all_dims)]
    with session.create(case) as plugin:
        if plugin.implicit_batch:
            raise NotTestableError("its interface takes constant shapes only")
        for what, mask in masks.items():
            answer = plugin.output_shapes(shapes, mask, case.shape_values)
            found = tuple(
                tuple(-1 if d.evaluated is None else d.evaluated for d in shape) for shape in answer
            )
            if found != wanted:
                words = "; ".join(", ".join(d.text for d in shape) for shape in answer)
                raise CheckFailedError(
                    f"with {what} output shapes come to {_shapes(found)} ({words})", _shapes(wanted)
                )
        # Where no value is known at all there is nothing to compare, but it must not break.
        plugin.output_shapes([tuple(-1 for _ in shape) for shape in shapes], None, case.shape_values)
    return f"{len(masks)} sets of unknown dimensions"


def _shapes(shapes: Iterable[Shape]) -> str:
    return ", ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)


class _Formats:
    """A description of inputs and outputs whose types and formats are changed in place."""

    def __init__(self, plugin: Plugin, case: ContractCase) -> None:
        self._plugin = plugin
        self.io: Io = plugin.io(case.inputs, case.outputs)
        self.count = self.io.count
        self._fresh = bytes(self.io.tensors)

    def reset(self) -> None:
        ctypes.memmove(self.io.tensors, self._fresh, len(self._fresh))

    def set(self, position: int, dtype: str, layout: str) -> None:
        tensor = self.io.tensors[position]
        tensor.dtype, tensor.format = abi.DTYPES.index(dtype), abi.FORMATS.index(layout)

    def scramble(self, position: int, chance: random.Random) -> None:
        """Anything at all that TensorRT could write there."""
        tensor = self.io.tensors[position]
        tensor.dtype = chance.randrange(len(abi.DTYPES))
        tensor.format = chance.randrange(len(abi.FORMATS))
        tensor.scale = chance.choice((0.0, 1.0, -1.0, 127.5))
        for dims in (tensor.dims, tensor.min, tensor.opt, tensor.max):
            dims.n = chance.randrange(abi.MAX_DIMS + 1)
            for i in range(abi.MAX_DIMS):
                dims.d[i] = chance.choice((-1, 0, 1, 2, 7, 64, 1 << 33))

    def ask(self, position: int) -> bool:
        return self._plugin.ask_format(position, self.io)

    def accepted(self) -> list[Combination]:
        """Combinations that every position takes, at most MOST_COMBINATIONS."""
        found: list[Combination] = []
        self.reset()

        def extend(prefix: Combination) -> None:
            if len(prefix) == self.count:
                found.append(prefix)
                return
            for dtype, layout in _PAIRS:
                if len(found) >= MOST_COMBINATIONS:
                    return
                # Set again each time, because deeper positions have been changed since.
                self.set(len(prefix), dtype, layout)
                if self.ask(len(prefix)):
                    extend((*prefix, (dtype, layout)))

        extend(())
        return found


def accepted_formats(plugin: Plugin, case: ContractCase) -> list[Combination]:
    """Combinations of types and formats, of inputs and outputs, that the plugin takes; at most MOST_COMBINATIONS."""
    return _Formats(plugin, case).accepted()


def format_rule_local(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """The answer for a position does not change with what lies beyond it, which TensorRT has not decided yet."""
    case = _case(case)
    chance = random.Random(SEED)
    asked = 0
    with session.create(case) as plugin:
        formats = _Formats(plugin, case)
        bases: list[Combination] = [tuple((d.dtype, d.format) for d in (*case.inputs, *case.outputs))]
        accepted = formats.accepted()
        bases += chance.sample(accepted, min(len(accepted), RANDOM_BASES))
        bases += [tuple(chance.choice(_PAIRS) for _ in range(formats.count)) for _ in range(RANDOM_BASES)]
        for base in bases:
            for position in range(formats.count):
                formats.reset()
                for i, pair in enumerate(base):
                    formats.set(i, *pair)
                answer = formats.ask(position)
                for _ in range(VARIATIONS):
                    for beyond in range(position + 1, formats.count):
                        formats.scramble(beyond, chance)
                    asked += 1
                    if formats.ask(position) != answer:
                        raise CheckFailedError(
                            f"supportsFormatCombination for position {position} of {_words(base[: position + 1])} "
                            f"answered {answer}, and {not answer} when only later positions changed",
                            f"an answer from positions 0 to {position} alone",
                        )
    return f"{asked} comparisons, seed {SEED}"


def _words(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{dtype} {layout}" for dtype, layout in pairs)


def format_combinations(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """It accepts some combinations of types and formats; that of the case, and no more than its limit, are advice."""
    case = _case(case)
    with session.create(case) as plugin:
        limit = plugin.info.format_limit
        accepted = accepted_formats(plugin, case)
    if not accepted:
        raise CheckFailedError("it accepts no combination of types and formats", "at least one")
    if len(accepted) > limit:
        more = " or more" if len(accepted) >= MOST_COMBINATIONS else ""
        raise CheckFailedError(
            f"it accepts {len(accepted)}{more} combinations of types and formats",
            f"at most {limit}, its limit: TensorRT asks for no more; each is timed and goes into the engine",
            advice=True,
        )
    own = tuple((desc.dtype, desc.format) for desc in (*case.inputs, *case.outputs))
    if own not in accepted:
        types = [dtype for dtype, _ in own]
        raise CheckFailedError(
            f"it refuses {_words(own)}",
            "this combination accepted, as the case uses it",
            advice=any([dtype for dtype, _ in one] == types for one in accepted),  # TensorRT changes layouts
        )
    return f"{len(accepted)} combinations"


def accepted_types(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """In linear format it accepts the types of its definition, and no others."""
    case = _case(case)
    if case.accepted is None:
        raise NotTestableError("its definition does not say which element types it takes")
    with session.create(case) as plugin:
        combinations = accepted_formats(plugin, case)
    found = {tuple(dtype for dtype, _ in one) for one in combinations if all(f == "linear" for _, f in one)}
    for what, difference in (("takes", found - case.accepted), ("refuses", case.accepted - found)):
        if difference:
            raise CheckFailedError(
                f"in linear format it {what} {'; '.join(', '.join(one) for one in sorted(difference))}",
                "the element types of its definition and no others",
            )
    return f"{len(found)} combinations of types"


def configuration(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """It can be configured, and its workspace is the same when asked again and not absurd."""
    case = _case(case)
    with session.configured(case) as plugin:
        size = plugin.workspace_size(case.inputs, case.outputs)
        again = plugin.workspace_size(case.inputs, case.outputs)
    if size != again:
        raise CheckFailedError(
            f"the workspace is {size} bytes and then {again}", "the same size for the same shapes"
        )
    if size >= 1 << 40:
        raise CheckFailedError(
            f"the workspace is {size} bytes", "less than a tebibyte; this looks like an error code or -1"
        )
    return f"workspace {size} bytes"


def tactics(session: CreatorUnderTest, case: ContractCase | None) -> str | None:
    """Its tactics are numbers above 0, which it accepts itself."""
    with session.configured(case) as plugin:
        found = plugin.tactics()
        if len(set(found)) != len(found) or any(tactic <= 0 for tactic in found):
            raise CheckFailedError(f"getValidTactics gave {found}", "different numbers above 0")
        for tactic in found:
            try:
                plugin.set_tactic(tactic)
            except PluginError as error:
                raise CheckFailedError(
                    f"setTactic({tactic}) failed: {error.message}", "its own tactic accepted"
                ) from error
    return f"{len(found)} tactics"


IO_CHECKS = (
    ContractCheck("output types", output_types, "case"),
    ContractCheck("output shapes", output_shapes, "case"),
    ContractCheck("symbolic shapes", symbolic_shapes, "case"),
    ContractCheck("format rule looks at earlier positions only", format_rule_local, "case"),
    ContractCheck("format combinations", format_combinations, "case"),
    ContractCheck("accepted types", accepted_types, "case"),
    ContractCheck("configuration", configuration, "case"),
    ContractCheck("tactics", tactics, "plugin"),
)
