// Tensors as an operator's run() gets them, with their element type and 64-bit sizes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/dims.hpp"
#include "kernels/dtype.hpp"

namespace trtsmith {

inline constexpr int32_t kMaxPorts = 16;

struct Tensor {
    const void* data{nullptr};
    DType type{DType::kFloat32};
    Shape<int64_t> shape{};

    int64_t operator[](int32_t axis) const { return shape[axis]; }
};

// All tensors of one call. Inputs that are optional and left out are not counted in nbInputs.
struct Tensors {
    int32_t nbInputs{0};
    std::array<Tensor, kMaxPorts> in{};
    std::array<Tensor, kMaxPorts> out{};

    bool has(int32_t input) const { return input < nbInputs; }
    void* output(int32_t index) const { return const_cast<void*>(out[static_cast<size_t>(index)].data); }
};

}  // namespace trtsmith
