// What reductions of rows have in common.
#pragma once

#include <cstdint>

#include "core/dims.hpp"
#include "core/fields.hpp"
#include "core/tensor.hpp"
#include "kernels/reduction/indexed_reduction.cuh"

namespace trtsmith {

inline constexpr Range kReductions{0, 3};

// Elements of a row, all dimensions but the first.
inline int64_t columnsOf(const Shape<int64_t>& shape) {
    int64_t columns = 1;
    for (int32_t axis = 1; axis < shape.rank; ++axis) {
        columns *= shape[axis];
    }
    return columns;
}

// The origins of a scattered reduction: of each number that is the largest or the smallest; one for each segment otherwise.
template <typename D>
Shape<D> originShape(int32_t reduction, const Shape<D>& source, const D& segments) {
    Shape<D> origin = source;
    for (int32_t axis = 1; axis < source.rank; ++axis) {
        origin[axis] = reduction >= static_cast<int32_t>(Reduction::kMax) ? source[axis] : constantLike(source[0], 1);
    }
    origin[0] = segments;
    return origin;
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

inline std::string scatterFault(const Tensors& t) {
    if (t.in[0].shape.rank < 1) {
        return "source has no dimensions";
    }
    if (t.in[0][0] != t.in[1][0]) {
        return "source and index differ in rows";
    }
    return t.in[0][0] > INT32_MAX ? "there must be less than 2^31 rows" : "";
}

}  // namespace trtsmith
