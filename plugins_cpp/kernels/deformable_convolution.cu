#include "deformable_convolution.cuh"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "deformable_convolution_general.cuh"
#include "deformable_convolution_hopper.cuh"
#include "deformable_convolution_prepare.cuh"
#include "deformable_convolution_tiled.cuh"

namespace trtsmith {
namespace {

bool inRange(std::initializer_list<int64_t> values, int64_t low, int64_t high) {
    for (const int64_t value : values) {
        if (value < low || value > high) {
            return false;
        }
    }
    return true;
}

bool possible(const DeformableConvolutionShape& s) {
    constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
    // 128 below the maximum, so that a tile or a step past the last channel does not overflow.
    return inRange(
               {s.channels, s.outChannels, s.height, s.width, s.outHeight, s.outWidth, s.kernelHeight, s.kernelWidth},
               0, kMaxInt - 128) &&
           inRange({s.strideHeight, s.strideWidth, s.dilationHeight, s.dilationWidth}, 1, kMaxInt) &&
           inRange({s.paddingTop, s.paddingLeft}, -kMaxInt, kMaxInt) &&
           inRange({s.groups, s.offsetGroups}, 1, kMaxInt) && s.channels % s.groups == 0 &&
           s.channels % s.offsetGroups == 0 && s.outChannels % s.groups == 0;
}

template <typename T>
cudaError_t runGeneral(const DeformableConvolutionParams& params, const DeformableConvolutionShape& shape,
                       const uint32_t* condition, cudaStream_t stream) {
    using general::kThreadPixels;
    general::Arguments<T> arguments{};
    arguments.x = static_cast<const T*>(params.x);
    arguments.offset = static_cast<const T*>(params.offset);
    arguments.mask = static_cast<const T*>(params.mask);
    arguments.weight = static_cast<const T*>(params.weight);
    arguments.bias = static_cast<const T*>(params.bias);
    arguments.output = static_cast<T*>(params.output);
    arguments.channels = shape.channels;
    arguments.outChannels = shape.outChannels;
    arguments.offsetGroups = shape.offsetGroups;
    arguments.plane = shape.height * shape.width;
    arguments.outPlane = shape.outHeight * shape.outWidth;
    arguments.pixels = shape.batch * arguments.outPlane;
    arguments.taps = shape.kernelHeight * shape.kernelWidth;
    arguments.weightRow = shape.channels / shape.groups * arguments.taps;
    arguments.strideHeight = shape.strideHeight;
    arguments.strideWidth = shape.strideWidth;
    arguments.paddingTop = shape.paddingTop;
    arguments.paddingLeft = shape.paddingLeft;
    arguments.dilationHeight = shape.dilationHeight;
    arguments.dilationWidth = shape.dilationWidth;
    arguments.height = static_cast<int32_t>(shape.height);
    arguments.width = static_cast<int32_t>(shape.width);
    arguments.outWidth = static_cast<int32_t>(shape.outWidth);
    arguments.kernelWidth = static_cast<int32_t>(shape.kernelWidth);
    arguments.groups = static_cast<int32_t>(shape.groups);
    arguments.groupChannels = static_cast<int32_t>(shape.channels / shape.groups);
    arguments.groupOut = static_cast<int32_t>(shape.outChannels / shape.groups);
    arguments.offsetChannels = static_cast<int32_t>(shape.channels / shape.offsetGroups);
    arguments.vectorStores =
        arguments.outPlane % kThreadPixels == 0 && isAligned(params.output, kThreadPixels * sizeof(T));
    arguments.condition = condition;
    return shape.outChannels / shape.groups > 64 ? general::launchConvolution<T, 128>(arguments, stream)
                                                 : general::launchConvolution<T, 64>(arguments, stream);
}

constexpr int64_t kWorkspaceAlignment = 256;

int64_t alignUp(int64_t bytes) { return ceilDivide(bytes, kWorkspaceAlignment) * kWorkspaceAlignment; }

// Bytes of the workspace's parts, in their order. Each grows with each size, so that the workspace for the largest
// shape serves every smaller one.
struct WorkspaceParts {
    int64_t exponents;
    int64_t weights;
    int64_t x;       // in chunks of channels, padded
    int64_t images;  // that fit there
};

// False where the general kernel runs, which needs none. x takes its border and all images; or as many images as fit in a
// quarter of im2col, but at least one.
bool workspaceParts(DType type, const DeformableConvolutionShape& s, WorkspaceParts& parts) {
    constexpr int64_t kLimit = int64_t{1} << 40;
    const int64_t bytes = type == DType::kFloat32 ? 4 : 2;
    int64_t image = 0;
    int64_t all = 0;
    int64_t border = 0;
    int64_t columns = 0;
    int64_t row = 0;
    if (!possible(s) || !elementCount({s.channels, s.height + 1, s.width + 1}, image) ||
        !elementCount({s.batch, image}, all) || !elementCount({s.channels, 2 * s.width + 5}, border) ||
        !elementCount({s.channels / s.groups, s.kernelHeight, s.kernelWidth}, row)) {
        return false;
    }
    if (!elementCount({s.batch, s.channels, s.kernelHeight, s.kernelWidth, s.outHeight, s.outWidth}, columns)) {
        columns = kMaxElements;
    }
    const bool empty = s.batch == 0 || s.channels == 0 || s.height == 0 || s.width == 0 || row == 0;
    if (empty || image > kLimit || row > kLimit / 128 || s.outChannels > kLimit / std::max<int64_t>(row, 64)) {
        return false;
    }
    parts.exponents = alignUp(s.outChannels * 4);
    parts.weights = alignUp(s.outChannels * ceilDivide(row * bytes, tiled::kRowBytes) * tiled::kRowBytes);
    const int64_t x = border + std::max(image, std::min(all, columns / 4 - border));
    parts.images = (x - border) / image;
    parts.x = alignUp(x * bytes);
    return true;
}

struct Device {
    int multiprocessors;
    int sharedBytes;   // for one block
    bool tensorCores;  // runs the tiled kernel
    bool pipelines;    // and the Hopper kernel
};

// Which kernels the code has that the current device runs. Each is empty in code for architectures below its own, and so
// is what the driver makes for a newer device from the PTX of such an architecture: ptxVersion is what the code was
// compiled for, binaryVersion what it runs on. All kernels are compiled for the same architectures, so one answers for all.
cudaError_t availableKernels(Device& device) {
    cudaFuncAttributes attributes{};
    const auto kernel = tiled::convolutionKernel<__half, 64>;
    const cudaError_t error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel));
    if (error != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        return error;
    }
    device.tensorCores = attributes.ptxVersion >= 80;
    device.pipelines = attributes.ptxVersion == 90 && attributes.binaryVersion == 90;
    return cudaSuccess;
}

