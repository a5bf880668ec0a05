"""Passes models between Polygraphy, which holds them in memory, and trtsmith, which leaves weights in files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import util

from trtsmith.converter.model.errors import UsageError, problems_named
from trtsmith.converter.model.process.scratch_folder import ScratchFolder
from trtsmith.importers.problem import Problem

if TYPE_CHECKING:
    import onnx

    from trtsmith.converter.model.model import Model

_IN_MEMORY = "the model that Polygraphy loaded"


@contextmanager
def model_file(model: Any) -> Iterator[Path]:
    """The file of a model, which is there for the length of the block.

    model: a path, a ModelProto, or a loader of Polygraphy's that gives one of these.
    """
    given, _ = util.invoke_if_callable(model)
    if isinstance(given, (str, Path)):
        yield Path(given)
        return
    import onnx

    from trtsmith.converter.model.save import INLINE_MODEL_LIMIT

    with ScratchFolder("model") as folder:
        path = Path(folder) / "model.onnx"
        onnx.save_model(given, path, save_as_external_data=given.ByteSize() > INLINE_MODEL_LIMIT)
        with problems_named(path, Path(_IN_MEMORY)):
            yield path


def whole_proto(model: Model, name: str) -> onnx.ModelProto:
    """The model with its weights inside, as Polygraphy's loaders pass models on.

    name: of the model, for a message. UsageError for one that is too large for that.
    """
    import onnx

    from trtsmith.converter.model.save import save_model

    with ScratchFolder("model") as folder:
        path = Path(folder) / "model.onnx"
        save_model(model, path)
        if path.with_name(path.name + ".data").exists():
            raise UsageError(
                Problem(
                    "the rewritten model is larger than what Polygraphy can pass from one loader to the next",
                    name,
                    "a model of less than 2 GiB",
                    "trtsmith rewrite MODEL -o rewritten.onnx, and give that file to polygraphy",
                )
            )
        return onnx.load_model(path)
