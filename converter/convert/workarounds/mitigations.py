"""Lists what is known to help where TensorRT refuses nodes, in the order in which it is tried."""

from __future__ import annotations

from trtsmith.converter.convert.workarounds.expanded_plugins import with_expanded_plugins
from trtsmith.converter.convert.workarounds.float_constants import with_float_constants
from trtsmith.converter.convert.workarounds.identities import with_identities
from trtsmith.converter.convert.workarounds.inlined_if import with_inlined_ifs
from trtsmith.converter.convert.workarounds.refused_graph import Mitigation
from trtsmith.converter.convert.workarounds.static_axes import with_static_axes

MITIGATIONS: tuple[Mitigation, ...] = (
    Mitigation(
        "static-axes",
        "sizes that the profile fixes, and what they decide, are constants of the graph",
        "the engine takes no other sizes than those of its profile",
        with_static_axes,
    ),
    Mitigation(
        "inlined-if",
        "both branches of the If are computed, and the condition chooses between the results",
        "branches have no effects but their results, and both give one known shape",
        with_inlined_ifs,
    ),
    Mitigation(
        "expanded-plugin",
        "the plugin's operator is written in standard operators",
        "",
        with_expanded_plugins,
    ),
    Mitigation(
        "float-constants",
        "8-bit constants that are only moved before they are dequantized or cast are float32",
        "float32 holds every 8-bit number, and their differences, exactly",
        with_float_constants,
    ),
    Mitigation(
        "identities",
        "an Identity stands before each input of the nodes",
        "an Identity changes no value",
        with_identities,
    ),
)
