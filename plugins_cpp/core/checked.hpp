// Integers of rules and of launches: 64 bits, and an error instead of an overflow or a division by zero.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <stdexcept>
#include <string>

#include "core/dims.hpp"

namespace trtsmith::checked {

[[noreturn]] inline void fail(const std::string& what) { throw std::runtime_error(what); }

inline int64_t add(int64_t a, int64_t b) {
    int64_t result = 0;
    if (__builtin_add_overflow(a, b, &result)) {
        fail("a sum of sizes does not fit into 64 bits");
    }
    return result;
}

inline int64_t subtract(int64_t a, int64_t b) {
    int64_t result = 0;
    if (__builtin_sub_overflow(a, b, &result)) {
        fail("a difference of sizes does not fit into 64 bits");
    }
    return result;
}

inline int64_t multiply(int64_t a, int64_t b) {
    int64_t result = 0;
    if (__builtin_mul_overflow(a, b, &result)) {
        fail("a product of sizes does not fit into 64 bits");
    }
    return result;
}

// Towards minus infinity, as Python's //.
inline int64_t floorDivide(int64_t a, int64_t b) {
    if (b == 0) {
        fail("an expression of sizes divides by zero");
    }
    return b == -1 ? subtract(0, a) : floorDiv(a, b);
}

inline int64_t ceilDivide(int64_t a, int64_t b) { return subtract(0, floorDivide(subtract(0, a), b)); }

inline int64_t modulo(int64_t a, int64_t b) { return subtract(a, multiply(floorDivide(a, b), b)); }

inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

inline int64_t most(int64_t a, int64_t b) { return a < b ? b : a; }

// A part of a sentence: text, or a number.
struct Piece {
    Piece(const char* given) : text(given) {}
    Piece(int64_t given) : whole(given) {}
    Piece(double given) : real(given), isReal(true) {}

    const char* text{nullptr};
    int64_t whole{0};
    double real{0};
    bool isReal{false};
};

// Not inline: rules have many, and none is in a hurry.
[[gnu::noinline, gnu::cold]] inline std::string sentence(std::initializer_list<Piece> pieces) {
    std::string result;
    for (const Piece& piece : pieces) {
        result += piece.text != nullptr ? piece.text
                  : piece.isReal        ? std::to_string(piece.real)
                                        : std::to_string(piece.whole);
    }
    return result;
}

// In the place of a dimension that no rule can give.
template <typename D>
[[noreturn]] D dimensionOf(const std::string& fault) {
    fail(fault);
}

}  // namespace trtsmith::checked
