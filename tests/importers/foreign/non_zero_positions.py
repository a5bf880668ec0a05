"""The positions of nonzero elements. The oracle is numpy's own operator."""

from __future__ import annotations

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Inconsistent, Largest

POSITIONS = "NonZeroPositions"


def _inputs() -> dict[str, np.ndarray | None]:
    rng = np.random.default_rng(6)
    return {"x": (rng.integers(0, 3, (3, 4, 5)) - 1).astype(np.float32)}


def _found(inputs: Arrays) -> tuple[np.ndarray, ...]:
    positions = np.stack(np.nonzero(inputs["x"]))
    return positions, np.array(positions.shape[1])


EXAMPLES = (Example(POSITIONS, POSITIONS, "trtsmith", {}, _inputs, _found),)

INCONSISTENT = (Inconsistent(POSITIONS, {"x": (3,)}, {"x": ()}, "x has no dimensions"),)

LARGEST = (Largest(POSITIONS, {}, (("float16", (1, Largest.SIZE)),)),)


HUGE = "it refuses 2^31 elements, whose number a size tensor might not hold"
