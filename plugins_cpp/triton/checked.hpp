// Integers of launch expressions: 64 bits, and an error instead of an overflow or a division by zero.
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "core/dims.hpp"
#include "core/tensor.hpp"

namespace trtsmith::triton {

[[noreturn]] inline void fail(const std::string& what) { throw std::runtime_error(what); }

inline int64_t add(int64_t a, int64_t b) {
    int64_t result = 0;
    if (__builtin_add_overflow(a, b, &result)) {
        fail("a sum of the launch does not fit into 64 bits");
    }
    return result;
}

inline int64_t subtract(int64_t a, int64_t b) {
    int64_t result = 0;
    if (__builtin_sub_overflow(a, b, &result)) {
        fail("a difference of the launch does not fit into 64 bits");
    }
    return result;
}

inline int64_t multiply(int64_t a, int64_t b) {
    int64_t result = 0;
    if (__builtin_mul_overflow(a, b, &result)) {
        fail("a product of the launch does not fit into 64 bits");
    }
    return result;
}

// Towards minus infinity, as Python's //.
inline int64_t floorDivide(int64_t a, int64_t b) {
    if (b == 0) {
        fail("an expression of the launch divides by zero");
    }
    return b == -1 ? subtract(0, a) : floorDiv(a, b);
}

inline int64_t ceilDivide(int64_t a, int64_t b) { return subtract(0, floorDivide(subtract(0, a), b)); }

inline int64_t modulo(int64_t a, int64_t b) { return subtract(a, multiply(floorDivide(a, b), b)); }

inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

inline int64_t most(int64_t a, int64_t b) { return a < b ? b : a; }

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
