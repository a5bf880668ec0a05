"""Chooses the sizes of an operator's cases, and reports outputs without a shape rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.scaffold.shape_rules import NoRuleError, Run, ShapeRules, Sizes, find_rules
from trtsmith.converter.scaffold.torch_command import SIZES_OF_VALUES

_MOST = 6


def rules_or_error(starts: Sequence[Sizes], fields: Mapping[str, int], run: Run, where: str) -> ShapeRules:
    """Finds the rules from the first of these shapes that `run` takes. UsageError if it takes none, or follows no rule."""
    for start in starts:
        try:
            return find_rules(start, fields, run)
        except LookupError:
            continue
        except NoRuleError as error:
            output, axis, sizes = error.args
            raise UsageError(
                f"the size of output {output!r} along axis {axis} follows no known rule: {sizes}",
                where,
                "sizes that follow from those of the inputs by + - * //, and from no values",
                "write the operator by hand: trtsmith op new with nothing but --domain",
            ) from error
    raise UsageError(
        "its standard operators do not run in onnx's reference evaluator, or give other results",
        where,
        "a body that runs on inputs of these shapes",
        "check the function, or write the operator by hand: trtsmith op new with nothing but --domain",
    )


def require_one_shape(shapes: Sequence[Sizes], where: str) -> None:
    """Raises UsageError if other values at the same input shapes gave other output shapes."""
    first = shapes[0]
    for other in shapes[1:]:
        name = next((name for name in first if other[name] != first[name]), None)
        if name is not None:
            raise UsageError(
                f"the shape of output {name!r} depends on values: {first[name]} or {other[name]}",
                where,
                "shapes that follow from those of the inputs",
                SIZES_OF_VALUES,
            )


def chosen_cases(rules: ShapeRules) -> dict[str, Sizes]:
    """Chooses the first accepted shapes, and one of the others for each set of dimensions in which they differ."""
    first, *others = rules.tried
    found: dict[str, Sizes] = {"small": first}
    seen = set()
    for sizes in others:
        changed = frozenset(
            (name, axis)
            for name, shape in sizes.items()
            for axis, size in enumerate(shape)
            if size != first[name][axis]
        )
        if changed in seen or len(found) == _MOST:
            continue
        smallest = all(size == 1 for shape in sizes.values() for size in shape)
        if not smallest:
            seen.add(changed)
        found["one_of_each" if smallest else f"other_sizes_{len(seen)}"] = sizes
    return found
