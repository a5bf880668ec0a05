// IPluginV2DynamicExt for any Op, for TensorRT 8.6 to 10. Its virtual table differs between major versions, so it lives
// in a library of its own, built against the headers of the TensorRT that will load it. Deleting this file, buffer.hpp,
// library_v2.cpp and the CMake option removes V2 altogether.
#pragma once

#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "trt/adapt.hpp"

namespace trtsmith {

template <typename Op>
class PluginV2 final : public nvinfer1::IPluginV2DynamicExt {
    static_assert(Op::kSignature.nbSizes() == 0, "V2 plugins have no size tensors");

public:
    using Params = typename Op::Params;

    PluginV2(const Params& params, std::string pluginNamespace)
        : mParams(params), mNamespace(std::move(pluginNamespace)) {}

    nvinfer1::IPluginV2DynamicExt* clone() const noexcept override {
        return guarded<nvinfer1::IPluginV2DynamicExt*>(Op::kName, "clone", nullptr, [&] {
            auto* copy = new PluginV2(mParams, mNamespace);
            copy->mNbInputs = mNbInputs;
            return copy;
        });
    }

    const nvinfer1::AsciiChar* getPluginType() const noexcept override { return Op::kName; }
    const nvinfer1::AsciiChar* getPluginVersion() const noexcept override { return Op::kVersion; }
    int32_t getNbOutputs() const noexcept override { return Op::kSignature.nbOutputs(); }
    int32_t initialize() noexcept override { return 0; }
    void terminate() noexcept override {}
    void destroy() noexcept override { delete this; }

    void setPluginNamespace(const nvinfer1::AsciiChar* name) noexcept override {
        guarded(Op::kName, "setPluginNamespace", 0, [&] {
            mNamespace = name != nullptr ? name : "";
            return 0;
        });
    }
    const nvinfer1::AsciiChar* getPluginNamespace() const noexcept override { return mNamespace.c_str(); }

    nvinfer1::DataType getOutputDataType(int32_t index, const nvinfer1::DataType* inputs,
                                         int32_t nbInputs) const noexcept override {
        return guarded(Op::kName, "getOutputDataType", nvinfer1::DataType::kFLOAT, [&] {
            require(index >= 0 && index < Op::kSignature.nbOutputs(), "no output " + std::to_string(index));
            std::array<nvinfer1::DataType, kMaxPorts> types{};
            Rules<Op>::outputTypes(inputs, nbInputs, types.data());
            return types[static_cast<size_t>(index)];
        });
    }

    nvinfer1::DimsExprs getOutputDimensions(int32_t index, const nvinfer1::DimsExprs* inputs, int32_t nbInputs,
                                            nvinfer1::IExprBuilder& builder) noexcept override {
        const nvinfer1::DimsExprs failed{-1, {}};
        return guarded(Op::kName, "getOutputDimensions", failed, [&] {
            require(index >= 0 && index < Op::kSignature.nbOutputs(), "no output " + std::to_string(index));
            std::array<nvinfer1::DimsExprs, kMaxPorts> shapes{};
            Rules<Op>::outputShapes(mParams, inputs, nbInputs, shapes.data(), builder);
            return shapes[static_cast<size_t>(index)];
        });
    }

    bool supportsFormatCombination(int32_t pos, const nvinfer1::PluginTensorDesc* inOut, int32_t nbInputs,
                                   int32_t nbOutputs) noexcept override {
        return guarded(Op::kName, "supportsFormatCombination", false,
                       [&] { return Rules<Op>::supports(pos, inOut, nbInputs, nbOutputs); });
    }

    void configurePlugin(const nvinfer1::DynamicPluginTensorDesc* in, int32_t nbInputs,
                         const nvinfer1::DynamicPluginTensorDesc*, int32_t nbOutputs) noexcept override {
        guarded(Op::kName, "configurePlugin", 0, [&] {
            Rules<Op>::checkCounts(nbInputs, nbOutputs);
            for (int32_t i = 0; i < nbInputs; ++i) {
                Rules<Op>::checkRank(i, in[i].desc.dims.nbDims);
            }
            mNbInputs = nbInputs;
            return 0;
        });
    }

