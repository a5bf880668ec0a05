// Sizes of tensors in expressions of a launch.
#pragma once

#include <cstdint>
#include <string>

#include "core/checked.hpp"
#include "core/tensor.hpp"

namespace trtsmith::triton {

using namespace checked;

inline int64_t elements(const Tensor& tensor) {
    bool empty = false;
    int64_t count = 1;
    for (int32_t axis = 0; axis < tensor.shape.rank; ++axis) {
        empty = empty || tensor.shape[axis] == 0;
    }
    for (int32_t axis = 0; !empty && axis < tensor.shape.rank; ++axis) {
        count = multiply(count, tensor.shape[axis]);
    }
    return empty ? 0 : count;
}

// A dimension; a negative axis counts from the last.
inline int64_t dimension(const Tensor& tensor, int32_t axis, const char* port) {
    const int32_t at = axis < 0 ? axis + tensor.shape.rank : axis;
    if (at < 0 || at >= tensor.shape.rank) {
        fail(std::string("'") + port + "' has " + std::to_string(tensor.shape.rank) +
             " dimensions; the launch reads dimension " + std::to_string(axis));
    }
    return tensor.shape[at];
}

}  // namespace trtsmith::triton
