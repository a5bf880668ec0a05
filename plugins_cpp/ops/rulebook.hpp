// What the bindings of both rulebooks share: sizes from fields, and what does not fit.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "core/tensor.hpp"
#include "trt/guard.hpp"

namespace trtsmith {

using GridSizes = std::array<int32_t, 3>;  // (z, y, x)

// The product, or `most` + 1 where it is above `most`. No size is below 0.
template <typename Sizes>
int64_t productUpTo(int64_t most, int64_t first, const Sizes& sizes) {
    int64_t product = first;
    for (const int64_t size : sizes) {
        if (size == 0) {
            return 0;
        }
        product = product > most / size ? most + 1 : product * size;
        if (product > most) {
            return most + 1;
        }
    }
    return product;
}

constexpr int64_t kMaxRulebookTaps = int64_t{1} << 15;
constexpr int64_t kMaxRulebookCells = int64_t{1} << 62;

inline int64_t rulebookTaps(const GridSizes& kernel) {
    const int64_t taps = productUpTo(kMaxRulebookTaps, 1, kernel);
    require(taps <= kMaxRulebookTaps, "the kernel has more than " + std::to_string(kMaxRulebookTaps) + " taps");
    return taps;
}

inline std::array<int64_t, 3> wide(const GridSizes& sizes) { return {sizes[0], sizes[1], sizes[2]}; }

// "" or what is wrong with the input.
inline std::string rulebookFault(const Tensor& indices, int32_t batch, const GridSizes& grid) {
    if (indices[1] != 4) {
        return "indices has " + std::to_string(indices[1]) + " numbers in a row; expected 4";
    }
    if (indices[0] > INT32_MAX) {
        return "there must be less than 2^31 rows";
    }
    return productUpTo(kMaxRulebookCells, batch, grid) > kMaxRulebookCells ? "the grid has more than 2^62 cells" : "";
}

}  // namespace trtsmith
