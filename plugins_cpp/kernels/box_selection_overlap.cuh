// Boxes, and whether two of them overlap, in the arithmetic of float32.
#pragma once

#include <cstdint>

namespace trtsmith {
namespace box_selection_detail {

struct Box {
    float lowX;
    float lowY;
    float highX;
    float highY;
    float area;
};

// No operation is fused with another: the decisions must be those of plain float32 arithmetic.
__device__ inline Box boxAt(const float* boxes, int64_t index, bool centers) {
    const float* const given = boxes + index * 4;
    const float a = given[0];
    const float b = given[1];
    const float c = given[2];
    const float d = given[3];
    Box box{};
    if (centers) {
        box = {__fsub_rn(a, c * 0.5F), __fsub_rn(b, d * 0.5F), __fadd_rn(a, c * 0.5F), __fadd_rn(b, d * 0.5F), 0.0F};
    } else {
        box = {b >= d ? d : b, a >= c ? c : a, b >= d ? b : d, a >= c ? a : c, 0.0F};
    }
    box.area = __fmul_rn(__fsub_rn(box.highX, box.lowX), __fsub_rn(box.highY, box.lowY));
    return box;
}

__device__ inline bool overlaps(const Box& a, const Box& b, float limit) {
    const float width = __fsub_rn(fminf(a.highX, b.highX), fmaxf(a.lowX, b.lowX));
    const float height = __fsub_rn(fminf(a.highY, b.highY), fmaxf(a.lowY, b.lowY));
    if (width <= 0.0F || height <= 0.0F) {
        return false;
    }
    const float common = __fmul_rn(width, height);
    const float either = __fsub_rn(__fadd_rn(a.area, b.area), common);
    if (common <= 0.0F || a.area <= 0.0F || b.area <= 0.0F || either <= 0.0F) {
        return false;
    }
    return __fdiv_rn(common, either) > limit;
}

}  // namespace box_selection_detail
}  // namespace trtsmith
