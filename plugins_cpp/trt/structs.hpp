// TensorRT's types, dimensions, tensor descriptions and fields in ours, and the other way round.
#pragma once

#include <NvInferRuntime.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/dims.hpp"
#include "core/fields.hpp"
#include "core/signature.hpp"
#include "trt/guard.hpp"

namespace trtsmith {

inline bool toDType(nvinfer1::DataType type, DType& result) {
    switch (type) {
        case nvinfer1::DataType::kFLOAT:
            result = DType::kFloat32;
            return true;
        case nvinfer1::DataType::kHALF:
            result = DType::kFloat16;
            return true;
        case nvinfer1::DataType::kINT32:
            result = DType::kInt32;
            return true;
        case nvinfer1::DataType::kBOOL:
            result = DType::kBool;
            return true;
#if NV_TENSORRT_MAJOR >= 10
        case nvinfer1::DataType::kBF16:
            result = DType::kBFloat16;
            return true;
        case nvinfer1::DataType::kINT64:
            result = DType::kInt64;
            return true;
#endif
        default:
            return false;
    }
}

// The type that a variable stands for; false if it depends on the node.
inline bool fixedType(TypeVar variable, nvinfer1::DataType& result) {
    switch (variable) {
        case TypeVar::kF:
            result = nvinfer1::DataType::kFLOAT;
            return true;
        case TypeVar::kB:
            result = nvinfer1::DataType::kBOOL;
            return true;
        case TypeVar::kS:
            result = nvinfer1::DataType::kINT32;
            return true;
#if NV_TENSORRT_MAJOR >= 10
        case TypeVar::kN:
            result = nvinfer1::DataType::kINT64;
            return true;
#endif
        default:
            return false;
    }
}

inline Shape<int64_t> toShape(const nvinfer1::Dims& dims) {
    require(dims.nbDims >= 0 && dims.nbDims <= kMaxRank, "a tensor has " + std::to_string(dims.nbDims) + " dimensions");
    Shape<int64_t> shape{dims.nbDims, {}};
    for (int32_t i = 0; i < dims.nbDims; ++i) {
        shape[i] = dims.d[i];
    }
    return shape;
}

// One description type for the adapters: PluginTensorDesc of V2 and of V3's run time, DynamicPluginTensorDesc of V3's
// build time, where sizes that matter are the largest.
inline const nvinfer1::PluginTensorDesc& descOf(const nvinfer1::PluginTensorDesc& desc) { return desc; }
inline const nvinfer1::PluginTensorDesc& descOf(const nvinfer1::DynamicPluginTensorDesc& desc) { return desc.desc; }
inline const nvinfer1::Dims& sizesOf(const nvinfer1::PluginTensorDesc& desc) { return desc.dims; }
inline const nvinfer1::Dims& sizesOf(const nvinfer1::DynamicPluginTensorDesc& desc) { return desc.max; }

// The fields of an Op as TensorRT wants them, pointing at params (or at nothing, for a creator's list).
template <typename Op>
std::vector<nvinfer1::PluginField> pluginFields(typename Op::Params* params) {
    std::vector<nvinfer1::PluginField> fields;
    for (const auto& f : Op::kFields) {
        fields.emplace_back(
            f.name, params != nullptr ? f.data(*params) : nullptr,
            f.kind == FieldKind::kInt32 ? nvinfer1::PluginFieldType::kINT32 : nvinfer1::PluginFieldType::kFLOAT32,
            f.length);
    }
    return fields;
}

}  // namespace trtsmith
