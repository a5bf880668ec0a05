// The Hopper kernel of the deformable convolution and its launch, for the source files that instantiate them.
#pragma once

#include <algorithm>

#include "deformable_convolution_hopper.cuh"
#include "deformable_convolution_hopper_consume.cuh"
#include "deformable_convolution_hopper_produce.cuh"
#include "dispatch.cuh"
#include "tensor_core.cuh"

namespace trtsmith {
namespace tiled {

// kChunk: units of a chunk, where the producers have a way of their own for it: kStepUnits, or 1 where each offset group
// is one unit; 0 for any other.
template <typename T, int kOut, int kPixels, int kChunk>
__global__ void __launch_bounds__(Pipeline<T, kOut, kPixels>::kThreads, Pipeline<T, kOut, kPixels>::kBlocks)
    pipelineKernel(const Arguments<T> a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    using Layout = Pipeline<T, kOut, kPixels>;
    extern __shared__ uint4 dynamicShared[];
    const uint32_t unaligned = sharedAddress(dynamicShared);
    const uint32_t aligned = (unaligned + Layout::kAlignment - 1) / Layout::kAlignment * Layout::kAlignment;
    const Shared<T, kOut, kPixels> shared{reinterpret_cast<char*>(dynamicShared) + (aligned - unaligned), aligned};
    const int thread = static_cast<int>(threadIdx.x);
    if (thread == 0) {
        for (int stage = 0; stage < Layout::kStages; ++stage) {
            hopper::initBarrier(shared.full(stage), Layout::kProducerThreads / 32 + 1);
            hopper::initBarrier(shared.empty(stage), Layout::kConsumerThreads / 32);
        }
        hopper::fenceBarrierInit();
    }
    __syncthreads();
    hopper::waitForKernelBefore();
    if (thread < Layout::kProducerThreads) {
        hopper::setRegisters<Layout::kProducerRegisters, Layout::kEntryRegisters>();
        if constexpr (kChunk == 1) {
            produceApart<T, kOut, kPixels>(a, shared, thread);
        } else {
            produce<T, kOut, kPixels, kChunk == kStepUnits>(a, shared, thread);
        }
    } else {
        hopper::setRegisters<Layout::kConsumerRegisters, Layout::kEntryRegisters>();
        consume<T, kOut, kPixels>(a, shared, thread - Layout::kProducerThreads);
    }
#endif
}

template <typename T, int kOut, int kPixels, int kChunk>
cudaError_t launchTiles(Arguments<T> arguments, int tables, int multiprocessors, cudaStream_t stream) {
    using Layout = Pipeline<T, kOut, kPixels>;
    arguments.order.tables = tables;
    const int bytes = Layout::sharedBytes(tables, arguments.order.slots);
    const auto kernel = pipelineKernel<T, kOut, kPixels, kChunk>;
    const cudaError_t error = allowSharedBytes(kernel, bytes);
    if (error != cudaSuccess) {
        return error;
    }
    arguments.outTiles = static_cast<int32_t>(ceilDivide(arguments.groupOut, kOut));
    arguments.tiles = ceilDivide(arguments.pixels, kPixels) * arguments.groups * arguments.outTiles;
    const int64_t blocks = std::min<int64_t>(arguments.tiles, int64_t{multiprocessors} * Layout::kBlocks);
    return launchAfter(kernel, gridBlocks(blocks), Layout::kThreads, static_cast<size_t>(bytes), stream, arguments);
}

template <typename T, int kOut, int kPixels>
cudaError_t launchChunks(const Arguments<T>& arguments, int multiprocessors, cudaStream_t stream) {
    const DepthOrder& order = arguments.order;
    if (order.chunkUnits.divisor == kStepUnits) {
        const int tables =
            order.locatedSteps < order.steps ? order.locatedSteps : 3 * Pipeline<T, kOut, kPixels>::kSites;
        return launchTiles<T, kOut, kPixels, kStepUnits>(arguments, tables, multiprocessors, stream);
    }
    return arguments.offsetUnits.divisor == 1 ? launchTiles<T, kOut, kPixels, 1>(arguments, 0, multiprocessors, stream)
                                              : launchTiles<T, kOut, kPixels, 0>(arguments, 3, multiprocessors, stream);
}

// The most output channels that waste less than half of a tile and leave work for most of the multiprocessors: every
// tile samples anew. fp32 has half the pixels: its sums and the products of a step take twice the registers.
template <typename T>
cudaError_t launchPipeline(const Arguments<T>& arguments, int multiprocessors, cudaStream_t stream) {
    constexpr int kPixels = OperandOf<T>::kSplit ? 64 : 128;
    const auto suits = [&](int out) {
        const int64_t tiles =
            ceilDivide(arguments.pixels, kPixels) * arguments.groups * ceilDivide(arguments.groupOut, out);
        return arguments.groupOut > out / 2 && tiles * 4 >= multiprocessors * 3;
    };
    if (suits(256)) {
        return launchChunks<T, 256, kPixels>(arguments, multiprocessors, stream);
    }
    return suits(128) ? launchChunks<T, 128, kPixels>(arguments, multiprocessors, stream)
                      : launchChunks<T, 64, 64>(arguments, multiprocessors, stream);
}

}  // namespace tiled
}  // namespace trtsmith
