// What the kernels of the selection of detections share: candidates as numbers, boxes, and the layout of the workspace.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/box_selection_overlap.cuh"
#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"
#include "kernels/order_key.cuh"
#include "kernels/selection/detection_selection.cuh"
#include "kernels/selection/rotated_overlap.cuh"

namespace trtsmith {
namespace detection_selection_detail {

using box_selection_detail::Box;
using Key = unsigned long long;  // score from high to low, then place: the smallest is the best

constexpr Key kNone = ~Key{0};            // no candidate: the score of none is so low
constexpr int kChunk = 4096;              // candidates that a block sorts at a time
constexpr int kBins = 1 << 16;            // of the first bits of keys
constexpr int kBinShift = 48;             // the bits behind them
constexpr int64_t kPreparedFrom = 16384;  // scores of an image from which all blocks look for the best ones

struct Kept {
    Box box;
    int32_t label;
};

struct Plan {
    DetectionSelectionParams params;
    DetectionSelectionShape shape;
    int64_t scores;  // of an image
    int64_t room;    // kept boxes of an image
    bool limited;    // classes have more boxes than candidates that they may have
    bool prepared;
    bool needsClass;        // to tell whether a score is that of a candidate
    Key* chunks;            // [batch, kChunk]: the best candidates, in any order
    Key* classLimits;       // [batch, classes]: the last candidate that a class may have
    Kept* kept;             // [batch, room]
    uint32_t* histogram;    // [batch, kBins]
    uint32_t* gathered;     // [batch]: candidates in `chunks` so far
    uint32_t* classCounts;  // [batch, classes]
    uint32_t* firstBins;    // [batch]: candidates of bins before are in `chunks`
    uint32_t* firstCounts;  // [batch]: how many these are
    size_t cleared;         // bytes from `histogram` on that must be 0 at first
};

// One image's score as a key, or kNone.
template <typename T>
__device__ inline Key keyOf(const Plan& plan, int64_t image, uint32_t element) {
    const float score = toFloat(static_cast<const T*>(plan.params.scores)[image * plan.scores + element]);
    const float limit = plan.params.scoreThreshold;
    if (!(plan.params.inclusive ? score >= limit : score > limit)) {
        return kNone;
    }
    const Key order = 0xffffffffU - orderOfFloat(__float_as_uint(score), 0x80000000U, 0x7f800000U);
    if (!plan.needsClass) {
        return order << 32 | element;
    }
    const auto classes = static_cast<uint32_t>(plan.shape.classes);
    const uint32_t box = element / classes;
    const uint32_t label = element - box * classes;
    if (static_cast<int64_t>(label) == plan.params.background) {
        return kNone;
    }
    const uint32_t place = plan.params.classMajor ? label * static_cast<uint32_t>(plan.shape.boxes) + box : element;
    const Key key = order << 32 | place;
    return plan.limited && key > plan.classLimits[image * plan.shape.classes + label] ? kNone : key;
}

struct Place {
    uint32_t box;
    uint32_t label;
};

__device__ inline Place placeOf(const Plan& plan, Key key) {
    const auto place = static_cast<uint32_t>(key);
    const auto inner = static_cast<uint32_t>(plan.params.classMajor ? plan.shape.boxes : plan.shape.classes);
    const uint32_t outer = place / inner;
    const uint32_t rest = place - outer * inner;
    return plan.params.classMajor ? Place{rest, outer} : Place{outer, rest};
}

__device__ inline int columnsOf(const Plan& plan) { return plan.params.kind == BoxKind::kUpright ? 4 : 5; }

struct Given {
    float4 corners;  // two opposite ones, in any order
    float angle;
};

// No operation is fused with another: others must decide as this does.
template <typename T>
__device__ inline Given givenOf(const Plan& plan, int64_t image, const Place& place) {
    const int64_t group = plan.shape.groups == 1 ? 0 : static_cast<int64_t>(place.label);
    const T* const given = static_cast<const T*>(plan.params.boxes) +
                           ((image * plan.shape.boxes + place.box) * plan.shape.groups + group) * columnsOf(plan);
    const float a = toFloat(given[0]);
    const float b = toFloat(given[1]);
    const float c = toFloat(given[2]);
    const float d = toFloat(given[3]);
    const float angle = columnsOf(plan) == 5 ? toFloat(given[4]) : 0.0F;
    if (!plan.params.centers) {
        return {{a, b, c, d}, angle};
    }
    const float halfC = __fmul_rn(c, 0.5F);
    const float halfD = __fmul_rn(d, 0.5F);
    return {{__fsub_rn(a, halfC), __fsub_rn(b, halfD), __fadd_rn(a, halfC), __fadd_rn(b, halfD)}, angle};
}

// A rotated box as a normal distribution, in the members of a Box: its centre (x, y), and a, b and c of its covariances.
__device__ inline Box distributionOf(const Box& upright, float angle) {
    const float sizeX = upright.highX - upright.lowX;
    const float sizeY = upright.highY - upright.lowY;
    const float varianceX = sizeX * sizeX / 12.0F;
    const float varianceY = sizeY * sizeY / 12.0F;
    const float sine = sinf(angle);
    const float cosine = cosf(angle);
    return {upright.lowX + 0.5F * sizeX, upright.lowY + 0.5F * sizeY,
            varianceY * cosine * cosine + varianceX * sine * sine,
            varianceY * sine * sine + varianceX * cosine * cosine, (varianceY - varianceX) * cosine * sine};
}

// ProbIoU (Llerena et al., arXiv 2106.06072) as TensorRT-YOLO computes it, which models were tuned with: half of the mixed
// term, no square root in the logarithm, and that divided by the determinant, too.
__device__ inline float likenessOf(const Box& one, const Box& other) {
    const float x = one.lowX - other.lowX;
    const float y = one.lowY - other.lowY;
    const float a = one.highX + other.highX;
    const float b = one.highY + other.highY;
    const float c = one.area + other.area;
    const float determinant = fmaxf(a * b - c * c, 1e-7F);
    const float own = fmaxf(0.0F, one.highX * one.highY - one.area * one.area);
    const float others = fmaxf(0.0F, other.highX * other.highY - other.area * other.area);
    const float distance = 0.25F * (a * x * x + b * y * y) / determinant + 0.25F * (c * x * y) / determinant +
                           0.5F * logf(determinant / (4.0F * (own * others))) / determinant;
    return 1.0F - sqrtf(1.0F - expf(-fmaxf(1e-7F, fminf(distance, 100.0F))));
}

__device__ inline Box boxOf(const Plan& plan, const Given& given) {
    const float extra = plan.params.pixels ? 1.0F : 0.0F;
    const float4& corners = given.corners;
    if (plan.params.kind == BoxKind::kPolygons) {
        return {corners.x, corners.y, corners.z, corners.w, given.angle};
    }
    const bool swapX = corners.x >= corners.z;
    const bool swapY = corners.y >= corners.w;
    Box box{swapX ? corners.z : corners.x, swapY ? corners.w : corners.y, swapX ? corners.x : corners.z,
            swapY ? corners.y : corners.w, 0.0F};
    if (plan.params.kind == BoxKind::kProbIou) {
        return distributionOf(box, given.angle);
    }
    box.area =
        __fmul_rn(__fadd_rn(__fsub_rn(box.highX, box.lowX), extra), __fadd_rn(__fsub_rn(box.highY, box.lowY), extra));
    return box;
}

// Of rotated boxes as they are given: centre, size and angle in the members of a Box. The circles around boxes that are
// looked at more closely are less than 1.5 times as far apart as they reach.
__device__ inline float polygonShareOf(const Box& better, const Box& later) {
    const float apartX = later.lowX - better.lowX;
    const float apartY = later.lowY - better.lowY;
    const float squares = better.highX * better.highX + better.highY * better.highY + later.highX * later.highX +
                          later.highY * later.highY;  // 4 times those of the circles
    if (apartX * apartX + apartY * apartY > 0.50001F * squares) {
        return 0.0F;
    }
    const auto prepared = [](const Box& box) {
        return rotated_overlap_detail::rotatedBox(box.lowX, box.lowY, box.highX, box.highY, box.area, 1.0F);
    };
    return rotated_overlap_detail::rotatedShare(prepared(better), prepared(later));
}

__device__ inline float uprightShareOf(const Plan& plan, const Box& a, const Box& b) {
    return box_selection_detail::shareOf(a, b, plan.params.pixels ? 1.0F : 0.0F);
}

__device__ inline bool overlapOf(const Plan& plan, const Box& a, const Box& b) {
    const float share = plan.params.kind == BoxKind::kPolygons  ? polygonShareOf(a, b)
                        : plan.params.kind == BoxKind::kProbIou ? likenessOf(a, b)
                                                                : uprightShareOf(plan, a, b);
    return plan.params.inclusive ? share >= plan.params.overlap : share > plan.params.overlap;
}

// Lays the workspace out, or only measures it where it is null. False for sizes that are refused.
inline bool layOut(const DetectionSelectionShape& shape, void* workspace, Plan& plan, size_t& size) {
    int64_t all = 0;
    int64_t rows = 0;
    const bool sizes = elementCount({shape.boxes, shape.classes}, plan.scores) &&
                       elementCount({shape.batch, shape.boxes, shape.classes, 5}, all) &&
                       elementCount({shape.batch, shape.most, 5}, rows);
    if (!sizes || shape.batch > INT32_MAX || shape.boxes > INT32_MAX || shape.classes > INT32_MAX ||
        plan.scores > INT32_MAX || shape.most > INT32_MAX || (shape.groups != 1 && shape.groups != shape.classes)) {
        return false;
    }
    plan.shape = shape;
    plan.room = shape.most < plan.scores ? shape.most : plan.scores;
    plan.limited = shape.topk > 0 && shape.topk < shape.boxes;
    plan.prepared = plan.scores > kPreparedFrom;
    size_t at = 0;
    const auto place = [&at, workspace](auto*& pointer, int64_t count) {
        if (workspace != nullptr) {
            pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(static_cast<char*>(workspace) + at);
        }
        at += static_cast<size_t>(count) * sizeof(*pointer);
    };
    const int64_t segments = plan.limited ? shape.batch * shape.classes : 0;
    const int64_t prepared = plan.prepared ? shape.batch : 0;
    place(plan.chunks, prepared * kChunk);
    place(plan.classLimits, segments);
    const size_t clearedFrom = at;
    place(plan.histogram, prepared * kBins);
    place(plan.gathered, prepared);
    place(plan.classCounts, segments);
    plan.cleared = at - clearedFrom;
    place(plan.firstBins, prepared);
    place(plan.firstCounts, prepared);
    place(plan.kept, shape.batch * plan.room);
    size = at;
    return true;
}

}  // namespace detection_selection_detail
}  // namespace trtsmith
