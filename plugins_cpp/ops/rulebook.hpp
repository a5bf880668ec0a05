// Sizes of both rulebooks, from fields.
#pragma once

#include <array>
#include <cstdint>

namespace trtsmith {

using GridSizes = std::array<int32_t, 3>;  // (z, y, x)

inline std::array<int64_t, 3> wide(const GridSizes& sizes) { return {sizes[0], sizes[1], sizes[2]}; }

}  // namespace trtsmith
