"""Lists trtsmith's options for `polygraphy run`; its entry point `polygraphy.run.plugins` names `argument_groups`."""

from __future__ import annotations

from typing import Any

from trtsmith.converter.polygraphy_extension.rewriting_arguments import TrtsmithArgs, TrtsmithRewriteArgs
from trtsmith.converter.polygraphy_extension.runner_arguments import TrtsmithEngineArgs, TrtsmithReferenceArgs


def argument_groups() -> list[Any]:
    """Returns the argument groups that Polygraphy adds to its own."""
    return [TrtsmithArgs(), TrtsmithRewriteArgs(), TrtsmithReferenceArgs(), TrtsmithEngineArgs()]
