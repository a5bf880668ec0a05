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

// Intersection over union, of boxes whose sides are larger by `extra` than their corners are apart: 0 where they do not
// touch, or have no area; a NaN where one has an area that is no number.
__device__ inline float shareOf(const Box& a, const Box& b, float extra) {
    const float both = __fadd_rn(a.area, b.area);
    if (both != both) {
        return both;
    }
    const float width = __fsub_rn(fminf(a.highX, b.highX), fmaxf(a.lowX, b.lowX));
    const float height = __fsub_rn(fminf(a.highY, b.highY), fmaxf(a.lowY, b.lowY));
    if (width < 0.0F || height < 0.0F) {
        return 0.0F;
    }
    const float common = __fmul_rn(__fadd_rn(width, extra), __fadd_rn(height, extra));
    const float either = __fsub_rn(both, common);
    return common <= 0.0F || either <= 0.0F ? 0.0F : __fdiv_rn(common, either);
}

// Boxes that have nothing in common overlap at no limit, also below 0.
__device__ inline bool overlaps(const Box& a, const Box& b, float limit) {
    const float share = shareOf(a, b, 0.0F);
    return share > 0.0F && share > limit;
}

}  // namespace box_selection_detail
}  // namespace trtsmith
