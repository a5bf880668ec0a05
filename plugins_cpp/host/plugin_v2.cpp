#include <algorithm>
#include <utility>

#include "convert.hpp"
#include "plugin.hpp"
#include "resource.hpp"
#include "shapes.hpp"

namespace trtsmith::host {
namespace {

using namespace nvinfer1;

constexpr size_t kGuard = 64;  // bytes after a serialisation buffer that the plugin must not touch

struct Destroy {
    void operator()(IPluginV2* plugin) const noexcept { plugin->destroy(); }
};

int32_t major(int32_t version) {
    return version >= 10000 ? version / 10000 : version / 1000;  // 10.14.1 is 101401, 8.6.1 is 8601
}

std::vector<Dims> dimsOf(const tsh_tensor* tensors, int32_t count) {
    return convertAll(tensors, count, [](const tsh_tensor& tensor) { return toDims(tensor.dims); });
}

std::vector<DataType> typesOf(const tsh_tensor* tensors, int32_t count) {
    return convertAll(tensors, count, [](const tsh_tensor& tensor) { return static_cast<DataType>(tensor.dtype); });
}

class V2 final : public Plugin {
public:
    V2(std::unique_ptr<IPluginV2, Destroy> plugin, int32_t family, int32_t version)
        : mPlugin(std::move(plugin)), mFamily(family), mVersion(version) {}

    ~V2() override { terminate(); }

    tsh_plugin_info describe() override {
        tsh_plugin_info info{};
        info.family = mFamily;
        info.has_core = info.has_build = info.has_runtime = 1;
        info.tensorrt_version = mVersion;
        info.output_count = mPlugin->getNbOutputs();
        info.format_limit = IPluginV2DynamicExt::kFORMAT_COMBINATION_LIMIT;
        info.name = mPlugin->getPluginType();
        info.version = mPlugin->getPluginVersion();
        info.plugin_namespace = mPlugin->getPluginNamespace();
        return info;
    }

    std::unique_ptr<Plugin> clone() override {
        IPluginV2* const other = mPlugin->clone();
        if (!other) {
            throw Failure(TSH_REFUSED, "clone returned null");
        }
        if (other == mPlugin.get()) {
            throw Failure(TSH_BROKEN, "clone returned the plugin itself, which would be destroyed twice");
        }
        return wrapV2(other);
    }

    std::unique_ptr<Plugin> attach() override {
        ext();  // plain IPluginV2 cannot be attached
        std::unique_ptr<Plugin> other = clone();
        static_cast<V2&>(*other).ext().attachToContext(nullptr, nullptr, &gpuAllocator());
        return other;
    }

    void setNamespace(const char* pluginNamespace) override { mPlugin->setPluginNamespace(pluginNamespace); }

    void initialize() override {
        const int32_t status = mPlugin->initialize();
        if (status != 0) {
            throw Failure(TSH_REFUSED, "initialize returned " + std::to_string(status));
        }
        mInitialized = true;
    }

    void terminate() override {
        if (std::exchange(mInitialized, false)) {
            mPlugin->terminate();
        }
    }

    std::vector<int32_t> outputTypes(const std::vector<int32_t>& inputs, int32_t outputCount) override {
        std::vector<DataType> types;
        for (const int32_t type : inputs) {
            types.push_back(static_cast<DataType>(type));
        }
        std::vector<int32_t> result;
        for (int32_t i = 0; i < outputCount; ++i) {
            result.push_back(
                static_cast<int32_t>(ext().getOutputDataType(i, types.data(), static_cast<int32_t>(types.size()))));
        }
        return result;
    }

    ShapeAnswer outputShapes(const ShapeQuery& query) override {
        return mFamily == TSH_V2_DYNAMICEXT ? dynamicShapes(query) : staticShapes(query);
    }

    bool supportsFormat(int32_t position, const tsh_io& io) override {
        requirePosition(position, io);
        const auto both = convertBoth(io, toDesc);
        switch (mFamily) {
            case TSH_V2_DYNAMICEXT:
                return dynamicExt().supportsFormatCombination(position, both.data(), io.input_count, io.output_count);
            case TSH_V2_IOEXT:
                return ioExt().supportsFormatCombination(position, both.data(), io.input_count, io.output_count);
            default:
                return mPlugin->supportsFormat(both[position].type, both[position].format);
        }
    }

