// What the kernels of the top elements share: elements as keys, rows, results, and the layout of the workspace.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/dispatch.cuh"
#include "kernels/order_key.cuh"
#include "kernels/selection/top_elements.cuh"

namespace trtsmith {
namespace top_elements_detail {

constexpr int64_t kSortable = 12288;  // elements that one block sorts, 6 bytes each
constexpr int64_t kShort = 256;       // elements whose workspace is less than that of a radix select
constexpr int kDigitBits = 11;        // of a radix select
constexpr int kDigits = 1 << kDigitBits;
constexpr int64_t kSelectTile = 4096;  // elements that one block looks at

inline bool isHalf(DType type) { return type == DType::kFloat16 || type == DType::kBFloat16; }
inline int keyBits(DType type) { return type == DType::kInt64 ? 64 : isHalf(type) ? 16 : 32; }

// An element of a row, by a key that rises from the first of the results to the last.
struct Element {
    uint64_t key;
    uint32_t row;
    uint32_t place;
};

// How far the radix select of a row is.
struct Selected {
    uint32_t prefix;  // of the last key that is wanted: the bits that are known
    uint32_t wanted;  // among the keys of this prefix
    uint32_t blocks;  // that are done with this pass
    uint32_t unused;
};

struct Plan {
    TopElementsParams params;
    TopElementsShape shape;
    int64_t rows;
    int64_t tiles;        // of a row that is selected from
    bool selectable;      // there is workspace for selecting what is wanted before it is sorted
    bool selects;         // it is used: a block sorts what is wanted, and rows are longer, or blocks cannot sort at all
    uint64_t mask;        // the bits of a key
    Element* elements;    // [rows, size], or [rows, count] of those selected
    Element* spare;       // the same
    uint32_t* histogram;  // [rows, kDigits]: of the pass; zeros between passes
    Selected* selected;   // [rows]
    uint2* tileCounts;    // [rows, tiles]: elements before the last that is wanted, and equal to it
    uint32_t* keys;       // [rows, count]: of those selected
    uint32_t* places;     // [rows, count]
    size_t cleared;       // bytes from `histogram` on that must be 0 at first

    // The element of a row at place 0; the others are shape.inner apart.
    __device__ int64_t firstOf(int64_t row) const {
        const int64_t outer = row / shape.inner;
        return outer * shape.size * shape.inner + (row - outer * shape.inner);
    }
    __device__ uint64_t keyAt(int64_t first, int64_t place) const {
        const uint64_t order = orderKey(params.type, params.x, first + place * shape.inner);
        return params.largest ? mask - order : order;
    }
    // The bits of elements of 16 or 32 bits, `step` places apart from `begin` on: loads that wait for nothing between them.
    template <int N>
    __device__ void load(int64_t first, int64_t begin, int step, uint32_t (&bits)[N]) const {
        if (params.type == DType::kFloat16 || params.type == DType::kBFloat16) {
#pragma unroll
            for (int i = 0; i < N; ++i) {
                const int64_t place = begin + i * step;
                bits[i] = place < shape.size ? static_cast<const uint16_t*>(params.x)[first + place * shape.inner] : 0;
            }
        } else {
#pragma unroll
            for (int i = 0; i < N; ++i) {
                const int64_t place = begin + i * step;
                bits[i] = place < shape.size ? static_cast<const uint32_t*>(params.x)[first + place * shape.inner] : 0;
            }
        }
    }
    // The key of an element of these bits.
    __device__ uint32_t keyOf(uint32_t bits) const {
        uint32_t order = bits ^ 0x80000000U;
        if (params.type != DType::kInt32) {
            const bool wide = params.type == DType::kFloat32;
            const uint32_t infinity = wide ? 0x7f800000U : params.type == DType::kFloat16 ? 0x7c00U : 0x7f80U;
            order = orderOfFloat(bits, wide ? 0x80000000U : 0x8000U, infinity);
        }
        return params.largest ? static_cast<uint32_t>(mask) - order : order;
    }
    __device__ void write(int64_t row, int64_t rank, int64_t place) const {
        const int64_t outer = row / shape.inner;
        const int64_t to = (outer * shape.count + rank) * shape.inner + (row - outer * shape.inner);
        const int64_t from = (outer * shape.size + place) * shape.inner + (row - outer * shape.inner);
        params.indices[to] = place;
        switch (params.type) {
            case DType::kFloat16:
            case DType::kBFloat16:
                static_cast<uint16_t*>(params.values)[to] = static_cast<const uint16_t*>(params.x)[from];
                break;
            case DType::kInt64:
                static_cast<uint64_t*>(params.values)[to] = static_cast<const uint64_t*>(params.x)[from];
                break;
            default:
                static_cast<uint32_t*>(params.values)[to] = static_cast<const uint32_t*>(params.x)[from];
        }
    }
};

// Lays the workspace out, or only measures it where it is null. False for sizes that are refused.
inline bool layOut(DType type, const TopElementsShape& shape, void* workspace, Plan& plan, size_t& size) {
    int64_t all = 0;
    if (!elementCount({shape.outer, shape.size, shape.inner}, all) || shape.count < 0 || shape.count > shape.size ||
        shape.size > INT32_MAX || shape.inner > INT32_MAX || shape.outer > INT32_MAX ||
        !elementCount({shape.outer, shape.inner}, plan.rows) || plan.rows > INT32_MAX || type == DType::kBool) {
        return false;
    }
    plan.shape = shape;
    plan.mask = keyBits(type) == 64 ? ~uint64_t{0} : (uint64_t{1} << keyBits(type)) - 1;
    plan.tiles = ceilDivide(shape.size, kSelectTile);
    size_t at = 0;
    const auto place = [&at, workspace](auto*& pointer, int64_t count) {
        if (workspace != nullptr) {
            pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(static_cast<char*>(workspace) + at);
        }
        at += static_cast<size_t>(count) * sizeof(*pointer);
    };
    if (plan.rows > 0 && shape.count > 0) {
        // Not only of rows that are too long for a block: TensorRT asks once, with the longest, and the workspace of rows that
        // are sorted whole by merging would be larger than that.
        plan.selectable = keyBits(type) < 64 && shape.size > kShort && shape.count <= kSortable;
        if (plan.selectable) {
            const size_t from = at;
            place(plan.histogram, plan.rows * kDigits);
            place(plan.selected, plan.rows);
            plan.cleared = at - from;
            place(plan.tileCounts, plan.rows * plan.tiles);
            place(plan.keys, plan.rows * shape.count);
            place(plan.places, plan.rows * shape.count);
            at = (at + sizeof(Element) - 1) / sizeof(Element) * sizeof(Element);
        }
        // Also where a block sorts: a GPU may have too little shared memory, and engines are built without it.
        place(plan.elements, plan.selectable ? plan.rows * shape.count : all);
        place(plan.spare, plan.selectable ? plan.rows * shape.count : all);
    }
    size = at;
    return true;
}

}  // namespace top_elements_detail
}  // namespace trtsmith
