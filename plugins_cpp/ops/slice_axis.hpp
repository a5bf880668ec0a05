// An axis of a tensor, counted from either end, and what lies before and behind it.
#pragma once

#include <string>

#include "core/dims.hpp"
#include "kernels/gather_slices.cuh"
#include "trt/guard.hpp"

namespace trtsmith {

// "" or why there is no such axis.
template <typename D>
std::string axisFault(const Shape<D>& x, int32_t axis) {
    return axis >= -x.rank && axis < x.rank
               ? ""
               : "axis " + std::to_string(axis) + " of an x with " + std::to_string(x.rank) + " dimensions";
}

template <typename D>
int32_t axisOf(const Shape<D>& x, int32_t axis) {
    const std::string fault = axisFault(x, axis);
    require(fault.empty(), fault);
    return axis < 0 ? axis + x.rank : axis;
}

inline GatherSlicesShape slicesAlong(const Shape<int64_t>& x, int32_t axis) {
    const int32_t at = axisOf(x, axis);
    GatherSlicesShape slices{.outer = 1, .size = x[at], .inner = 1};
    for (int32_t i = 0; i < x.rank; ++i) {
        (i < at ? slices.outer : slices.inner) *= i == at ? 1 : x[i];
    }
    return slices;
}

}  // namespace trtsmith
