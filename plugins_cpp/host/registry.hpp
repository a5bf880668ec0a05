// The plugin registry that a library sees when it registers its creators by itself while it is loaded.
#pragma once

#include <NvInferRuntime.h>

#include <vector>

namespace trtsmith::host {

// The creators that were registered since the last call; forgets them.
std::vector<nvinfer1::IPluginCreatorInterface*> takeRegisteredCreators();

// The creators in the registry of a TensorRT of this major version (TensorRT-RTX: 1).
std::vector<nvinfer1::IPluginCreatorInterface*> creatorsIn(nvinfer1::IPluginRegistry& registry, int32_t major);

}  // namespace trtsmith::host
