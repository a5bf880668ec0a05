"""The convolution along a rulebook, as in Autoware's plugin."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign.model import SAMPLED, Arrays, Example, Huge, HugeCase, Inconsistent, numbers

CONVOLUTION = "RulebookConvolution"
KERNEL = (3, 1, 2)


def inputs() -> dict[str, np.ndarray | None]:
    rng = np.random.default_rng(5)
    return {
        "features": rng.normal(size=(30, 5)).astype(np.float32),
        "weights": rng.normal(size=(7, *KERNEL, 5)).astype(np.float32),
        "pairs": rng.integers(-1, 30, (6, 25)).astype(np.int32),
        "bias": rng.normal(size=7).astype(np.float32),
    }


def autoware_inputs() -> dict[str, np.ndarray | None]:
    made = inputs()
    mask, order = np.zeros((25, 1), np.int32), np.arange(25, dtype=np.int32)
    return {n: made[n] for n in ("features", "weights", "pairs")} | {
        "pair_mask": mask,
        "mask_argsort": order,
        "bias": made["bias"],
    }


def oracle(arrays: Arrays) -> np.ndarray:
    """With a matrix of ones where a tap of a row reads a row of the features."""
    features, weights = arrays["features"].astype(np.float64), arrays["weights"].astype(np.float64)
    chosen = arrays["pairs"][..., None] == np.arange(len(features))
    columns = chosen.astype(np.float64) @ features
    return np.einsum("kmc,okc->mo", columns, weights.reshape(7, 6, 5)) + arrays["bias"].astype(np.float64)


def native_inputs() -> dict[str, np.ndarray | None]:
    """As spconv lists pairs: those of each tap first, in any order, and -1 behind them."""
    made = inputs()
    pairs = made["pairs"]
    assert pairs is not None
    both = np.full((2, *pairs.shape), -1, np.int32)
    for tap, rows in enumerate(pairs):
        outputs = np.random.default_rng(tap).permutation(np.flatnonzero(rows >= 0))
        both[0, tap, : len(outputs)], both[1, tap, : len(outputs)] = rows[outputs], outputs
    return {
        "features": made["features"],
        "weights": made["weights"],
        "indice_pairs": both,
        "indice_pair_num": (pairs >= 0).sum(1).astype(np.int32),
        "num_activate_out": np.array(25, np.int32),
    }


def native_oracle(arrays: Arrays) -> np.ndarray:
    """Adds up pair after pair."""
    features, weights = arrays["features"].astype(np.float64), arrays["weights"].astype(np.float64)
    output = np.zeros((25, 7))
    for tap, count in enumerate(arrays["indice_pair_num"]):
        for row, at in arrays["indice_pairs"][:, tap, :count].T:
            output[at] += weights.reshape(7, 6, 5)[:, tap] @ features[row]
    return output


AUTOWARE = {
    "is_train": 0,
    "is_subm": 1,
    "act_alpha": 0.0,
    "act_beta": 0.0,
    "output_scale": 1.0,
    "output_add_scale": 0.0,
}

EXAMPLES = (
    Example(CONVOLUTION, "ImplicitGemm", "autoware", AUTOWARE, autoware_inputs, oracle),
    Example(
        CONVOLUTION,
        "ImplicitGemm",
        "autoware",
        {**AUTOWARE, "act_type": 1},
        autoware_inputs,
        lambda arrays: np.maximum(oracle(arrays), 0),
        note="with a ReLU inside",
    ),
    Example(
        CONVOLUTION,
        "ImplicitGemm",
        "autoware",
        {**AUTOWARE, "act_type": 3, "act_alpha": 0.25},
        autoware_inputs,
        lambda arrays: np.where(oracle(arrays) > 0, oracle(arrays), oracle(arrays) * 0.25),
        note="with a leaky ReLU inside",
    ),
    Example(CONVOLUTION, "IndiceConv", "autoware", {"is_subm": 1}, native_inputs, native_oracle),
    Example(CONVOLUTION, CONVOLUTION, "trtsmith", {"activation": 0, "slope": 0.0}, inputs, oracle),
)

SHAPES = {"features": (30, 5), "weights": (7, *KERNEL, 5), "pairs": (6, 25), "bias": (7,)}
INCONSISTENT = (
    Inconsistent(CONVOLUTION, SHAPES, {"pairs": (5, 25)}, "pairs[0] = 5, not 6 = the taps of weights"),
    Inconsistent(CONVOLUTION, SHAPES, {"features": (30, 4)}, "features[1] = 4, not 5 = weights[4]"),
    Inconsistent(CONVOLUTION, SHAPES, {"bias": (6,)}, "bias[0] = 6, not 7 = weights[0]"),
)


def huge(rows: int, device: str) -> Huge:
    """64 channels in and out of one tap: with 34 million rows, features and output have 2.18e9 elements each."""
    import torch

    channels = 64
    features = torch.randn(rows, channels, device=device, dtype=torch.float16)
    weights = torch.randn(channels, 1, 1, 1, channels, device=device, dtype=torch.float16)
    pairs = torch.arange(rows - 1, -1, -1, device=device, dtype=torch.int32)[None]

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        output = outputs[0]
        matrix = numbers(weights).reshape(channels, channels)
        results = []
        for name, start in (("first", 0), ("middle", rows // 2), ("last", rows - SAMPLED)):
            read = torch.arange(start, start + SAMPLED, device=device)
            wanted = numbers(features[rows - 1 - read]) @ matrix.T
            results.append((f"{name} rows", numbers(output[read]), wanted))
        return results

    return Huge(
        {"activation": 0, "slope": 0.0}, {"features": features, "weights": weights, "pairs": pairs}, check
    )


HUGE = HugeCase(huge, size=34_000_000, small=300)
