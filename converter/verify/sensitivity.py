"""Says of outputs that disagree whether the model itself decides them by the last bits of its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from trtsmith.converter.model.errors import ConversionError
from trtsmith.converter.verify.allowance import changed_by
from trtsmith.converter.verify.compare import Arrays
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.verdict import Verdict

CHANGE = 2.0**-17
"""By which share of itself a float input is changed, up or down by chance: far below what TF32 rounds."""

EXPLAINED = 0.25
"""From which part of an output's error on the change counts as its cause: of the few values that it moves some move far."""

_SEED = 20


def with_sensitivity(
    verdict: Verdict,
    sets: Sequence[InputSet],
    plain: Sequence[Arrays],
    run: Callable[[Sequence[InputSet]], Sequence[Arrays]],
) -> Verdict:
    """The verdict, with a sentence for each float output that disagrees and that such changes of the inputs move as well.

    A network that quantizes its values at run time is like that where a value stands midway between two steps: one
    takes the other, and a recurrence or a softmax makes much of it.

    plain: the original's outputs for the sets in onnxruntime. run: computes them for others.
    """
    wrong = {c.at for c in verdict.comparisons if not c.agrees}
    chosen = [index for index, one in enumerate(sets) if one.at in wrong]
    if not chosen:
        return verdict
    try:
        outputs = run([replace(sets[index], feeds=_changed(sets[index].feeds)) for index in chosen])
    except ConversionError:  # they decide shapes that the model does not bear
        return verdict
    moved = {
        (sets[index].at, name): changed_by(value, found[name])
        for index, found in zip(chosen, outputs, strict=True)
        for name, value in plain[index].items()
        if value.dtype.kind == "f" and value.shape == found[name].shape
    }
    told = tuple(
        f"inputs that differ by {CHANGE:.0e} of themselves change {c.output!r}{f' at {c.at}' if c.at else ''} by "
        f"{moved[c.at, c.output]:.1e} in onnxruntime, too: with these inputs the model decides it by its last bits; compare "
        "with real ones (--inputs)"
        for c in verdict.comparisons
        if not c.agrees and moved.get((c.at, c.output), 0.0) >= EXPLAINED * c.relative > 0
    )
    return replace(verdict, references=(*verdict.references, *told))


def _changed(feeds: Arrays) -> dict[str, np.ndarray]:
    signs = np.random.default_rng(_SEED)
    return {
        name: (value * (1 + CHANGE * signs.choice((-1, 1), value.shape))).astype(value.dtype)
        if value.dtype == np.float32
        else value
        for name, value in feeds.items()
    }
