// What reductions of rows have in common.
#pragma once

#include <cstdint>

#include "core/dims.hpp"
#include "core/tensor.hpp"
#include "kernels/reduction/indexed_reduction.cuh"

namespace trtsmith {

// Elements of a row, all dimensions but the first.
inline int64_t columnsOf(const Shape<int64_t>& shape) {
    int64_t columns = 1;
    for (int32_t axis = 1; axis < shape.rank; ++axis) {
        columns *= shape[axis];
    }
    return columns;
}

inline IndexedReductionParams scatterParams(int32_t reduction, const Tensors& t, int32_t* count) {
    return {
        .type = t.in[0].type,
        .indexType = t.in[1].type,
        .reduction = static_cast<Reduction>(reduction),
        .source = t.in[0].data,
        .index = t.in[1].data,
        .output = t.output(0),
        .origin = static_cast<int64_t*>(t.output(1)),
        .count = count,
    };
}

}  // namespace trtsmith
