// What two rotated boxes have in common, as an area.
//
// Formula: in the frame of one box, whose sides are then along the axes, the area is the integral over x of what the other
// has between the first one's lower and upper side. By Green's theorem that is a sum over the edges of the other: the
// integral of an edge's y, limited to the first box, over its x, limited likewise. Every term is continuous in all
// coordinates and at most half the first box, so that edges which coincide, touch or are nearly parallel need no case of
// their own, and the error stays within a few roundings of the larger area.
#pragma once

#include <cstdint>

#include "kernels/convert.cuh"

namespace trtsmith {
namespace rotated_overlap_detail {

constexpr float kLeastArea =
    1e-14F;  // mmcv's, ops/csrc/common/box_iou_rotated_utils.hpp: smaller boxes overlap nothing
constexpr float kLeastShare = 1e-6F;  // what float32 makes of nothing
constexpr float kLargestFloat = 3.402823466e38F;

// A box as it is compared. `area` is 0 where a box overlaps nothing: it is too small, or a number of it is not finite.
struct alignas(16) RotatedBox {
    float x;
    float y;
    float halfWidth;
    float halfHeight;
    float cosine;
    float sine;
    float radius;  // of the circle around it
    float area;
};

__device__ inline bool isFinite(float value) { return fabsf(value) <= kLargestFloat; }

// x and y of the centre, width, height, and the angle in radians, from x towards y where `turn` is 1, back where it is -1.
__device__ inline RotatedBox rotatedBox(float x, float y, float width, float height, float angle, float turn) {
    const float area = __fmul_rn(width, height);
    RotatedBox box{x, y, 0.5F * fabsf(width), 0.5F * fabsf(height), 0.0F, 0.0F, 0.0F, 0.0F};
    if (isFinite(x) && isFinite(y) && isFinite(angle) && area >= kLeastArea && isFinite(area)) {
        sincosf(angle * turn, &box.sine, &box.cosine);
        box.radius = hypotf(box.halfWidth, box.halfHeight);
        box.area = area;
    }
    return box;
}

__device__ inline float limited(float value, float limit) { return fminf(fmaxf(value, -limit), limit); }

// The integral of y over x along an edge from p to q, both limited to a box of that half width and height around 0.
// inverse: 1 / (qx - px), or 0 for an upright edge.
__device__ inline float alongEdge(float px, float py, float qx, float qy, float inverse, float halfWidth,
                                  float halfHeight) {
    const float fromX = limited(px, halfWidth);
    const float toX = limited(qx, halfWidth);
    const float height = qy - py;
    const float fromY = py + (fromX - px) * inverse * height;
    const float toY = py + (toX - px) * inverse * height;
    const float from = limited(fromY, halfHeight);
    const float to = limited(toY, halfHeight);
    float mean = 0.5F * (from + to);
    if (from != to) {  // the parts of the edge that are limited at either end count with their ends
        mean += 0.5F * ((from - fromY) - (toY - to)) / (toY - fromY) * (from - to);
    }
    return (toX - fromX) * mean;
}

__device__ inline float inverseOf(float length) { return fabsf(length) > 1e-30F ? 1.0F / length : 0.0F; }

// The area of what both have in common, of boxes with an area.
__device__ inline float commonArea(const RotatedBox& a, const RotatedBox& b) {
    const float apartX = b.x - a.x;
    const float apartY = b.y - a.y;
    const float x = a.cosine * apartX + a.sine * apartY;
    const float y = a.cosine * apartY - a.sine * apartX;
    const float cosine = a.cosine * b.cosine + a.sine * b.sine;
    const float sine = a.cosine * b.sine - a.sine * b.cosine;
    const float alongX = cosine * b.halfWidth;
    const float alongY = sine * b.halfWidth;
    const float acrossX = -sine * b.halfHeight;
    const float acrossY = cosine * b.halfHeight;
    const float inverseAlong = inverseOf(2.0F * alongX);
    const float inverseAcross = inverseOf(2.0F * acrossX);
    const float x0 = x - alongX - acrossX;
    const float y0 = y - alongY - acrossY;
    const float x1 = x + alongX - acrossX;
    const float y1 = y + alongY - acrossY;
    const float x2 = x + alongX + acrossX;
    const float y2 = y + alongY + acrossY;
    const float x3 = x - alongX + acrossX;
    const float y3 = y - alongY + acrossY;
    const float sum = alongEdge(x0, y0, x1, y1, inverseAlong, a.halfWidth, a.halfHeight) +
                      alongEdge(x1, y1, x2, y2, inverseAcross, a.halfWidth, a.halfHeight) +
                      alongEdge(x2, y2, x3, y3, -inverseAlong, a.halfWidth, a.halfHeight) +
                      alongEdge(x3, y3, x0, y0, -inverseAcross, a.halfWidth, a.halfHeight);
    return fminf(fmaxf(-sum, 0.0F), fminf(a.area, b.area));
}

// Intersection over union: 0 for boxes that only touch, or have no area. Boxes whose circles are apart are not looked at
// more closely.
__device__ inline float rotatedShare(const RotatedBox& a, const RotatedBox& b) {
    const float apartX = b.x - a.x;
    const float apartY = b.y - a.y;
    const float reach = a.radius + b.radius;
    if (!(apartX * apartX + apartY * apartY <= 1.00001F * reach * reach) || !(a.area > 0.0F && b.area > 0.0F)) {
        return 0.0F;
    }
    const float common = commonArea(a, b);
    const float share = common / (a.area + b.area - common);
    return share > kLeastShare ? share : 0.0F;
}

template <typename T>
__device__ RotatedBox loadRotatedBox(const void* boxes, int64_t index, float turn) {
    const T* const given = static_cast<const T*>(boxes) + index * 5;
    return rotatedBox(toFloat(given[0]), toFloat(given[1]), toFloat(given[2]), toFloat(given[3]), toFloat(given[4]),
                      turn);
}

}  // namespace rotated_overlap_detail
}  // namespace trtsmith
