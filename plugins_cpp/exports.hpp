// The library's exported entry points, shared by the V3 and the V2 library.
#pragma once

#include <array>
#include <string>

#include "operators.hpp"
#include "ops/binding.hpp"

namespace trtsmith {

#define TRTSMITH_DECLARE(Op)                            \
    nvinfer1::IPluginCreatorInterface* creatorOf##Op(); \
    std::string manifestOf##Op();
TRTSMITH_OPERATORS(TRTSMITH_DECLARE)
#undef TRTSMITH_DECLARE

#define TRTSMITH_COUNT(Op) +1
inline constexpr int32_t kNbOperators = 0 TRTSMITH_OPERATORS(TRTSMITH_COUNT);
#undef TRTSMITH_COUNT

using Creators = std::array<nvinfer1::IPluginCreatorInterface*, static_cast<size_t>(kNbOperators)>;

inline const Creators& creators() {
#define TRTSMITH_CREATOR_OF(Op) creatorOf##Op(),
    static const Creators list{TRTSMITH_OPERATORS(TRTSMITH_CREATOR_OF)};
#undef TRTSMITH_CREATOR_OF
    return list;
}

inline const char* manifest(const char* interfaceName) {
    static const std::string json = [interfaceName] {
        std::string operators;
#define TRTSMITH_MANIFEST_OF(Op) operators += (operators.empty() ? "" : ", ") + manifestOf##Op();
        TRTSMITH_OPERATORS(TRTSMITH_MANIFEST_OF)
#undef TRTSMITH_MANIFEST_OF
        return std::string("{\"library\": \"trtsmith\", \"interface\": \"") + interfaceName +
               "\", \"cuda_architectures\": \"" TRTSMITH_CUDA_ARCHITECTURES "\", \"operators\": [" + operators + "]}";
    }();
    return json.c_str();
}

}  // namespace trtsmith

#define TRTSMITH_EXPORT extern "C" __attribute__((visibility("default")))
