// Which inputs and outputs an operator has, and which of them share a type.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

// A type variable: all ports of one node that share it have one type.
enum class TypeVar : int32_t {
    kT,  // float32, float16, bfloat16
    kI,  // int32, int64
};

constexpr char const* nameOf(TypeVar variable)
{
    return variable == TypeVar::kT ? "T" : "I";
}

constexpr bool allows(TypeVar variable, DType type)
{
    if (variable == TypeVar::kT) {
        return type == DType::kFloat32 || type == DType::kFloat16 || type == DType::kBFloat16;
    }
    return type == DType::kInt32 || type == DType::kInt64;
}

inline constexpr int32_t kAnyRank = -1;

struct Port {
    char const* name;
    TypeVar type;
    int32_t rank;
    bool optional{false};
};

template <size_t NbInputs, size_t NbOutputs>
struct Signature {
    std::array<Port, NbInputs> inputs;  // optional ones last: absence is told by the number of inputs
    std::array<Port, NbOutputs> outputs;

    constexpr int32_t maxInputs() const { return static_cast<int32_t>(NbInputs); }
    constexpr int32_t nbOutputs() const { return static_cast<int32_t>(NbOutputs); }
    constexpr int32_t minInputs() const
    {
        int32_t required = 0;
        for (Port const& port : inputs) {
            required += port.optional ? 0 : 1;
        }
        return required;
    }
    // The port at a position of the concatenation inputs-then-outputs, when nbInputs inputs are connected.
    constexpr Port const& at(int32_t position, int32_t nbInputs) const
    {
        return position < nbInputs ? inputs[static_cast<size_t>(position)]
                                   : outputs[static_cast<size_t>(position - nbInputs)];
    }
    constexpr bool optionalsAreLast() const
    {
        bool optional = false;
        for (Port const& port : inputs) {
            if (optional && !port.optional) {
                return false;
            }
            optional = port.optional;
        }
        return true;
    }
    // Every output type follows from an input.
    constexpr bool outputTypesFollow() const
    {
        for (Port const& output : outputs) {
            bool found = false;
            for (Port const& input : inputs) {
                found = found || (input.type == output.type && !input.optional);
            }
            if (!found) {
                return false;
            }
        }
        return true;
    }
    // The first input, among those connected, that has this type variable; its type decides.
    constexpr int32_t firstInputOf(TypeVar type, int32_t nbInputs) const
    {
        for (int32_t i = 0; i < nbInputs; ++i) {
            if (inputs[static_cast<size_t>(i)].type == type) {
                return i;
            }
        }
        return -1;
    }
};

}  // namespace trtsmith
