"""Extends `polygraphy run`: the rewrite as a loader, the reference graph and trtsmith's engines as runners.

Polygraphy finds `polygraphy_arguments.argument_groups` by the entry point `polygraphy.run.plugins`, and imports it whenever
one of its tools starts: at the top these modules import nothing but Polygraphy and what costs as little. Scripts that
`polygraphy run --gen-script` writes import the loaders and runners from here.
"""
