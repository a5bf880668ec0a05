// The creator and the manifest entry that an operator's file gives to the library. The file is compiled once for each
// library: with the V2 adapter where TRTSMITH_PLUGIN_V2 is defined, with the V3 adapter otherwise.
#pragma once

#include <string>

#ifdef TRTSMITH_PLUGIN_V2
#include "trt/plugin_v2.hpp"
#define TRTSMITH_CREATOR(Op) ::trtsmith::CreatorV2<Op>
#else
#include "trt/plugin_v3.hpp"
#define TRTSMITH_CREATOR(Op) ::trtsmith::CreatorV3<Op>
#endif

#include "core/manifest.hpp"

// At namespace scope in namespace trtsmith. The creator is made at its first use: the library has no static
// initialisers.
#define TRTSMITH_BIND(Op)                                \
    nvinfer1::IPluginCreatorInterface* creatorOf##Op() { \
        static TRTSMITH_CREATOR(Op) creator;             \
        return &creator;                                 \
    }                                                    \
    std::string manifestOf##Op() { return operatorJson<Op>(kPluginNamespace); }
