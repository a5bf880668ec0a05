// An axis of a tensor, counted from either end, and what lies before and behind it.
#pragma once

#include "core/dims.hpp"
#include "kernels/gather_slices.cuh"

namespace trtsmith {

inline GatherSlicesShape slicesAlong(const Shape<int64_t>& x, int32_t axis) {
    const int32_t at = axis < 0 ? axis + x.rank : axis;
    GatherSlicesShape slices{.outer = 1, .size = x[at], .inner = 1};
    for (int32_t i = 0; i < x.rank; ++i) {
        (i < at ? slices.outer : slices.inner) *= i == at ? 1 : x[i];
    }
    return slices;
}

}  // namespace trtsmith
