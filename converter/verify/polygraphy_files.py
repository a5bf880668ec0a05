from __future__ import annotations
import numpy as np
def plain_arrays(arrays):
    return {n: (a.astype(np.float32) if a.dtype.kind == "V" else a) for n, a in arrays.items()}
