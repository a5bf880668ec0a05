"""Distinguishes the two forms of --shapes: NAME=MIN:OPT:MAX, and trtexec's NAME:SHAPE,NAME:SHAPE.

Names may have "=", ":" and "," in them, as TensorFlow's "images:0" has: with a "=" the name ends at the last one, without
one a name ends at the last ":" before a shape.
"""

from __future__ import annotations

import re

from trtsmith.converter.base.errors import UsageError

_SHAPE = r"\d+(?:[xX]\d+)*"
_ITEM = rf"[^,:=]+[=:]{_SHAPE}(?::{_SHAPE})*"
_LISTED = re.compile(rf"{_ITEM}(?:,{_ITEM})+")
_ONE = re.compile(rf"(?P<name>[^,=]+?)[=:](?P<shapes>{_SHAPE}(?::{_SHAPE}:{_SHAPE})?)")
_SHAPE_IN_NAME = re.compile(r":\d+x", re.IGNORECASE)
_RANGE_AFTER_COLON = re.compile(
    rf"(?:^|,)[^,=]+?:(?:{_SHAPE}:{_SHAPE}:{_SHAPE}|\d+(?:[xX]\d+)+:{_SHAPE})(?:,|$)"
)


def is_trtexec_form(text: str) -> bool:
    """Tells whether the text has trtexec's form."""
    return "=" not in text and ":" in text


def check_form(text: str) -> None:
    """Raises UsageError for a mix of the two forms, with the text that was probably meant."""
    meant = _unmixed(text)
    if meant:
        what = f"{text!r} mixes two notations for shapes"
        expected = "NAME=MIN:OPT:MAX, a flag for each input; or NAME:SHAPE,NAME:SHAPE, one shape for each"
        raise UsageError(what, f"--shapes {text}", expected, meant)


def _unmixed(text: str) -> str:
    """The flags that a mix of the two notations was meant to be; "" for anything else."""
    wrong = (
        _RANGE_AFTER_COLON.search(text) is not None
        if is_trtexec_form(text)
        else _LISTED.fullmatch(text) is not None
    )
    if not wrong:
        return ""
    flags = []
    for item in text.split(","):
        found = _ONE.fullmatch(item)
        if found is None or _SHAPE_IN_NAME.search(found["name"]):
            return "--shapes NAME=MIN:OPT:MAX"
        flags.append(f"--shapes {found['name']}={found['shapes']}")
    return " ".join(flags)
