// The resources that a plugin is given when it is attached to an execution context.
#pragma once

#include <NvInferRuntime.h>

namespace trtsmith::host {

// An allocator on cudaMalloc; returns null where there is no GPU.
nvinfer1::IGpuAllocator& gpuAllocator() noexcept;
nvinfer1::IPluginResourceContext& resourceContext() noexcept;

}  // namespace trtsmith::host
