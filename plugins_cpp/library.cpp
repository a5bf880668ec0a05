// The V3 plugin library: what IPluginRegistry::loadLibrary looks for, and a manifest.
#include "exports.hpp"

TRTSMITH_EXPORT nvinfer1::IPluginCreatorInterface* const* getCreators(int32_t& count) {
    return trtsmith::guarded<nvinfer1::IPluginCreatorInterface* const*>("library", "getCreators", nullptr, [&count] {
        count = 0;
        const auto* list = trtsmith::creators().data();
        count = trtsmith::kNbOperators;
        return list;
    });
}

// TensorRT offers its logger here. It is not taken: ILogger differs between TensorRT 10, 11 and TensorRT-RTX.
TRTSMITH_EXPORT void setLoggerFinder(nvinfer1::ILoggerFinder*) {}

TRTSMITH_EXPORT const char* trtsmithManifest() {
    return trtsmith::guarded<const char*>("library", "manifest", nullptr, [] { return trtsmith::manifest("V3"); });
}