cudaError_t currentDevice(Device& device) {
    int number = 0;
    cudaError_t error = cudaGetDevice(&number);
    for (const auto& [attribute, target] : {std::pair{cudaDevAttrMultiProcessorCount, &device.multiprocessors},
                                            std::pair{cudaDevAttrMaxSharedMemoryPerBlockOptin, &device.sharedBytes}}) {
        if (error == cudaSuccess) {
            error = cudaDeviceGetAttribute(target, attribute, number);
        }
    }
    return error == cudaSuccess ? availableKernels(device) : error;
}

template <int kOut>
constexpr int sharedBytes(int slots) {
    return tiled::Places<kOut>::kFactors + 2 * slots * tiled::Places<kOut>::kSlotBytes;
}

// How the tensor-core path would run a shape.
struct Plan {
    WorkspaceParts parts;
    tiled::DepthOrder order;
    int64_t images;  // of one launch
    Device device;
};

// Above that their positions take too much of the shared memory: 2.5 KiB a tap.
constexpr int64_t kMaxKeptTaps = 16;

// False where the general kernel must run.
template <typename T>
bool makePlan(const DeformableConvolutionShape& s, DType type, Plan& plan) {
    constexpr int64_t kUnitChannels = tiled::kUnitBytes / static_cast<int64_t>(sizeof(T));
    constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max() / 2;
    const int64_t segment = std::gcd(s.channels / s.groups, s.channels / s.offsetGroups);
    if (segment % kUnitChannels != 0 || !workspaceParts(type, s, plan.parts) || !plan.device.tensorCores) {
        return false;
    }
    const tiled::PaddedPlanes padded(1, s.height, s.width);
    const int64_t outPlane = s.outHeight * s.outWidth;
    const int64_t taps = s.kernelHeight * s.kernelWidth;
    const int64_t units = s.channels / s.groups / kUnitChannels * taps;
    // Each size is below 2^31, so no product of two overflows here.
    const auto extent = [](int64_t size, int64_t out, int64_t stride, int64_t kernel, int64_t dilation,
                           int64_t padding) { return size + out * stride + kernel * dilation + std::abs(padding); };
    if (padded.pixels > tiled::kMaxChunkBytes / tiled::kRowBytes || outPlane > kMaxInt - 2 * tiled::kPixels ||
        taps > kMaxInt / 1024 || units > kMaxInt / 64 ||
        extent(s.height, s.outHeight, s.strideHeight, s.kernelHeight, s.dilationHeight, s.paddingTop) >
            tiled::kMaxExtent ||
        extent(s.width, s.outWidth, s.strideWidth, s.kernelWidth, s.dilationWidth, s.paddingLeft) > tiled::kMaxExtent) {
        return false;
    }
    int64_t chunk = tiled::kStepUnits;
    while (segment / kUnitChannels % chunk != 0) {
        --chunk;
    }
    plan.order.chunkUnits = FastDivider(chunk);
    plan.order.taps = FastDivider(taps);
    plan.order.units = static_cast<int32_t>(units);
    plan.order.sites = static_cast<int32_t>(units / chunk);
    plan.order.steps = static_cast<int32_t>(ceilDivide(units, tiled::kStepUnits));
    plan.order.slots = static_cast<int32_t>(tiled::kStepUnits % chunk == 0 ? tiled::kStepUnits / chunk
                                                                           : (tiled::kStepUnits - 2) / chunk + 2);
    const bool shared = chunk == tiled::kStepUnits && s.channels / s.offsetGroups % (s.channels / s.groups) == 0;
    plan.order.locatedSteps = shared && taps <= kMaxKeptTaps ? static_cast<int32_t>(taps) : plan.order.steps;
    const int64_t others = tiled::kMaxChunkBytes / (chunk * tiled::kUnitBytes) - padded.pixels;
    plan.images =
        std::min({s.batch, plan.parts.images, 1 + others / padded.image, (kMaxInt - 2 * tiled::kPixels) / outPlane});
    return true;
}

