"""The arguments of the public API as the options take them: paths, one or several of a kind, and the texts of flags.

What the command line can say is parsed in one place. Python's values become such texts, so that both are judged alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any

from trtsmith.converter.convert.freezing import Freeze
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.verify.tolerances import Tolerances, parse_tolerances

StrPath = str | os.PathLike[str]
Paths = StrPath | Sequence[StrPath]
Texts = str | Sequence[str]
Progress = Callable[[str], None]
Ranges = Mapping[str, int | str | Sequence[int] | Sequence[Sequence[int]]]
Tolerance = float | Mapping[str, float]


def silent(text: str) -> None:
    """The progress of a call that was given none."""


def path_of(given: StrPath | None) -> Path | None:
    return None if given is None else Path(given)


def paths_of(given: Paths) -> tuple[Path, ...]:
    return tuple(map(Path, [given] if isinstance(given, (str, os.PathLike)) else given))


def texts_of(given: Texts) -> tuple[str, ...]:
    """A single text stands for itself, not for its letters."""
    return (given,) if isinstance(given, str) else tuple(given)


def freeze_of(given: str | Freeze) -> Freeze:
    return given if isinstance(given, Mapping) else texts_of(given)


def ranges_of(given: Ranges | None, between: str, form: str) -> list[str]:
    """NAME=MIN:OPT:MAX, or one part for all three. between: what stands between the numbers of a part. form: of a part."""
    texts = []
    for name, range_ in (given or {}).items():
        if isinstance(range_, (int, str)):
            texts.append(f"{name}={range_}")
            continue
        parts: Sequence[Any] = range_ if any(isinstance(part, Sized) for part in range_) else [range_]
        joined = (form.format(between.join(map(str, part))) for part in parts)
        texts.append(f"{name}={':'.join(joined)}")
    return texts


def precision_of(
    precision: str, keep_fp32: Texts, accumulate: str, io_precision: bool, calibration: Paths
) -> PrecisionRequest:
    return PrecisionRequest(
        precision,
        texts_of(keep_fp32),
        io_precision,
        paths_of(calibration),
        accumulate=accumulate,
    )


References = str | Callable[..., Any] | Mapping[str, str | Callable[..., Any]]


def tolerances_of(rtol: Tolerance | None, atol: Tolerance | None) -> Tolerances:
    """Reads tolerances: one for all outputs, or by the name of the output."""
    return parse_tolerances(*map(_tolerance_texts, (rtol, atol)))


def _tolerance_texts(given: Tolerance | None) -> list[str]:
    if given is None:
        return []
    return (
        [f"{name}:{value}" for name, value in given.items()] if isinstance(given, Mapping) else [str(given)]
    )
