"""Extends `polygraphy run`: our rewriting as a loader, our reference graph and our engines as runners.

Polygraphy finds `polygraphy_arguments.argument_groups` by the entry point `polygraphy.run.plugins`, and imports it whenever
one of its tools starts: at the top these modules import nothing but Polygraphy and what costs as little. Scripts that
`polygraphy run --gen-script` writes import the loaders and runners from here.
"""
