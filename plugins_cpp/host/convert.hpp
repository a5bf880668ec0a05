// Between the C ABI's structures and TensorRT's.
#pragma once

#include <NvInferRuntime.h>

#include <algorithm>
#include <string>
#include <vector>

#include "error.hpp"

namespace trtsmith::host {

inline nvinfer1::Dims toDims(const tsh_dims& dims) {
    if (dims.n > TSH_MAX_DIMS) {
        throw Failure(TSH_USAGE, "a shape has " + std::to_string(dims.n) + " dimensions; TensorRT takes at most 8");
    }
    nvinfer1::Dims result{dims.n, {}};
    std::copy(dims.d, dims.d + std::max(dims.n, 0), result.d);
    return result;
}

inline nvinfer1::PluginTensorDesc toDesc(const tsh_tensor& tensor) {
    return {toDims(tensor.dims), static_cast<nvinfer1::DataType>(tensor.dtype),
            static_cast<nvinfer1::TensorFormat>(tensor.format), tensor.scale};
}

inline nvinfer1::DynamicPluginTensorDesc toDynamicDesc(const tsh_tensor& tensor) {
    const auto orDims = [&](const tsh_dims& dims) { return toDims(dims.n < 0 ? tensor.dims : dims); };
    return {toDesc(tensor), orDims(tensor.min), orDims(tensor.max), orDims(tensor.opt)};
}

template <typename Convert>
auto convertAll(const tsh_tensor* tensors, int32_t count, Convert convert) {
    require(count == 0 || tensors, "a list of tensors is null");
    std::vector<decltype(convert(*tensors))> result;
    result.reserve(static_cast<size_t>(count) + 1);  // so that data() is not null for an empty list
    std::transform(tensors, tensors + count, std::back_inserter(result), convert);
    return result;
}

// Inputs, then outputs, as supportsFormatCombination takes them.
template <typename Convert>
auto convertBoth(const tsh_io& io, Convert convert) {
    auto result = convertAll(io.inputs, io.input_count, convert);
    const auto outputs = convertAll(io.outputs, io.output_count, convert);
    result.insert(result.end(), outputs.begin(), outputs.end());
    return result;
}

inline void requirePosition(int32_t position, const tsh_io& io) {
    require(position >= 0 && position < io.input_count + io.output_count, "the position is not one of the tensors");
}

}  // namespace trtsmith::host
