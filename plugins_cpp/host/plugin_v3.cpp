#include <cstring>

#include "convert.hpp"
#include "plugin.hpp"
#include "resource.hpp"
#include "shapes.hpp"

namespace trtsmith::host {
namespace {

using namespace nvinfer1;

// The capability of one type, checked to be what it says before it is cast.
template <typename Interface>
Interface* capability(IPluginV3& plugin, PluginCapabilityType type, const char* kind, int32_t* major = nullptr) {
    IPluginCapability* const found = plugin.getCapabilityInterface(type);
    if (!found) {
        return nullptr;
    }
    const InterfaceInfo info = found->getInterfaceInfo();
    if (!info.kind || std::strcmp(info.kind, kind) != 0) {
        throw Failure(TSH_BROKEN, std::string("getCapabilityInterface for ") + kind +
                                      " returned an interface of kind " + (info.kind ? info.kind : "(null)"));
    }
    if (major) {
        *major = info.major;
    }
    return static_cast<Interface*>(found);
}

void requireZero(int32_t status, const char* call) {
    if (status != 0) {
        throw Failure(TSH_REFUSED, std::string(call) + " returned " + std::to_string(status));
    }
}

class V3 final : public Plugin {
public:
    explicit V3(std::unique_ptr<IPluginV3> plugin)
        : mPlugin(std::move(plugin)),
          mCore(capability<IPluginV3OneCore>(*mPlugin, PluginCapabilityType::kCORE, "PLUGIN_V3ONE_CORE")),
          mBuild(capability<IPluginV3OneBuild>(*mPlugin, PluginCapabilityType::kBUILD, "PLUGIN_V3ONE_BUILD",
                                               &mBuildVersion)),
          mRuntime(capability<IPluginV3OneRuntime>(*mPlugin, PluginCapabilityType::kRUNTIME, "PLUGIN_V3ONE_RUNTIME")) {}

    tsh_plugin_info describe() override {
        tsh_plugin_info info{};
        info.family = TSH_V3;
        info.has_core = mCore != nullptr;
        info.has_build = mBuild != nullptr;
        info.has_runtime = mRuntime != nullptr;
        info.build_version = mBuildVersion;
        info.output_count = mBuild ? mBuild->getNbOutputs() : -1;
        info.format_limit = mBuild ? mBuild->getFormatCombinationLimit() : -1;
        info.name = mCore ? mCore->getPluginName() : nullptr;
        info.version = mCore ? mCore->getPluginVersion() : nullptr;
        info.plugin_namespace = mCore ? mCore->getPluginNamespace() : nullptr;
        return info;
    }

    std::unique_ptr<Plugin> clone() override { return wrapOther(mPlugin->clone(), "clone"); }

    std::unique_ptr<Plugin> attach() override {
        return wrapOther(runtime().attachToContext(&resourceContext()), "attachToContext");
    }

    void setNamespace(const char*) override { throw Failure(TSH_UNSUPPORTED, "a V3 plugin has no setPluginNamespace"); }

    void initialize() override {}

    void terminate() override {}

    std::vector<int32_t> outputTypes(const std::vector<int32_t>& inputs, int32_t outputCount) override {
        std::vector<DataType> types;
        for (const int32_t type : inputs) {
            types.push_back(static_cast<DataType>(type));
        }
        constexpr int32_t kUnset = -1;
        std::vector<DataType> answer(static_cast<size_t>(outputCount), static_cast<DataType>(kUnset));
        requireZero(
            build().getOutputDataTypes(answer.data(), outputCount, types.data(), static_cast<int32_t>(types.size())),
            "getOutputDataTypes");
        std::vector<int32_t> result;
        for (const DataType type : answer) {
            if (static_cast<int32_t>(type) == kUnset) {
                throw Failure(TSH_BROKEN, "getOutputDataTypes left output " + std::to_string(result.size()) + " unset");
            }
            result.push_back(static_cast<int32_t>(type));
        }
        return result;
    }

    ShapeAnswer outputShapes(const ShapeQuery& query) override {
        ExprBuilder builder;
        const auto inputs = inputExpressions(builder, query);
        const auto shapeInputs = shapeInputExpressions(builder, query);
        std::vector<DimsExprs> outputs(static_cast<size_t>(query.outputCount), unsetShape());
        const int32_t status =
            build().getOutputShapes(inputs.data(), query.inputCount, shapeInputs.data(), query.shapeInputCount,
                                    outputs.data(), query.outputCount, builder);
        builder.check();
        requireZero(status, "getOutputShapes");
        ShapeAnswer answer;
        for (int32_t i = 0; i < query.outputCount; ++i) {
            answer.push_back(readShape(builder, outputs[i], i));
        }
        requireSizeOutputs(answer);
        return answer;
    }

