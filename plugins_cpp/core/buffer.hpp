// The V2 serialisation buffer: versioned and length-checked, because IPluginV2 hands over bare bytes.
//
//     uint32 magic, uint32 version, uint32 number of fields, then for each field: uint32 kind, uint32 length, elements
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/fields.hpp"

namespace trtsmith {

namespace detail {
inline constexpr uint32_t kBufferMagic = 0x54534d46;  // "TSMF"
inline constexpr uint32_t kBufferVersion = 1;
}  // namespace detail

template <typename Params, size_t N>
constexpr size_t bufferSize(const std::array<Field<Params>, N>& table) {
    size_t size = 3 * sizeof(uint32_t);
    for (const Field<Params>& f : table) {
        size += 2 * sizeof(uint32_t) + f.bytes();
    }
    return size;
}

template <typename Params, size_t N>
void writeBuffer(const std::array<Field<Params>, N>& table, Params params, void* buffer) {
    char* at = static_cast<char*>(buffer);
    auto put = [&at](const void* data, size_t bytes) {
        std::memcpy(at, data, bytes);
        at += bytes;
    };
    auto number = [&put](uint32_t value) { put(&value, sizeof value); };
    number(detail::kBufferMagic);
    number(detail::kBufferVersion);
    number(static_cast<uint32_t>(N));
    for (const Field<Params>& f : table) {
        number(static_cast<uint32_t>(f.kind));
        number(static_cast<uint32_t>(f.length));
        put(f.data(params), f.bytes());
    }
}

// "" or what is wrong with the buffer.
template <typename Params, size_t N>
std::string readBuffer(const std::array<Field<Params>, N>& table, const void* buffer, size_t size, Params& params) {
    if (buffer == nullptr || size != bufferSize(table)) {
        return "serialised plugin of " + std::to_string(size) + " bytes; expected " + std::to_string(bufferSize(table));
    }
    const char* at = static_cast<const char*>(buffer);
    auto number = [&at] {
        uint32_t value = 0;
        std::memcpy(&value, at, sizeof value);
        at += sizeof value;
        return value;
    };
    if (number() != detail::kBufferMagic || number() != detail::kBufferVersion || number() != N) {
        return "serialised plugin of another library or version";
    }
    for (const Field<Params>& f : table) {
        if (number() != static_cast<uint32_t>(f.kind) || number() != static_cast<uint32_t>(f.length)) {
            return std::string("serialised field '") + f.name + "' has another type or length";
        }
        std::memcpy(f.data(params), at, f.bytes());
        at += f.bytes();
    }
    return rangeFault(table, params);
}

}  // namespace trtsmith
