#include "kernels/sparse/rulebook_convolution.cuh"

#include "kernels/sparse/rulebook_convolution_tiled.cuh"

namespace trtsmith {
namespace {

using sparse::ConvolutionArguments;

// The tiled kernel is empty in code for architectures below sm_80, and so is what the driver makes for a newer device from the
// PTX of such an architecture.
template <typename T>
cudaError_t hasTensorCores(bool& result) {
    cudaFuncAttributes attributes{};
    const auto kernel = sparse::tiledKernel<true, 64, T>;
    const cudaError_t error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel));
    if (error != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
    }
    result = error == cudaSuccess && attributes.ptxVersion >= 80;
    return error;
}

template <typename T>
cudaError_t run(const RulebookConvolutionParams& p, const RulebookConvolutionShape& s, cudaStream_t stream) {
    constexpr int64_t kUnitElements = sparse::kUnitBytes / static_cast<int64_t>(sizeof(T));
    ConvolutionArguments<T> a{};
    a.features = static_cast<const T*>(p.features);
    a.weights = static_cast<const T*>(p.weights);
    a.pairs = p.pairs;
    a.bias = static_cast<const T*>(p.bias);
    a.output = static_cast<T*>(p.output);
    a.inputs = s.inputs;
    a.channels = static_cast<int32_t>(s.channels);
    a.taps = s.channels > 0 && s.inputs > 0 ? s.taps : 0;  // else there is nothing to add up
    a.rows = s.rows;
    a.filters = s.filters;
    const int64_t units = ceilDivide(s.channels, kUnitElements);
    a.units = static_cast<int32_t>(units > 0 ? units : 1);
    a.perTap = FastDivider(a.units);
    a.vectorStores = s.filters % kUnitElements == 0 && isAligned(p.output, sparse::kUnitBytes);
    a.activation = p.activation;
    a.slope = p.slope;
    bool tensorCores = false;
    const cudaError_t status = hasTensorCores<T>(tensorCores);
    if (status != cudaSuccess) {
        return status;
    }
    // The units of all taps at once must be int32, a step beyond the last included.
    constexpr int64_t kMaxUnits = (int64_t{1} << 30) / sparse::kTapsAtOnce;
    if (!tensorCores || units > kMaxUnits) {
        const int64_t blocks = ceilDivide(s.rows * s.filters, sparse::kExactThreads);
        return launch(sparse::exactKernel<T>, gridBlocks(blocks), sparse::kExactThreads, 0, stream, a);
    }
    const bool vector = s.channels % kUnitElements == 0 && isAligned(p.features, sparse::kUnitBytes) &&
                        isAligned(p.weights, sparse::kUnitBytes);
    if (!vector) {
        return s.filters > 32 ? sparse::launchTiled<false, 64>(a, stream) : sparse::launchTiled<false, 32>(a, stream);
    }
    if (s.filters <= 32) {
        return s.filters <= 16 ? sparse::launchTiled<true, 16>(a, stream) : sparse::launchTiled<true, 32>(a, stream);
    }
    return s.filters <= 64 ? sparse::launchTiled<true, 64>(a, stream) : sparse::launchTiled<true, 128>(a, stream);
}

}  // namespace

cudaError_t rulebookConvolution(const RulebookConvolutionParams& params, const RulebookConvolutionShape& shape,
                                cudaStream_t stream) {
    constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
    constexpr int64_t kMaxTaps = int64_t{1} << 15;
    const RulebookConvolutionShape& s = shape;
    int64_t features = 0;
    int64_t weights = 0;
    int64_t pairs = 0;
    int64_t outputs = 0;
    if (!elementCount({s.inputs, s.channels}, features) || !elementCount({s.filters, s.taps, s.channels}, weights) ||
        !elementCount({s.taps, s.rows}, pairs) || !elementCount({s.rows, s.filters}, outputs) ||
        s.channels > kMaxInt - 128 || s.filters > kMaxInt - 128 || s.rows > kMaxInt || s.taps > kMaxTaps) {
        return cudaErrorInvalidValue;
    }
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        if (outputs == 0) {
            return cudaSuccess;
        }
        if (params.output == nullptr || (features > 0 && params.features == nullptr) ||
            (weights > 0 && params.weights == nullptr) || (pairs > 0 && params.pairs == nullptr)) {
            return cudaErrorInvalidValue;
        }
        return run<typename decltype(tag)::type>(params, shape, stream);
    });
}

}  // namespace trtsmith
