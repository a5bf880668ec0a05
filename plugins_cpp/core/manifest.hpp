// The operator as JSON, from the constexpr tables; a test compares it with the Python definitions.
#pragma once

#include <limits>
#include <string>

#include "core/fields.hpp"
#include "core/signature.hpp"

namespace trtsmith {

namespace detail {

inline std::string quoted(const char* text) {
    return std::string("\"") + text + "\"";  // names are identifiers: nothing to escape
}

inline std::string limitJson(double limit) {
    return Range{std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max()}.has(limit)
               ? numberText(limit)
               : "null";
}

template <typename Ports>
std::string portsJson(const Ports& ports) {
    std::string json;
    for (const Port& port : ports) {
        json += (json.empty() ? "" : ", ") + std::string("{\"name\": ") + quoted(port.name) +
                ", \"type\": " + quoted(nameOf(port.type)) +
                ", \"rank\": " + (port.rank == kAnyRank ? std::string("null") : std::to_string(port.rank)) +
                ", \"optional\": " + (port.optional ? "true" : "false") +
                ", \"size\": " + (port.size ? "true" : "false") + "}";
    }
    return "[" + json + "]";
}

}  // namespace detail

template <typename Op>
std::string operatorJson(const char* pluginNamespace) {
    std::string fields;
    for (const auto& f : Op::kFields) {
        const char* kind = f.kind == FieldKind::kInt32 ? (f.list ? "ints" : "int") : (f.list ? "floats" : "float");
        fields += (fields.empty() ? "" : ", ") + std::string("{\"name\": ") + detail::quoted(f.name) +
                  ", \"kind\": " + detail::quoted(kind) +
                  ", \"length\": " + (f.list ? std::to_string(f.length) : std::string("null")) +
                  ", \"minimum\": " + detail::limitJson(f.range.least) +
                  ", \"maximum\": " + detail::limitJson(f.range.most) + "}";
    }
    return "{\"name\": " + detail::quoted(Op::kName) + ", \"version\": " + detail::quoted(Op::kVersion) +
           ", \"namespace\": " + detail::quoted(pluginNamespace) + ", \"fields\": [" + fields +
           "], \"inputs\": " + detail::portsJson(Op::kSignature.inputs) +
           ", \"outputs\": " + detail::portsJson(Op::kSignature.outputs) + "}";
}

}  // namespace trtsmith
