"""Writes the keyword types of the API's functions for type checkers: a stub from the declared options."""

from __future__ import annotations

import re

from trtsmith.bench_function import TIMED
from trtsmith.check_function import CHECKED
from trtsmith.convert_function import CONVERSION
from trtsmith.converter.base.options import kinds
from trtsmith.converter.base.options.declared import Options, options_of
from trtsmith.locate_function import SEARCHED
from trtsmith.refit_function import REFITTED
from trtsmith.rewrite_function import GRAPH
from trtsmith.run_function import RUN
from trtsmith.tune_function import TUNING
from trtsmith.verify_function import VERIFICATION

KEYWORDS: dict[str, Options] = {
    "ConvertKeywords": CONVERSION,
    "CheckKeywords": CHECKED,
    "RewriteKeywords": GRAPH,
    "VerifyKeywords": VERIFICATION,
    "LocateKeywords": SEARCHED,
    "BenchKeywords": TIMED,
    "RunKeywords": RUN,
    "RefitKeywords": REFITTED,
    "TuneKeywords": TUNING,
}


def stub() -> str:
    """The text of converter/base/options/keywords.pyi."""
    bodies = {
        name: [f"    {option.name}: {option.annotation}" for option in options_of(options)]
        for name, options in KEYWORDS.items()
    }
    words = sorted({word for body in bodies.values() for line in body for word in re.findall(r"\w+", line)})
    used = ", ".join(word for word in words if word in vars(kinds) and word not in ("Any", "Mapping"))
    return "\n".join(
        [
            "# Generated from the declared options: python scripts/generate_docs.py",
            "",
            "from collections.abc import Mapping",
            "from typing import Any",
            "",
            "from typing_extensions import TypedDict",
            "",
            "from trtsmith.converter.base.options.kinds import (",
            *(f"    {word}," for word in used.split(", ")),
            ")",
            *(
                line
                for name, body in bodies.items()
                for line in ("", f"class {name}(TypedDict, total=False):", *body)
            ),
            "",
        ]
    )
