#include "resource.hpp"

#include <cuda_runtime_api.h>

namespace trtsmith::host {
namespace {

class Allocator final : public nvinfer1::IGpuAllocator {
public:
    void* allocate(const uint64_t size, const uint64_t /*alignment*/,
                   const nvinfer1::AllocatorFlags /*flags*/) noexcept override {
        void* memory = nullptr;
        return cudaMalloc(&memory, size) == cudaSuccess ? memory : nullptr;
    }

    bool deallocate(void* const memory) noexcept override { return cudaFree(memory) == cudaSuccess; }
};

class Context final : public nvinfer1::IPluginResourceContext {
public:
    nvinfer1::IGpuAllocator* getGpuAllocator() const noexcept override { return &gpuAllocator(); }

    nvinfer1::IErrorRecorder* getErrorRecorder() const noexcept override { return nullptr; }
};

}  // namespace

nvinfer1::IGpuAllocator& gpuAllocator() noexcept {
    static Allocator* const allocator = new Allocator;
    return *allocator;
}

nvinfer1::IPluginResourceContext& resourceContext() noexcept {
    static Context* const context = new Context;
    return *context;
}

}  // namespace trtsmith::host