    bool supportsFormat(int32_t position, const tsh_io& io) override {
        requirePosition(position, io);
        const auto both = convertBoth(io, toDynamicDesc);
        return build().supportsFormatCombination(position, both.data(), io.input_count, io.output_count);
    }

    void configure(const tsh_io& io) override {
        const auto inputs = convertAll(io.inputs, io.input_count, toDynamicDesc);
        const auto outputs = convertAll(io.outputs, io.output_count, toDynamicDesc);
        requireZero(build().configurePlugin(inputs.data(), io.input_count, outputs.data(), io.output_count),
                    "configurePlugin");
    }

    size_t workspace(const tsh_io& io) override {
        const auto inputs = convertAll(io.inputs, io.input_count, toDynamicDesc);
        const auto outputs = convertAll(io.outputs, io.output_count, toDynamicDesc);
        return build().getWorkspaceSize(inputs.data(), io.input_count, outputs.data(), io.output_count);
    }

    int32_t aliasedInput(int32_t output) override {
        build();
        // getAliasedInput exists from version 2 of the build capability on.
        return mBuildVersion >= 2 ? static_cast<IPluginV3OneBuildV2*>(mBuild)->getAliasedInput(output) : -1;
    }

    std::vector<int32_t> tactics() override {
        const int32_t count = build().getNbTactics();
        if (count < 0) {
            throw Failure(TSH_BROKEN, "getNbTactics returned " + std::to_string(count));
        }
        std::vector<int32_t> result(static_cast<size_t>(count), -1);
        if (count > 0) {
            requireZero(build().getValidTactics(result.data(), count), "getValidTactics");
        }
        return result;
    }

    void setTactic(int32_t tactic) override { requireZero(runtime().setTactic(tactic), "setTactic"); }

    const char* timingCacheId() override { return build().getTimingCacheID(); }

    const char* metadata() override { return build().getMetadataString(); }

    std::vector<tsh_field> serializeFields() override {
        const PluginFieldCollection* const fields = runtime().getFieldsToSerialize();
        if (!fields) {
            throw Failure(TSH_REFUSED, "getFieldsToSerialize returned null");
        }
        if (fields->nbFields < 0 || (fields->nbFields > 0 && !fields->fields)) {
            throw Failure(TSH_BROKEN, "getFieldsToSerialize returned " + std::to_string(fields->nbFields) +
                                          " fields at " + (fields->fields ? "an address" : "null"));
        }
        std::vector<tsh_field> result;
        for (int32_t i = 0; i < fields->nbFields; ++i) {
            const PluginField& field = fields->fields[i];
            result.push_back({field.name, field.data, static_cast<int32_t>(field.type), field.length});
        }
        return result;
    }

    std::vector<unsigned char> serializeBytes(int) override {
        throw Failure(TSH_UNSUPPORTED, "a V3 plugin serialises to fields, not to bytes");
    }

    void onShapeChange(const tsh_io& io) override {
        prepare(io);
        requireZero(runtime().onShapeChange(mInputs.data(), io.input_count, mOutputs.data(), io.output_count),
                    "onShapeChange");
    }

    void prepare(const tsh_io& io) override {
        runtime();
        mInputs = convertAll(io.inputs, io.input_count, toDesc);
        mOutputs = convertAll(io.outputs, io.output_count, toDesc);
    }

    int32_t enqueue(const tsh_buffers& buffers) override {
        return mRuntime->enqueue(mInputs.data(), mOutputs.data(), buffers.inputs, buffers.outputs, buffers.workspace,
                                 static_cast<cudaStream_t>(buffers.stream));
    }

private:
    IPluginV3OneBuild& build() {
        if (!mBuild) {
            throw Failure(TSH_UNSUPPORTED, "the plugin has no build capability in this phase");
        }
        return *mBuild;
    }

    IPluginV3OneRuntime& runtime() {
        if (!mRuntime) {
            throw Failure(TSH_UNSUPPORTED, "the plugin has no runtime capability in this phase");
        }
        return *mRuntime;
    }

    std::unique_ptr<Plugin> wrapOther(IPluginV3* other, const char* call) {
        if (!other) {
            throw Failure(TSH_REFUSED, std::string(call) + " returned null");
        }
        if (other == mPlugin.get()) {
            throw Failure(TSH_BROKEN, std::string(call) + " returned the plugin itself, which would be deleted twice");
        }
        return wrapV3(other);
    }

    std::unique_ptr<IPluginV3> mPlugin;
    int32_t mBuildVersion{0};
    IPluginV3OneCore* mCore;
    IPluginV3OneBuild* mBuild;
    IPluginV3OneRuntime* mRuntime;
    std::vector<PluginTensorDesc> mInputs;
    std::vector<PluginTensorDesc> mOutputs;
};

}  // namespace

std::unique_ptr<Plugin> wrapV3(IPluginV3* plugin) { return std::make_unique<V3>(std::unique_ptr<IPluginV3>(plugin)); }

}  // namespace trtsmith::host
