"""Selective scans as Mamba's and VMamba's users write them. The oracle sums over all pairs of tokens at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Inconsistent

SCAN = "StateSpaceScan"
N, D, S, L = 2, 4, 3, 7


def inputs(
    maps: tuple[int, ...], *more: str, outer: tuple[int, ...] = ()
) -> Callable[[], dict[str, np.ndarray | None]]:
    """outer: shape of C, if it is another.

    more: names of those of d, z and delta_bias that are connected, and in which order all of the node's are.
    """
    shapes = {"d": (D,), "z": (N, D, L), "delta_bias": (D,)}

    def make() -> dict[str, np.ndarray | None]:
        rng = np.random.default_rng(37)

        def draw(*shape: int) -> np.ndarray:
            return rng.uniform(-1, 1, shape).astype(np.float32)

        rates = -rng.uniform(0.1, 4, (D, S)).astype(np.float32)
        given = {
            "u": draw(N, D, L),
            "delta": abs(draw(N, D, L)),
            "a": rates,
            "B": draw(*maps),
            "C": draw(*(outer or maps)),
        }
        return {**given, **{name.strip("-"): None if "-" in name else draw(*shapes[name]) for name in more}}

    return make


def scanned(soft: bool, last: bool = True) -> Callable[[Arrays], tuple[np.ndarray, ...]]:
    def oracle(arrays: Arrays) -> tuple[np.ndarray, ...]:
        given = {name: array.astype(np.float64) for name, array in arrays.items()}
        u, step = given["u"], given["delta"] + given.get("delta_bias", np.zeros(D))[:, None]
        step = np.log1p(np.exp(step)) if soft else step
        maps = []
        for name in "BC":
            found = given[name]
            found = (
                found[:, None] if found.ndim == 3 else found[None, ..., None] if found.ndim == 2 else found
            )
            maps.append(np.repeat(found, D // found.shape[1], 1) + np.zeros((N, D, S, L)))
        fall = np.cumsum(step, 2)
        pairs = fall[..., :, None] - fall[..., None, :]  # [N, D, to, from]
        weights = np.exp(pairs[:, :, None] * given["a"][:, :, None, None]) * np.tril(np.ones((L, L)))
        states = np.einsum("ndstf,ndf,ndsf->ndst", weights, step * u, maps[0])
        y = np.einsum("ndst,ndst->ndt", states, maps[1]) + given.get("d", np.zeros(D))[:, None] * u
        y *= given["z"] / (1 + np.exp(-given["z"])) if "z" in given else 1
        return (y, states[..., -1]) if last else (y,)

    return oracle


ALL = ("d", "z", "delta_bias")
SOFT = {"delta_softplus": 1}
FLAT, GROUPS = (N, S, L), (N, 2, S, L)


def own() -> dict[str, np.ndarray | None]:
    names = {"B": "b", "C": "c"}
    return {names.get(name, name): array for name, array in inputs(GROUPS, "d", "delta_bias", "z")().items()}


def own_oracle(arrays: Arrays) -> tuple[np.ndarray, ...]:
    return scanned(True)({{"b": "B", "c": "C"}.get(name, name): array for name, array in arrays.items()})


EXAMPLES = (
    Example(SCAN, "SelectiveScan", "mamba_ssm", SOFT, inputs(FLAT, *ALL), scanned(True)),
    Example(
        SCAN,
        "SelectiveScan",
        "mamba",
        {},
        inputs(GROUPS, "-d", "-z", "delta_bias"),
        scanned(False),
        note="groups",
    ),
    Example(
        SCAN,
        "SelectiveScan",
        "com.depthart",
        {**SOFT, "out_float": 1},
        inputs(GROUPS, "d", "delta_bias"),
        scanned(True),
        note="vmamba",
        types=("F", "F"),
    ),
    Example(SCAN, SCAN, "trtsmith", SOFT, own, own_oracle),
)

FIXED_MAPS = [
    Example(SCAN, "SelectiveScan", "mamba", SOFT, inputs((D, S), "d", outer=outer), scanned(True), note=note)
    for note, outer in (("both", (D, S)), ("B", GROUPS), ("B, and one group", FLAT))
]
"""Whose maps are the same for all tokens, as only their shapes tell."""

SHAPES = {
    **dict.fromkeys(("u", "delta"), (2, 6, 9)),
    "a": (6, 4),
    **dict.fromkeys("bc", (2, 3, 4, 9)),
    **dict.fromkeys(("d", "delta_bias"), (6,)),
}

INCONSISTENT = (
    Inconsistent(SCAN, SHAPES, {"delta": (2, 6, 8)}, "delta[2] = 8, not 9"),
    Inconsistent(SCAN, SHAPES, {"a": (5, 4)}, "a[0] = 5, not 6"),
    Inconsistent(SCAN, SHAPES, {"b": (2, 3, 5, 9)}, "b[2] = 5, not 4"),
    Inconsistent(SCAN, SHAPES, {"c": (2, 2, 4, 9)}, "c[1] = 2, not 3 = b[1]"),
    Inconsistent(
        SCAN, SHAPES, {"b": (2, 4, 4, 9), "c": (2, 4, 4, 9)}, "u[1] = 6, which 4 groups do not divide"
    ),
    Inconsistent(
        SCAN,
        SHAPES,
        {"a": (6, 1025), "b": (2, 3, 1025, 9), "c": (2, 3, 1025, 9)},
        "a[1] = 1025, more than 1024 states",
    ),
)


HUGE = "a block reads rows of its own channels, and their addresses are 64-bit: RoI align's case stands for those"
