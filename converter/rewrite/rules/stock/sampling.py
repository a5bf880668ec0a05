"""Writes GridSample in float32, for plugins that sample images, in the words that the model's opset has."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import Refusal
from trtsmith.converter.rewrite.engine.writer import Value, Writer

OPSET = 16
"""The first one with GridSample, of images alone."""

VOLUMES_OPSET = 20
"""The first one whose GridSample takes volumes."""

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
"""In the order of PyTorch's numbers for them, which exporters write."""

_RENAMED = {"bilinear": "linear", "bicubic": "cubic"}

TIES = "points half way between two pixels take the even one, as in PyTorch; the plugin takes the one away from zero"


def grid_sample(w: Writer, images: Value, grid: Value, mode: str, padding: str, aligned: bool) -> Value:
    """Samples of float32 images [N, C, H, W] at a grid [N, h, w, 2] of (x, y) from -1 to 1, or of volumes at (x, y, z)."""
    name = _RENAMED.get(mode, mode) if w.node.opset >= 20 else mode
    return w.GridSample(images, grid, mode=name, padding_mode=padding, align_corners=int(aligned))


def known_number(number: object, words: tuple[str, ...], what: str) -> str | Refusal:
    """The word for PyTorch's number."""
    if isinstance(number, int) and 0 <= number < len(words):
        return words[number]
    listed = ", ".join(f"{i} ({word})" for i, word in enumerate(words))
    return Refusal(f"its {what} is {number}", f"one of {listed}", f"export the node with a {what} of these")
