// The V2DynamicExt plugin library, for TensorRT 8.6 to 10. getCreators is what TensorRT 10 looks for,
// getPluginCreators what 8.6 and 9 do.
#include "exports.hpp"

namespace {

using Creators = std::array<nvinfer1::IPluginCreator*, static_cast<size_t>(trtsmith::kNbOperators)>;

const Creators& v2Creators() {
    static const Creators list = [] {
        Creators made{};
        for (size_t i = 0; i < made.size(); ++i) {
            made[i] = static_cast<nvinfer1::IPluginCreator*>(trtsmith::creators()[i]);
        }
        return made;
    }();
    return list;
}

}  // namespace

TRTSMITH_EXPORT nvinfer1::IPluginCreatorInterface* const* getCreators(int32_t& count) {
    return trtsmith::guarded<nvinfer1::IPluginCreatorInterface* const*>("library_v2", "getCreators", nullptr, [&count] {
        count = 0;
        const auto* list = trtsmith::creators().data();
        count = trtsmith::kNbOperators;
        return list;
    });
}

TRTSMITH_EXPORT nvinfer1::IPluginCreator* const* getPluginCreators(int32_t& count) {
    return trtsmith::guarded<nvinfer1::IPluginCreator* const*>("library_v2", "getPluginCreators", nullptr, [&count] {
        count = 0;
        const auto* list = v2Creators().data();
        count = trtsmith::kNbOperators;
        return list;
    });
}

TRTSMITH_EXPORT void setLoggerFinder(nvinfer1::ILoggerFinder*) {}

TRTSMITH_EXPORT const char* trtsmithManifest() {
    return trtsmith::guarded<const char*>("library_v2", "manifest", nullptr,
                                          [] { return trtsmith::manifest("V2DynamicExt"); });
}