    void configure(const tsh_io& io) override {
        switch (mFamily) {
            case TSH_V2_DYNAMICEXT: {
                const auto inputs = convertAll(io.inputs, io.input_count, toDynamicDesc);
                const auto outputs = convertAll(io.outputs, io.output_count, toDynamicDesc);
                dynamicExt().configurePlugin(inputs.data(), io.input_count, outputs.data(), io.output_count);
                return;
            }
            case TSH_V2_IOEXT: {
                const auto inputs = convertAll(io.inputs, io.input_count, toDesc);
                const auto outputs = convertAll(io.outputs, io.output_count, toDesc);
                ioExt().configurePlugin(inputs.data(), io.input_count, outputs.data(), io.output_count);
                return;
            }
            default:
                configureWithDims(io);
        }
    }

    size_t workspace(const tsh_io& io) override {
        if (mFamily != TSH_V2_DYNAMICEXT) {
            return mPlugin->getWorkspaceSize(io.batch);
        }
        const auto inputs = convertAll(io.inputs, io.input_count, toDesc);
        const auto outputs = convertAll(io.outputs, io.output_count, toDesc);
        return dynamicExt().getWorkspaceSize(inputs.data(), io.input_count, outputs.data(), io.output_count);
    }

    int32_t aliasedInput(int32_t) override { return -1; }

    std::vector<int32_t> tactics() override { return {}; }

    void setTactic(int32_t) override { throw Failure(TSH_UNSUPPORTED, "a V2 plugin has no tactics"); }

    const char* timingCacheId() override { return nullptr; }

    const char* metadata() override { return nullptr; }

    std::vector<tsh_field> serializeFields() override {
        throw Failure(TSH_UNSUPPORTED, "a V2 plugin serialises to bytes, not to fields");
    }

    std::vector<unsigned char> serializeBytes(int fill) override {
        const size_t size = mPlugin->getSerializationSize();
        if (size > (size_t{1} << 32)) {
            throw Failure(TSH_BROKEN, "getSerializationSize returned " + std::to_string(size));
        }
        std::vector<unsigned char> buffer(size + kGuard, static_cast<unsigned char>(fill));
        mPlugin->serialize(buffer.data());
        for (size_t i = size; i < buffer.size(); ++i) {
            if (buffer[i] != static_cast<unsigned char>(fill)) {
                throw Failure(TSH_BROKEN, "serialize wrote past the " + std::to_string(size) +
                                              " bytes that getSerializationSize returned");
            }
        }
        buffer.resize(size);
        return buffer;
    }

    void onShapeChange(const tsh_io&) override {}

    void prepare(const tsh_io& io) override {
        mInputs = convertAll(io.inputs, io.input_count, toDesc);
        mOutputs = convertAll(io.outputs, io.output_count, toDesc);
        mBatch = io.batch;
    }

    int32_t enqueue(const tsh_buffers& buffers) override {
        const auto stream = static_cast<cudaStream_t>(buffers.stream);
        if (mFamily == TSH_V2_DYNAMICEXT) {
            return dynamicExt().enqueue(mInputs.data(), mOutputs.data(), buffers.inputs, buffers.outputs,
                                        buffers.workspace, stream);
        }
        return mPlugin->enqueue(mBatch, buffers.inputs, buffers.outputs, buffers.workspace, stream);
    }

private:
    IPluginV2Ext& ext() {
        if (mFamily == TSH_V2) {
            throw Failure(TSH_UNSUPPORTED, "a plain IPluginV2 has no such call");
        }
        return static_cast<IPluginV2Ext&>(*mPlugin);
    }

    IPluginV2IOExt& ioExt() { return static_cast<IPluginV2IOExt&>(*mPlugin); }

    IPluginV2DynamicExt& dynamicExt() { return static_cast<IPluginV2DynamicExt&>(*mPlugin); }

    ShapeAnswer dynamicShapes(const ShapeQuery& query) {
        ExprBuilder builder;
        const auto inputs = inputExpressions(builder, query);
        ShapeAnswer answer;
        for (int32_t i = 0; i < query.outputCount; ++i) {
            const DimsExprs shape = dynamicExt().getOutputDimensions(i, inputs.data(), query.inputCount, builder);
            builder.check();
            answer.push_back(readShape(builder, shape, i));
        }
        return answer;
    }

