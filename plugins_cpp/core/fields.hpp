// Plugin fields as a constexpr table over the members of a Params struct.
//
// A field is int32_t, float or std::array of one of them. The same table parses what a creator is given (strictly),
// says what a plugin serialises, writes the V2 buffer and the manifest. Values out of a field's range are refused where they
// come in: shape rules divide by strides, and TensorRT asks for shapes before anything else can refuse them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

namespace trtsmith {

enum class FieldKind : int32_t {
    kInt32,
    kFloat32,
};

// The values that an element may have, both ends included.
struct Range {
    double least{-std::numeric_limits<double>::infinity()};
    double most{std::numeric_limits<double>::infinity()};

    // Not a NaN either.
    constexpr bool has(double value) const { return value >= least && value <= most; }
};

constexpr Range atLeast(double least) { return {least}; }
inline constexpr Range kZeroOrOne{0, 1};

// A field of some Params struct: where it lies, in a form that needs no template argument for its type.
template <typename Params>
struct Field {
    const char* name;
    FieldKind kind;
    int32_t length;  // number of elements
    bool list;       // whether it is a list, even of one element
    Range range;     // of each element
    void* (*data)(Params&);

    static constexpr size_t kElementBytes = 4;
    constexpr size_t bytes() const { return static_cast<size_t>(length) * kElementBytes; }
};

namespace detail {

template <typename T>
struct FieldTraits;
template <>
struct FieldTraits<int32_t> {
    static constexpr FieldKind kKind = FieldKind::kInt32;
    static constexpr int32_t kLength = 1;
    static constexpr bool kList = false;
};
template <>
struct FieldTraits<float> {
    static constexpr FieldKind kKind = FieldKind::kFloat32;
    static constexpr int32_t kLength = 1;
    static constexpr bool kList = false;
};
template <typename T, size_t N>
struct FieldTraits<std::array<T, N>> {
    static constexpr FieldKind kKind = FieldTraits<T>::kKind;
    static constexpr int32_t kLength = static_cast<int32_t>(N);
    static constexpr bool kList = true;
};

template <typename M>
struct MemberOf;
template <typename C, typename T>
struct MemberOf<T C::*> {
    using Class = C;
    using Type = T;
};

}  // namespace detail

// field<&Params::stride>("stride", atLeast(1))
template <auto Member>
constexpr auto field(const char* name, Range range = {}) {
    using Of = detail::MemberOf<decltype(Member)>;
    using Traits = detail::FieldTraits<typename Of::Type>;
    using Params = typename Of::Class;
    return Field<Params>{name,          Traits::kKind, Traits::kLength,
                         Traits::kList, range,         [](Params& params) -> void* { return &(params.*Member); }};
}

namespace detail {

template <typename Params>
double elementOf(const Field<Params>& f, Params& params, int32_t index) {
    const char* at = static_cast<const char*>(f.data(params)) + index * Field<Params>::kElementBytes;
    if (f.kind == FieldKind::kInt32) {
        int32_t value = 0;
        std::memcpy(&value, at, sizeof value);
        return value;
    }
    float value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
}

inline std::string numberText(double value) {
    // What an int32 can be as such; anything else, and what is no number, in printf's words.
    const bool small = value > -1e10 && value < 1e10;
    const auto whole = static_cast<int64_t>(small ? value : 0);
    return small && static_cast<double>(whole) == value ? std::to_string(whole) : std::to_string(value);
}

}  // namespace detail

// "" or the first value that is out of its field's range.
template <typename Params, size_t N>
std::string rangeFault(const std::array<Field<Params>, N>& table, Params& params) {
    for (const Field<Params>& f : table) {
        for (int32_t i = 0; i < f.length; ++i) {
            const double value = detail::elementOf(f, params, i);
            if (f.range.has(value)) {
                continue;
            }
            std::string expected = "a number";
            if (f.range.most < std::numeric_limits<double>::infinity()) {
                expected = detail::numberText(f.range.least) + " to " + detail::numberText(f.range.most);
            } else if (f.range.least > -std::numeric_limits<double>::infinity()) {
                expected = "at least " + detail::numberText(f.range.least);
            }
            return std::string("field '") + f.name + "' is " + detail::numberText(value) + "; expected " + expected;
        }
    }
    return {};
}

// What a creator is given, whatever the interface that brings it.
struct GivenField {
    const char* name;
    FieldKind kind;
    bool kindKnown;  // false: a type that no field of ours has
    int32_t length;
    const void* data;
};

// Fills params from the given fields. Returns "" or what is wrong. Every field must be there once, with its type, its
// length and values in its range; fields that the operator does not have are refused.
template <typename Params, size_t N>
std::string parseFields(const std::array<Field<Params>, N>& table, const GivenField* given, int32_t count,
                        Params& params) {
    std::array<bool, N> seen{};
    for (int32_t i = 0; i < count; ++i) {
        const GivenField& entry = given[i];
        const std::string_view name = entry.name != nullptr ? entry.name : "";
        bool found = false;
        for (size_t f = 0; f < N; ++f) {
            const Field<Params>& wanted = table[f];
            if (name != wanted.name) {
                continue;
            }
            const std::string label = std::string("field '") + wanted.name + "'";
            if (seen[f]) {
                return label + " is given twice";
            }
            if (!entry.kindKnown || entry.kind != wanted.kind) {
                return label + " has the wrong type; expected " +
                       (wanted.kind == FieldKind::kInt32 ? "INT32" : "FLOAT32");
            }
            if (entry.length != wanted.length) {
                return label + " has length " + std::to_string(entry.length) + "; expected " +
                       std::to_string(wanted.length);
            }
            if (entry.data == nullptr) {
                return label + " has no data";
            }
            std::memcpy(wanted.data(params), entry.data, wanted.bytes());
            seen[f] = true;
            found = true;
        }
        if (!found) {
            return "unknown field '" + std::string(name) + "'";
        }
    }
    for (size_t f = 0; f < N; ++f) {
        if (!seen[f]) {
            return std::string("missing field '") + table[f].name + "'";
        }
    }
    return rangeFault(table, params);
}

// "stride=1,1;groups=4": one text per distinct Params, for timing caches and logs.
template <typename Params, size_t N>
std::string describeFields(const std::array<Field<Params>, N>& table, Params params) {
    std::string text;
    for (const Field<Params>& f : table) {
        text += text.empty() ? "" : ";";
        text += f.name;
        const char* separator = "=";
        for (int32_t i = 0; i < f.length; ++i) {
            uint32_t bits = 0;
            std::memcpy(&bits, static_cast<char*>(f.data(params)) + i * Field<Params>::kElementBytes, sizeof bits);
            // Floats by their bits: two values that print alike must not share a timing.
            text += separator + (f.kind == FieldKind::kInt32 ? std::to_string(static_cast<int32_t>(bits))
                                                             : "bits" + std::to_string(bits));
            separator = ",";
        }
    }
    return text;
}

}  // namespace trtsmith