template <typename T, int kOut>
cudaError_t launchTiled(tiled::Arguments<T> arguments, cudaStream_t stream) {
    const int bytes = sharedBytes<kOut>(arguments.order.slots);
    const auto kernel = tiled::convolutionKernel<T, kOut>;
    const cudaError_t error = allowSharedBytes(kernel, bytes);
    if (error != cudaSuccess) {
        return error;
    }
    arguments.outTiles = static_cast<int32_t>(ceilDivide(arguments.groupOut, kOut));
    arguments.tiles = ceilDivide(arguments.pixels, tiled::kPixels) * arguments.groups * arguments.outTiles;
    return launch(kernel, gridBlocks(arguments.tiles), tiled::WarpTile<kOut>::kThreads, static_cast<size_t>(bytes),
                  stream, arguments);
}

// The widest tile that fits the shared memory, wastes less than half of itself and leaves work for most of the
// multiprocessors: every tile of output channels samples anew.
template <typename T>
cudaError_t launchTiles(const tiled::Arguments<T>& arguments, const Device& device, cudaStream_t stream) {
    const int64_t pixelTiles = ceilDivide(arguments.pixels, tiled::kPixels) * arguments.groups;
    const auto suits = [&](int out, int bytes) {
        return arguments.groupOut > out / 2 && bytes <= device.sharedBytes &&
               pixelTiles * ceilDivide(arguments.groupOut, out) * 4 >= device.multiprocessors * 3;
    };
    if (suits(256, sharedBytes<256>(arguments.order.slots))) {
        return launchTiled<T, 256>(arguments, stream);
    }
    if (suits(128, sharedBytes<128>(arguments.order.slots))) {
        return launchTiled<T, 128>(arguments, stream);
    }
    return launchTiled<T, 64>(arguments, stream);
}

