// The signature of an operator: its inputs and outputs, and the type variables that they share.
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
    kE,  // elements of any kind: float32, float16, bfloat16, int32, int64
    kV,  // the same and bool
    kF,  // float32
    kB,  // bool
    kN,  // int64: counts and positions
    kS,  // int32: sizes, in the one type that TensorRT takes for size tensors; and other small numbers
};

constexpr const char* nameOf(TypeVar variable) {
    constexpr const char* kNames[] = {"T", "I", "E", "V", "F", "B", "N", "S"};
    return kNames[static_cast<size_t>(variable)];
}

constexpr bool isFloat(DType type) {
    return type == DType::kFloat32 || type == DType::kFloat16 || type == DType::kBFloat16;
}

constexpr bool isIndex(DType type) { return type == DType::kInt32 || type == DType::kInt64; }

constexpr bool allows(TypeVar variable, DType type) {
    switch (variable) {
        case TypeVar::kT:
            return isFloat(type);
        case TypeVar::kI:
            return isIndex(type);
        case TypeVar::kE:
            return isFloat(type) || isIndex(type);
        case TypeVar::kV:
            return isFloat(type) || isIndex(type) || type == DType::kBool;
        case TypeVar::kF:
            return type == DType::kFloat32;
        case TypeVar::kB:
            return type == DType::kBool;
        case TypeVar::kN:
            return type == DType::kInt64;
        case TypeVar::kS:
            return type == DType::kInt32;
    }
    return false;
}

// Whether the variable stands for one type alone, so that an output's type need not follow from an input.
constexpr bool isFixed(TypeVar variable) {
    return variable == TypeVar::kF || variable == TypeVar::kB || variable == TypeVar::kN || variable == TypeVar::kS;
}

inline constexpr int32_t kAnyRank = -1;

struct Port {
    const char* name;
    TypeVar type;
    int32_t rank;
    bool optional{false};
    bool size{false};  // an output that holds a dimension of other outputs, which depends on values ("size tensor")
};

template <size_t NbInputs, size_t NbOutputs>
struct Signature {
    std::array<Port, NbInputs> inputs;  // optional ones last: absence is told by the number of inputs
    std::array<Port, NbOutputs> outputs;

    constexpr int32_t maxInputs() const { return static_cast<int32_t>(NbInputs); }
    constexpr int32_t nbOutputs() const { return static_cast<int32_t>(NbOutputs); }
    constexpr int32_t nbSizes() const {
        int32_t sizes = 0;
        for (const Port& port : outputs) {
            sizes += port.size ? 1 : 0;
        }
        return sizes;
    }
    constexpr int32_t firstSize() const { return nbOutputs() - nbSizes(); }
    constexpr int32_t minInputs() const {
        int32_t required = 0;
        for (const Port& port : inputs) {
            required += port.optional ? 0 : 1;
        }
        return required;
    }
    // The port at a position of the concatenation inputs-then-outputs, when nbInputs inputs are connected.
    constexpr const Port& at(int32_t position, int32_t nbInputs) const {
        return position < nbInputs ? inputs[static_cast<size_t>(position)]
                                   : outputs[static_cast<size_t>(position - nbInputs)];
    }
    constexpr bool optionalsAreLast() const {
        bool optional = false;
        for (const Port& port : inputs) {
            if (optional && !port.optional) {
                return false;
            }
            optional = port.optional;
        }
        return true;
    }
    // TensorRT's own: size tensors are int32 and have no dimensions. Ours: they come after all other outputs.
    constexpr bool sizesAreLastScalars() const {
        for (int32_t i = 0; i < nbOutputs(); ++i) {
            const Port& port = outputs[static_cast<size_t>(i)];
            if (port.size != (i >= firstSize()) || (port.size && (port.rank != 0 || port.type != TypeVar::kS))) {
                return false;
            }
        }
        return true;
    }
    // Every output type is the only one that its variable stands for, or follows from an input.
    constexpr bool outputTypesFollow() const {
        for (const Port& output : outputs) {
            bool found = isFixed(output.type);
            for (const Port& input : inputs) {
                found = found || (input.type == output.type && !input.optional);
            }
            if (!found) {
                return false;
            }
        }
        return true;
    }
    // The first input, among those connected, that has this type variable; its type decides.
    constexpr int32_t firstInputOf(TypeVar type, int32_t nbInputs) const {
        for (int32_t i = 0; i < nbInputs; ++i) {
            if (inputs[static_cast<size_t>(i)].type == type) {
                return i;
            }
        }
        return -1;
    }
};

}  // namespace trtsmith
