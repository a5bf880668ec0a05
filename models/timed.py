"""Provides the models of this package as `trtsmith bench --torch` wants them: `--torch models.timed:centernet_dcn`.

Each name of models.MODELS is a function, and NAME_small its quick variant: inputs by name in, a callable out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from models import MODELS

Make = Callable[[Mapping[str, Tensor]], Callable[[], tuple[Tensor, ...]]]


def __getattr__(name: str) -> Make:
    """The function of a model. AttributeError if there is none of that name."""
    small = name.endswith("_small")
    model = MODELS.get(name.removesuffix("_small"))
    if model is None:
        raise AttributeError(f"there is no model {name!r}; there are {', '.join(MODELS)}")

    def make(inputs: Mapping[str, Tensor]) -> Callable[[], tuple[Tensor, ...]]:
        """The model with its seeded weights, on the device of the inputs."""
        given = [inputs[key] for key in model.input_names]
        module = model.make(small=small)[0].to(given[0].device)

        def compute() -> tuple[Tensor, ...]:
            found = module(*given)
            return (found,) if isinstance(found, torch.Tensor) else tuple(found)

        return compute

    return make
