"""Names the kinds of values that suit an operator's input, for input generation."""

from __future__ import annotations

from enum import Enum


class Meaning(Enum):
    """ANY: any numbers. The others say which numbers the operator is made for."""

    ANY = "any numbers"
    SHARE = "numbers from 0 to 1"
    WEIGHTS = "numbers from 0 to 1 with the sum 1 over the last two dimensions"
    LEVEL_SIZES = "(height, width) of each level, the first input's rows shared out"
    LEVEL_STARTS = "first row of each level"
    BOXES = "boxes x1, y1, x2, y2 within an image, behind the image's index if there are five numbers"
    INVERTIBLE = "matrices that can be inverted"