    // V2Ext and older know only constant shapes without the batch.
    ShapeAnswer staticShapes(const ShapeQuery& query) {
        std::vector<Dims> inputs;
        for (int32_t i = 0; i < query.inputCount; ++i) {
            const Dims dims = toDims(query.inputs[i]);
            const bool unknown =
                std::any_of(dims.d, dims.d + std::max(dims.nbDims, 0), [](int64_t d) { return d < 0; });
            if (unknown || (query.symbolic && query.symbolic[i] != 0)) {
                throw Failure(TSH_UNSUPPORTED, "this plugin's interface takes no unknown dimensions");
            }
            inputs.push_back(dims);
        }
        ShapeAnswer answer;
        for (int32_t i = 0; i < query.outputCount; ++i) {
            const Dims dims = mPlugin->getOutputDimensions(i, inputs.data(), query.inputCount);
            if (dims.nbDims < 0 || dims.nbDims > TSH_MAX_DIMS) {
                throw Failure(TSH_BROKEN, "the shape rule gave output " + std::to_string(i) + " " +
                                              std::to_string(dims.nbDims) + " dimensions");
            }
            std::vector<DimAnswer> shape;
            for (int32_t j = 0; j < dims.nbDims; ++j) {
                requireDimension(dims.d[j], j, i);
                shape.push_back({dims.d[j], dims.d[j], -1, std::to_string(dims.d[j])});
            }
            answer.push_back(std::move(shape));
        }
        return answer;
    }

    void configureWithDims(const tsh_io& io) {
        const auto inputs = dimsOf(io.inputs, io.input_count);
        const auto outputs = dimsOf(io.outputs, io.output_count);
        const auto inputTypes = typesOf(io.inputs, io.input_count);
        const auto outputTypes = typesOf(io.outputs, io.output_count);
        require(io.input_count > 0 && io.output_count > 0, "configurePlugin needs an input and an output");
        const auto format = static_cast<PluginFormat>(io.inputs[0].format);
        if (mFamily == TSH_V2) {
            mPlugin->configureWithFormat(inputs.data(), io.input_count, outputs.data(), io.output_count, inputTypes[0],
                                         format, io.batch);
            return;
        }
        const std::unique_ptr<bool[]> broadcast(
            new bool[static_cast<size_t>(std::max(io.input_count, io.output_count))]());
        ext().configurePlugin(inputs.data(), io.input_count, outputs.data(), io.output_count, inputTypes.data(),
                              outputTypes.data(), broadcast.get(), broadcast.get(), format, io.batch);
    }

    std::unique_ptr<IPluginV2, Destroy> mPlugin;
    int32_t mFamily;
    int32_t mVersion;
    bool mInitialized{false};
    int32_t mBatch{1};
    std::vector<PluginTensorDesc> mInputs;
    std::vector<PluginTensorDesc> mOutputs;
};

}  // namespace

std::unique_ptr<Plugin> wrapV2(IPluginV2* plugin) {
    // The first entry of the table in every version, so it may be asked before we know which version this is.
    const auto answer = static_cast<uint32_t>(plugin->getTensorRTVersion());
    const auto family = static_cast<int32_t>(answer >> 24U & ~static_cast<uint32_t>(kPLUGIN_VERSION_PYTHON_BIT));
    const auto version = static_cast<int32_t>(answer & 0xFFFFFFU);
    if (major(version) != NV_TENSORRT_MAJOR) {
        // Not destroyed: where destroy() is in its table is not known.
        throw Failure(TSH_UNSUPPORTED, "the V2 plugin was compiled with TensorRT " + std::to_string(major(version)) +
                                           " headers (version number " + std::to_string(version) +
                                           "), and V2 interfaces differ between majors");
    }
    std::unique_ptr<IPluginV2, Destroy> owned(plugin);
    if (family < TSH_V2 || family > TSH_V2_DYNAMICEXT) {
        throw Failure(TSH_UNSUPPORTED, "V2 plugin kind " + std::to_string(family) + " is not known");
    }
    return std::make_unique<V2>(std::move(owned), family, version);
}

}  // namespace trtsmith::host
