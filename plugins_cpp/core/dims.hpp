// Dimension algebra: one shape rule serves TensorRT's symbolic expressions, plain integers and tests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace trtsmith {

inline constexpr int32_t kMaxRank = 8;

// A shape of dimensions D, where D is int64_t or a symbolic type with + - *, floorDiv and smaller. Rules use nothing else.
template <typename D>
struct Shape {
    int32_t rank{0};
    std::array<D, kMaxRank> d{};

    template <typename... Ds>
    static Shape of(const Ds&... dims) {
        static_assert(sizeof...(Ds) <= kMaxRank);
        static_assert((std::is_constructible_v<D, const Ds&> && ...),
                      "write a number as constantLike(dimension, number)");
        return Shape{static_cast<int32_t>(sizeof...(Ds)), {D(dims)...}};
    }

    const D& operator[](int32_t axis) const { return d[static_cast<size_t>(axis)]; }
    D& operator[](int32_t axis) { return d[static_cast<size_t>(axis)]; }
};

// A dimension that depends on values: what to tune for, and the largest that it can be.
template <typename D>
struct SizeBounds {
    D typical{};
    D most{};
};

inline int64_t floorDiv(int64_t a, int64_t b) {
    const int64_t quotient = a / b;
    return quotient - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
}

// Product of all dimensions; the shape must have one at least.
template <typename D>
D product(const Shape<D>& shape) {
    D result = shape[0];
    for (int32_t axis = 1; axis < shape.rank; ++axis) {
        result = result * shape[axis];
    }
    return result;
}

// A number as a dimension of the kind that `like` is.
inline int64_t constantLike(int64_t /*like*/, int64_t value) { return value; }

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// What is tuned for, of a size that can be anything up to `most`: half of it.
template <typename D>
SizeBounds<D> upTo(const D& most) {
    return {floorDiv(most + 1, 2), most};
}

}  // namespace trtsmith