template <typename T>
cudaError_t runTiled(const DeformableConvolutionParams& params, const DeformableConvolutionShape& s, const Plan& plan,
                     void* workspace, cudaStream_t stream) {
    using Operand = typename tiled::OperandOf<T>::type;
    constexpr bool kSplit = tiled::OperandOf<T>::kSplit;
    constexpr int64_t kUnitChannels = tiled::kUnitBytes / static_cast<int64_t>(sizeof(T));
    char* const base = static_cast<char*>(workspace);
    const int64_t plane = s.height * s.width;
    const int64_t outPlane = s.outHeight * s.outWidth;
    const int64_t taps = s.kernelHeight * s.kernelWidth;

    tiled::PrepareArguments<T> prepare{};
    prepare.header = reinterpret_cast<tiled::Header*>(base);
    prepare.rowExponents = reinterpret_cast<int32_t*>(base + tiled::kHeaderBytes);
    prepare.weightSteps = reinterpret_cast<Operand*>(base + tiled::kHeaderBytes + plan.parts.exponents);
    prepare.chunked = reinterpret_cast<T*>(base + tiled::kHeaderBytes + plan.parts.exponents + plan.parts.weights);
    prepare.weight = static_cast<const T*>(params.weight);
    prepare.channels = s.channels;
    prepare.plane = plane;
    prepare.height = static_cast<int32_t>(s.height);
    prepare.width = FastDivider(s.width);
    prepare.weightRow = s.channels / s.groups * taps;
    const int64_t channelTiles = ceilDivide(s.channels, tiled::kStepUnits * kUnitChannels);
    const int64_t pixelTiles = ceilDivide(plane, tiled::kPreparePixels);
    prepare.channelTiles = FastDivider(channelTiles);
    prepare.pixelTiles = FastDivider(pixelTiles);
    prepare.groupOut = static_cast<int32_t>(s.outChannels / s.groups);
    prepare.order = plan.order;
    prepare.vectorLoads = plane % 4 == 0 && isAligned(params.x, 4 * sizeof(T));

    tiled::Arguments<T> a{};
    a.x = prepare.chunked;
    a.weight = prepare.weightSteps;
    a.rowExponents = prepare.rowExponents;
    a.bias = static_cast<const T*>(params.bias);
    a.header = prepare.header;
    a.pixelBytes = plan.order.chunkUnits.divisor * tiled::kUnitBytes;
    a.outPlane = outPlane;
    a.outChannels = s.outChannels;
    a.offsetGroups = s.offsetGroups;
    a.order = plan.order;
    a.kernelWidth = FastDivider(s.kernelWidth);
    a.offsetUnits = FastDivider(s.channels / s.offsetGroups / kUnitChannels);
    a.height = static_cast<int32_t>(s.height);
    a.width = static_cast<int32_t>(s.width);
    a.outWidth = static_cast<int32_t>(s.outWidth);
    a.strideHeight = static_cast<int32_t>(s.strideHeight);
    a.strideWidth = static_cast<int32_t>(s.strideWidth);
    a.paddingTop = static_cast<int32_t>(s.paddingTop);
    a.paddingLeft = static_cast<int32_t>(s.paddingLeft);
    a.dilationHeight = static_cast<int32_t>(s.dilationHeight);
    a.dilationWidth = static_cast<int32_t>(s.dilationWidth);
    a.groups = static_cast<int32_t>(s.groups);
    a.groupUnits = static_cast<int32_t>(s.channels / s.groups / kUnitChannels);
    a.groupChunks = a.groupUnits / static_cast<int32_t>(plan.order.chunkUnits.divisor);
    while (2U << a.laneBits <= plan.order.chunkUnits.divisor) {
        ++a.laneBits;
    }
    a.groupOut = prepare.groupOut;

    cudaError_t error = kSplit ? cudaMemsetAsync(base, 0, tiled::kHeaderBytes, stream) : cudaSuccess;
    for (int64_t first = 0; first < s.batch && error == cudaSuccess; first += plan.images) {
        const int64_t images = std::min(plan.images, s.batch - first);
        const tiled::PaddedPlanes padded(images, s.height, s.width);
        prepare.images = images;
        prepare.padded = padded;
        a.chunkBytes = padded.pixels * a.pixelBytes;
        a.lineBytes = padded.pitch * a.pixelBytes;
        a.imagePixels = static_cast<uint32_t>(padded.image);
        a.firstPixel = static_cast<uint32_t>(padded.first);
        a.outsidePixel = static_cast<uint32_t>(padded.outside);
        a.pitch = static_cast<int32_t>(padded.pitch);
        prepare.x = static_cast<const T*>(params.x) + first * s.channels * plane;
        prepare.rows = first == 0 ? s.outChannels : 0;
        prepare.pieces = prepare.rows + images * channelTiles * pixelTiles;
        error = launch(tiled::prepareKernel<T>, gridBlocks(prepare.pieces), tiled::kPrepareThreads, 0, stream, prepare);
        if (error != cudaSuccess) {
            break;
        }
        a.offset = static_cast<const T*>(params.offset) + first * s.offsetGroups * taps * 2 * outPlane;
        a.mask = params.mask == nullptr ? nullptr
                                        : static_cast<const T*>(params.mask) + first * s.offsetGroups * taps * outPlane;
        a.output = static_cast<T*>(params.output) + first * s.outChannels * outPlane;
        a.pixels = static_cast<int32_t>(images * outPlane);
        a.vectorStores = outPlane % 4 == 0 && isAligned(a.output, 4 * sizeof(T));
        error = plan.device.pipelines ? tiled::launchPipeline(a, plan.device.multiprocessors, stream)
                                      : launchTiles(a, plan.device, stream);
    }
    if (kSplit && error == cudaSuccess) {
        error = runGeneral<T>(params, s, &prepare.header->inexact, stream);
    }
    return error;
}

}  // namespace

