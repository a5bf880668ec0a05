// Launches from run-time types and sizes: the one switch over element types, checked sizes, legal grids.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "dtype.hpp"

namespace trtsmith {

template <typename T>
struct TypeTag {
    using type = T;
};

// Calls run(TypeTag<T>{}) for the floating-point type; cudaErrorInvalidValue for any other type.
template <typename Run>
cudaError_t withFloatType(DType type, Run&& run) {
    switch (type) {
        case DType::kFloat32:
            return run(TypeTag<float>{});
        case DType::kFloat16:
            return run(TypeTag<__half>{});
        case DType::kBFloat16:
            return run(TypeTag<__nv_bfloat16>{});
        default:
            return cudaErrorInvalidValue;
    }
}

// No tensor has more elements. Far below 2^63, so that what kernels add to a count, or shift into it, cannot overflow.
constexpr int64_t kMaxElements = int64_t{1} << 56;

// Product of sizes into `count`; false when a size is negative or the product of the others is above kMaxElements.
// A zero makes the product 0, but does not hide sizes that overflow: offsets are computed from those too.
inline bool elementCount(std::initializer_list<int64_t> sizes, int64_t& count) {
    int64_t product = 1;
    bool empty = false;
    for (const int64_t size : sizes) {
        if (size < 0) {
            return false;
        }
        if (size == 0) {
            empty = true;
        } else if (product > kMaxElements / size) {
            return false;
        } else {
            product *= size;
        }
    }
    count = empty ? 0 : product;
    return true;
}

inline int64_t ceilDivide(int64_t value, int64_t divisor) { return value / divisor + (value % divisor != 0 ? 1 : 0); }

// Blocks for that many pieces of work, at most what gridDim.x can hold: kernels stride over the rest.
inline unsigned int gridBlocks(int64_t pieces) {
    constexpr int64_t kMaxGrid = std::numeric_limits<int32_t>::max();
    return static_cast<unsigned int>(pieces < kMaxGrid ? pieces : kMaxGrid);
}

inline bool isAligned(const void* pointer, size_t bytes) { return reinterpret_cast<uintptr_t>(pointer) % bytes == 0; }

template <typename T>
struct Exactly {
    using type = T;
};

// Launches on a one-dimensional grid. The error of this launch comes back by value, so one that other code left
// behind is never taken for ours; a failed launch is also cleared from the runtime, as the caller now has it.
template <typename... Parameters>
cudaError_t launch(void (*kernel)(Parameters...), unsigned int blocks, unsigned int threads, size_t sharedBytes,
                   cudaStream_t stream, typename Exactly<Parameters>::type... arguments) {
    void* pointers[] = {&arguments...};
    const cudaError_t error = cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(blocks), dim3(threads),
                                               pointers, sharedBytes, stream);
    if (error != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
    }
    return error;
}

// Lets a kernel have that much dynamic shared memory; without it 48 KiB are the most.
template <typename... Parameters>
cudaError_t allowSharedBytes(void (*kernel)(Parameters...), int bytes) {
    const cudaError_t error =
        cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
    }
    return error;
}

// The same as `launch` for a kernel that may begin while the one before it in the stream ends (sm_90 and later): it must
// wait for it itself, with griddepcontrol.wait, before it touches what that one wrote.
template <typename... Parameters>
cudaError_t launchAfter(void (*kernel)(Parameters...), unsigned int blocks, unsigned int threads, size_t sharedBytes,
                        cudaStream_t stream, typename Exactly<Parameters>::type... arguments) {
    void* pointers[] = {&arguments...};
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t configuration{};
    configuration.gridDim = dim3(blocks);
    configuration.blockDim = dim3(threads);
    configuration.dynamicSmemBytes = sharedBytes;
    configuration.stream = stream;
    configuration.attrs = &attribute;
    configuration.numAttrs = 1;
    const cudaError_t error = cudaLaunchKernelExC(&configuration, reinterpret_cast<const void*>(kernel), pointers);
    if (error != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
    }
    return error;
}

}  // namespace trtsmith
