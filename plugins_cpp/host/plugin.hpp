// One plugin, whatever its interface: what the C ABI calls, implemented by plugin_v3.cpp and plugin_v2.cpp.
#pragma once

#include <NvInferRuntime.h>

#include <memory>
#include <string>
#include <vector>

#include "api.h"

namespace trtsmith::host {

// Shapes asked of a plugin, see tsh_plugin_output_shapes.
struct ShapeQuery {
    const tsh_dims* inputs;
    const uint32_t* symbolic;
    int32_t inputCount;
    const tsh_dims* shapeInputs;
    int32_t shapeInputCount;
    int32_t outputCount;
};

struct DimAnswer {
    int64_t value;
    int64_t evaluated;
    int32_t sizeOutput;
    std::string text;
};

using ShapeAnswer = std::vector<std::vector<DimAnswer>>;

class Plugin {
public:
    Plugin() = default;
    Plugin(const Plugin&) = delete;
    Plugin& operator=(const Plugin&) = delete;
    virtual ~Plugin() = default;

    virtual tsh_plugin_info describe() = 0;
    virtual std::unique_ptr<Plugin> clone() = 0;
    virtual std::unique_ptr<Plugin> attach() = 0;
    virtual void setNamespace(const char* pluginNamespace) = 0;
    virtual void initialize() = 0;
    virtual void terminate() = 0;

    virtual std::vector<int32_t> outputTypes(const std::vector<int32_t>& inputs, int32_t outputCount) = 0;
    virtual ShapeAnswer outputShapes(const ShapeQuery& query) = 0;
    virtual bool supportsFormat(int32_t position, const tsh_io& io) = 0;
    virtual void configure(const tsh_io& io) = 0;
    virtual size_t workspace(const tsh_io& io) = 0;
    virtual int32_t aliasedInput(int32_t output) = 0;
    virtual std::vector<int32_t> tactics() = 0;
    virtual void setTactic(int32_t tactic) = 0;
    virtual const char* timingCacheId() = 0;
    virtual const char* metadata() = 0;

    virtual std::vector<tsh_field> serializeFields() = 0;
    virtual std::vector<unsigned char> serializeBytes(int fill) = 0;

    virtual void onShapeChange(const tsh_io& io) = 0;
    // Prepares the descriptions once; enqueue() can then be timed without the conversion.
    virtual void prepare(const tsh_io& io) = 0;
    virtual int32_t enqueue(const tsh_buffers& buffers) = 0;
};

// Both take over the plugin. V2: throws Failure when it was compiled with headers whose V2 interface differs.
std::unique_ptr<Plugin> wrapV3(nvinfer1::IPluginV3* plugin);
std::unique_ptr<Plugin> wrapV2(nvinfer1::IPluginV2* plugin);

}  // namespace trtsmith::host