    size_t getWorkspaceSize(const nvinfer1::PluginTensorDesc* in, int32_t nbInputs,
                            const nvinfer1::PluginTensorDesc* out, int32_t nbOutputs) const noexcept override {
        return guarded(Op::kName, "getWorkspaceSize", size_t{0},
                       [&] { return Rules<Op>::workspace(mParams, in, nbInputs, out, nbOutputs); });
    }

    int32_t enqueue(const nvinfer1::PluginTensorDesc* in, const nvinfer1::PluginTensorDesc* out,
                    const void* const* inputs, void* const* outputs, void* workspace,
                    cudaStream_t stream) noexcept override {
        return guarded(Op::kName, "enqueue", 1, [&] {
            require(mNbInputs >= 0, "called before configurePlugin");
            Rules<Op>::run(mParams, Rules<Op>::tensors(in, mNbInputs, out, Op::kSignature.nbOutputs(), inputs, outputs),
                           workspace, stream);
            return 0;
        });
    }

    // The number of connected inputs follows the fields: a deserialised plugin may be enqueued without configurePlugin.
    size_t getSerializationSize() const noexcept override { return bufferSize(Op::kFields) + sizeof mNbInputs; }
    void serialize(void* buffer) const noexcept override {
        writeBuffer(Op::kFields, mParams, buffer);
        std::memcpy(static_cast<char*>(buffer) + bufferSize(Op::kFields), &mNbInputs, sizeof mNbInputs);
    }
    static PluginV2* deserialize(const void* buffer, size_t size, const std::string& pluginNamespace) {
        const size_t fields = bufferSize(Op::kFields);
        require(size == fields + sizeof(int32_t), "serialised plugin of " + std::to_string(size) + " bytes; expected " +
                                                      std::to_string(fields + sizeof(int32_t)));
        Params params{};
        const std::string fault = readBuffer(Op::kFields, buffer, fields, params);
        require(fault.empty(), fault);
        int32_t nbInputs = -1;
        std::memcpy(&nbInputs, static_cast<const char*>(buffer) + fields, sizeof nbInputs);
        require(nbInputs >= -1 && nbInputs <= Op::kSignature.maxInputs(),
                "serialised plugin with " + std::to_string(nbInputs) + " inputs");
        auto* plugin = new PluginV2(params, pluginNamespace);
        plugin->mNbInputs = nbInputs;
        return plugin;
    }

private:
    Params mParams;
    std::string mNamespace;
    int32_t mNbInputs{-1};  // -1 until configurePlugin
};

template <typename Op>
class CreatorV2 final : public nvinfer1::IPluginCreator {
public:
    CreatorV2()
        : mFields(pluginFields<Op>(nullptr)), mCollection{static_cast<int32_t>(mFields.size()), mFields.data()} {}

    const nvinfer1::AsciiChar* getPluginName() const noexcept override { return Op::kName; }
    const nvinfer1::AsciiChar* getPluginVersion() const noexcept override { return Op::kVersion; }
    const nvinfer1::PluginFieldCollection* getFieldNames() noexcept override { return &mCollection; }

    nvinfer1::IPluginV2* createPlugin(const nvinfer1::AsciiChar*,
                                      const nvinfer1::PluginFieldCollection* fields) noexcept override {
        return guarded<nvinfer1::IPluginV2*>(Op::kName, "createPlugin", nullptr,
                                             [&] { return new PluginV2<Op>(Rules<Op>::parse(fields), mNamespace); });
    }

    nvinfer1::IPluginV2* deserializePlugin(const nvinfer1::AsciiChar*, const void* data,
                                           size_t length) noexcept override {
        return guarded<nvinfer1::IPluginV2*>(Op::kName, "deserializePlugin", nullptr,
                                             [&] { return PluginV2<Op>::deserialize(data, length, mNamespace); });
    }

    void setPluginNamespace(const nvinfer1::AsciiChar* name) noexcept override {
        guarded(Op::kName, "setPluginNamespace", 0, [&] {
            mNamespace = name != nullptr ? name : "";
            return 0;
        });
    }
    const nvinfer1::AsciiChar* getPluginNamespace() const noexcept override { return mNamespace.c_str(); }

private:
    std::vector<nvinfer1::PluginField> mFields;
    nvinfer1::PluginFieldCollection mCollection;
    std::string mNamespace{kPluginNamespace};
};

}  // namespace trtsmith
