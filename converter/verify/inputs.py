"""Generates missing inputs from a fixed seed, to fit the model's nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.shapes import InputSpec, Sizes
from trtsmith.converter.model.model import Model
from trtsmith.converter.verify.input_generation.draw import draw
from trtsmith.converter.verify.input_generation.flow import input_meanings

SEED = 20240229
"""Of generated inputs: two runs see the same numbers."""


@dataclass(frozen=True)
class Generated:
    """Inputs by name, and a sentence on the assumed meaning of those that the model's nodes tell about."""

    arrays: dict[str, np.ndarray]
    meanings: tuple[str, ...]


def generate_inputs(
    model: Model | None, specs: Sequence[InputSpec], shapes: Mapping[str, Sizes], seed: int = SEED
) -> Generated:
    """Generates seeded inputs that suit the nodes that read them (trtsmith.converter.verify.input_generation).

    model: None where there is an engine alone. shapes: of the dynamic inputs. UsageError for a shape that this machine's
    memory does not hold.
    """
    sizes = {spec.name: shapes.get(spec.name, tuple(d or 0 for d in spec.shape)) for spec in specs}
    meanings = input_meanings(model, sizes) if model is not None else {}
    rng = np.random.default_rng(seed)
    feeds = {}
    for spec in specs:
        shape = sizes[spec.name]
        try:
            feeds[spec.name] = draw(rng, spec.dtype, shape, meanings.get(spec.name))
        except (MemoryError, ValueError, OverflowError) as error:
            raise UsageError(
                f"input {spec.name!r} is too large to be generated: {error}",
                f"input {spec.name!r}, {'x'.join(map(str, shape))}",
                "a usual shape that fits in this machine's memory",
                "give a smaller usual shape with --shapes, or --no-verify",
            ) from error
    told = [f"{spec.name}: {meanings[spec.name]}" for spec in specs if spec.name in meanings]
    return Generated(feeds, tuple(told))