size_t deformableConvolutionWorkspace(DType type, const DeformableConvolutionShape& shape) {
    WorkspaceParts parts{};
    return workspaceParts(type, shape, parts)
               ? static_cast<size_t>(tiled::kHeaderBytes + parts.exponents + parts.weights + parts.x)
               : 0;
}

cudaError_t deformableConvolution(const DeformableConvolutionParams& params, const DeformableConvolutionShape& shape,
                                  void* workspace, cudaStream_t stream) {
    int64_t inputs = 0;
    int64_t offsets = 0;
    int64_t weights = 0;
    int64_t outputs = 0;
    if (!possible(shape) || !elementCount({shape.batch, shape.channels, shape.height, shape.width}, inputs) ||
        !elementCount({shape.batch, shape.offsetGroups, shape.kernelHeight, shape.kernelWidth, 2, shape.outHeight,
                       shape.outWidth},
                      offsets) ||
        !elementCount({shape.outChannels, shape.channels / shape.groups, shape.kernelHeight, shape.kernelWidth},
                      weights) ||
        !elementCount({shape.batch, shape.outChannels, shape.outHeight, shape.outWidth}, outputs)) {
        return cudaErrorInvalidValue;
    }
    const bool missing = (inputs > 0 && params.x == nullptr) || (offsets > 0 && params.offset == nullptr) ||
                         (weights > 0 && params.weight == nullptr) || (outputs > 0 && params.output == nullptr);
    if (missing) {
        return cudaErrorInvalidValue;
    }
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        using T = typename decltype(tag)::type;
        if (outputs == 0) {
            return cudaSuccess;
        }
        Plan plan{};
        if (workspace != nullptr) {
            const cudaError_t error = currentDevice(plan.device);
            if (error != cudaSuccess) {
                return error;
            }
            if (makePlan<T>(shape, params.type, plan)) {
                return runTiled<T>(params, shape, plan, workspace, stream);
            }
        }
        return runGeneral<T>(params, shape, nullptr, stream);
    });
}

}  // namespace trtsmith
