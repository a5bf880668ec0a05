// IPluginV3 for any Op. One binary serves TensorRT 10, 11 and TensorRT-RTX: only interfaces whose virtual tables are
// the same in all of them are implemented, and nothing of TensorRT is called.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "trt/adapt.hpp"

namespace trtsmith {

template <typename Op>
class PluginV3 final : public nvinfer1::IPluginV3,
                       public nvinfer1::IPluginV3OneCore,
                       public nvinfer1::IPluginV3OneBuild,
                       public nvinfer1::IPluginV3OneRuntime {
public:
    using Params = typename Op::Params;

    explicit PluginV3(const Params& params)
        : mParams(params), mIdentity(std::string(Op::kName) + ";" + describeFields(Op::kFields, params)) {}

    // A copy shares nothing: the field list points at its own params.
    PluginV3(const PluginV3& other) : PluginV3(other.mParams) { mNbInputs = other.mNbInputs; }
    PluginV3& operator=(const PluginV3&) = delete;

    nvinfer1::IPluginCapability* getCapabilityInterface(nvinfer1::PluginCapabilityType type) noexcept override {
        switch (type) {
            case nvinfer1::PluginCapabilityType::kCORE:
                return static_cast<nvinfer1::IPluginV3OneCore*>(this);
            case nvinfer1::PluginCapabilityType::kBUILD:
                return static_cast<nvinfer1::IPluginV3OneBuild*>(this);
            case nvinfer1::PluginCapabilityType::kRUNTIME:
                return static_cast<nvinfer1::IPluginV3OneRuntime*>(this);
        }
        return nullptr;
    }

    nvinfer1::IPluginV3* clone() noexcept override {
        return guarded<nvinfer1::IPluginV3*>(Op::kName, "clone", nullptr, [&] { return new PluginV3(*this); });
    }

    const nvinfer1::AsciiChar* getPluginName() const noexcept override { return Op::kName; }
    const nvinfer1::AsciiChar* getPluginVersion() const noexcept override { return Op::kVersion; }
    const nvinfer1::AsciiChar* getPluginNamespace() const noexcept override { return kPluginNamespace; }

    int32_t getNbOutputs() const noexcept override { return Op::kSignature.nbOutputs(); }

    int32_t configurePlugin(const nvinfer1::DynamicPluginTensorDesc* in, int32_t nbInputs,
                            const nvinfer1::DynamicPluginTensorDesc*, int32_t nbOutputs) noexcept override {
        return guarded(Op::kName, "configurePlugin", 1, [&] {
            Rules<Op>::checkCounts(nbInputs, nbOutputs);
            for (int32_t i = 0; i < nbInputs; ++i) {
                Rules<Op>::checkRank(i, in[i].desc.dims.nbDims);
            }
            if constexpr (Rules<Op>::kDataDependent) {
                std::array<Shape<int64_t>, kMaxPorts> largest{};
                for (int32_t i = 0; i < nbInputs; ++i) {
                    largest[static_cast<size_t>(i)] = toShape(in[i].max);
                }
                Rules<Op>::checkSizes(mParams, largest.data(), nbInputs);
            }
            return 0;
        });
    }

    int32_t getOutputDataTypes(nvinfer1::DataType* outputs, int32_t nbOutputs, const nvinfer1::DataType* inputs,
                               int32_t nbInputs) const noexcept override {
        return guarded(Op::kName, "getOutputDataTypes", 1, [&] {
            Rules<Op>::checkCounts(nbInputs, nbOutputs);
            Rules<Op>::outputTypes(inputs, nbInputs, outputs);
            return 0;
        });
    }

    int32_t getOutputShapes(const nvinfer1::DimsExprs* inputs, int32_t nbInputs, const nvinfer1::DimsExprs*, int32_t,
                            nvinfer1::DimsExprs* outputs, int32_t nbOutputs,
                            nvinfer1::IExprBuilder& builder) noexcept override {
        return guarded(Op::kName, "getOutputShapes", 1, [&] {
            Rules<Op>::checkCounts(nbInputs, nbOutputs);
            Rules<Op>::outputShapes(mParams, inputs, nbInputs, outputs, builder);
            return 0;
        });
    }

    bool supportsFormatCombination(int32_t pos, const nvinfer1::DynamicPluginTensorDesc* inOut, int32_t nbInputs,
                                   int32_t nbOutputs) noexcept override {
        return guarded(Op::kName, "supportsFormatCombination", false,
                       [&] { return Rules<Op>::supports(pos, inOut, nbInputs, nbOutputs); });
    }

    size_t getWorkspaceSize(const nvinfer1::DynamicPluginTensorDesc* in, int32_t nbInputs,
                            const nvinfer1::DynamicPluginTensorDesc* out, int32_t nbOutputs) const noexcept override {
        return guarded(Op::kName, "getWorkspaceSize", size_t{0},
                       [&] { return Rules<Op>::workspace(mParams, in, nbInputs, out, nbOutputs); });
    }

    const char* getTimingCacheID() noexcept override { return mIdentity.c_str(); }
    const char* getMetadataString() noexcept override { return mIdentity.c_str(); }

    int32_t onShapeChange(const nvinfer1::PluginTensorDesc* in, int32_t nbInputs, const nvinfer1::PluginTensorDesc*,
                          int32_t nbOutputs) noexcept override {
        return guarded(Op::kName, "onShapeChange", 1, [&] {
            Rules<Op>::checkCounts(nbInputs, nbOutputs);
            for (int32_t i = 0; i < nbInputs; ++i) {
                Rules<Op>::checkRank(i, in[i].dims.nbDims);
            }
            mNbInputs = nbInputs;
            return 0;
        });
    }

    int32_t enqueue(const nvinfer1::PluginTensorDesc* in, const nvinfer1::PluginTensorDesc* out,
                    const void* const* inputs, void* const* outputs, void* workspace,
                    cudaStream_t stream) noexcept override {
        return guarded(Op::kName, "enqueue", 1, [&] {
            require(mNbInputs >= 0, "called before onShapeChange");
            Rules<Op>::run(mParams, Rules<Op>::tensors(in, mNbInputs, out, Op::kSignature.nbOutputs(), inputs, outputs),
                           workspace, stream);
            return 0;
        });
    }

    nvinfer1::IPluginV3* attachToContext(nvinfer1::IPluginResourceContext*) noexcept override { return clone(); }

    const nvinfer1::PluginFieldCollection* getFieldsToSerialize() noexcept override {
        return guarded<const nvinfer1::PluginFieldCollection*>(Op::kName, "getFieldsToSerialize", nullptr, [&] {
            mFields = pluginFields<Op>(&mParams);
            mCollection = {static_cast<int32_t>(mFields.size()), mFields.data()};
            return &mCollection;
        });
    }

private:
    Params mParams;
    std::string mIdentity;
    int32_t mNbInputs{-1};  // how many optional inputs are connected; known from onShapeChange on
    std::vector<nvinfer1::PluginField> mFields;
    nvinfer1::PluginFieldCollection mCollection{};
};

template <typename Op>
class CreatorV3 final : public nvinfer1::IPluginCreatorV3One {
public:
    CreatorV3()
        : mFields(pluginFields<Op>(nullptr)), mCollection{static_cast<int32_t>(mFields.size()), mFields.data()} {}

    nvinfer1::IPluginV3* createPlugin(const nvinfer1::AsciiChar*, const nvinfer1::PluginFieldCollection* fields,
                                      nvinfer1::TensorRTPhase) noexcept override {
        return guarded<nvinfer1::IPluginV3*>(Op::kName, "createPlugin", nullptr,
                                             [&] { return new PluginV3<Op>(Rules<Op>::parse(fields)); });
    }

    const nvinfer1::PluginFieldCollection* getFieldNames() noexcept override { return &mCollection; }
    const nvinfer1::AsciiChar* getPluginName() const noexcept override { return Op::kName; }
    const nvinfer1::AsciiChar* getPluginVersion() const noexcept override { return Op::kVersion; }
    const nvinfer1::AsciiChar* getPluginNamespace() const noexcept override { return kPluginNamespace; }

private:
    std::vector<nvinfer1::PluginField> mFields;
    nvinfer1::PluginFieldCollection mCollection;
};

}  // namespace trtsmith
