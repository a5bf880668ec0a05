// The plugin registry that a library sees when it registers its creators by itself while it is loaded.
#pragma once

#include <NvInferRuntime.h>

#include <vector>

namespace trtsmith::host {

// The creators that were registered since the last call; forgets them.
std::vector<nvinfer1::IPluginCreatorInterface*> takeRegisteredCreators();

}  // namespace trtsmith::host
