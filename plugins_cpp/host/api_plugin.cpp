// The C ABI: plugins, all but running them.
#include <algorithm>

#include "handles.hpp"

using namespace trtsmith::host;

int32_t tsh_plugin_destroy(tsh_plugin* plugin) {
    return guarded([&] { delete plugin; });
}

int32_t tsh_plugin_describe(tsh_plugin* plugin, tsh_plugin_info* out) {
    return guarded([&] {
        require(out, "the place for the description is null");
        *out = use(plugin).describe();
    });
}

int32_t tsh_plugin_clone(tsh_plugin* plugin, tsh_plugin** out) {
    return guarded([&] { give(use(plugin).clone(), out); });
}

int32_t tsh_plugin_attach(tsh_plugin* plugin, tsh_plugin** out) {
    return guarded([&] { give(use(plugin).attach(), out); });
}

int32_t tsh_plugin_set_namespace(tsh_plugin* plugin, const char* pluginNamespace) {
    return guarded([&] { use(plugin).setNamespace(pluginNamespace); });
}

int32_t tsh_plugin_initialize(tsh_plugin* plugin) {
    return guarded([&] { use(plugin).initialize(); });
}

int32_t tsh_plugin_terminate(tsh_plugin* plugin) {
    return guarded([&] { use(plugin).terminate(); });
}

int32_t tsh_plugin_output_types(tsh_plugin* plugin, const int32_t* inputs, int32_t inputCount, int32_t* outputs,
                                int32_t outputCount) {
    return guarded([&] {
        require(inputCount >= 0 && outputCount >= 0 && (outputCount == 0 || outputs), "a list of types is null");
        const std::vector<int32_t> types(inputs, inputs + inputCount);
        const auto answer = use(plugin).outputTypes(types, outputCount);
        std::copy(answer.begin(), answer.end(), outputs);
    });
}

int32_t tsh_plugin_output_shapes(tsh_plugin* plugin, const tsh_dims* inputs, const uint32_t* symbolic,
                                 int32_t inputCount, const tsh_dims* shapeInputs, int32_t shapeInputCount,
                                 tsh_shape* outputs, int32_t outputCount) {
    return guarded([&] {
        require(inputCount >= 0 && shapeInputCount >= 0 && outputCount >= 0, "a count is negative");
        require(outputCount == 0 || outputs, "the place for the shapes is null");
        plugin->shapes =
            use(plugin).outputShapes({inputs, symbolic, inputCount, shapeInputs, shapeInputCount, outputCount});
        for (int32_t i = 0; i < outputCount; ++i) {
            const auto& shape = plugin->shapes[static_cast<size_t>(i)];
            outputs[i].n = static_cast<int32_t>(shape.size());
            for (size_t j = 0; j < shape.size(); ++j) {
                outputs[i].d[j] = {shape[j].value, shape[j].evaluated, shape[j].sizeOutput, shape[j].text.c_str()};
            }
        }
    });
}

int32_t tsh_plugin_supports_format(tsh_plugin* plugin, int32_t position, const tsh_io* io, int32_t* answer) {
    return guarded([&] {
        require(answer, "the place for the answer is null");
        *answer = use(plugin).supportsFormat(position, use(io)) ? 1 : 0;
    });
}

int32_t tsh_plugin_configure(tsh_plugin* plugin, const tsh_io* io) {
    return guarded([&] { use(plugin).configure(use(io)); });
}

int32_t tsh_plugin_workspace(tsh_plugin* plugin, const tsh_io* io, size_t* out) {
    return guarded([&] {
        require(out, "the place for the size is null");
        *out = use(plugin).workspace(use(io));
    });
}

int32_t tsh_plugin_aliased_input(tsh_plugin* plugin, int32_t output, int32_t* input) {
    return guarded([&] {
        require(input, "the place for the answer is null");
        *input = use(plugin).aliasedInput(output);
    });
}

int32_t tsh_plugin_tactics(tsh_plugin* plugin, int32_t* tactics, int32_t capacity, int32_t* count) {
    return guarded([&] {
        require(count && (capacity == 0 || tactics), "the place for the tactics is null");
        const auto answer = use(plugin).tactics();
        *count = static_cast<int32_t>(answer.size());
        std::copy_n(answer.begin(), std::min(*count, std::max(capacity, 0)), tactics);
    });
}

int32_t tsh_plugin_set_tactic(tsh_plugin* plugin, int32_t tactic) {
    return guarded([&] { use(plugin).setTactic(tactic); });
}

int32_t tsh_plugin_timing_cache_id(tsh_plugin* plugin, const char** out) {
    return guarded([&] {
        require(out, "the place for the answer is null");
        *out = use(plugin).timingCacheId();
    });
}

int32_t tsh_plugin_metadata(tsh_plugin* plugin, const char** out) {
    return guarded([&] {
        require(out, "the place for the answer is null");
        *out = use(plugin).metadata();
    });
}

int32_t tsh_plugin_serialize_fields(tsh_plugin* plugin, const tsh_field** out, int32_t* count) {
    return guarded([&] {
        require(out && count, "the place for the fields is null");
        plugin->fields = use(plugin).serializeFields();
        *out = plugin->fields.data();
        *count = static_cast<int32_t>(plugin->fields.size());
    });
}

int32_t tsh_plugin_serialize_bytes(tsh_plugin* plugin, int32_t fill, const void** data, size_t* size) {
    return guarded([&] {
        require(data && size, "the place for the bytes is null");
        plugin->bytes = use(plugin).serializeBytes(fill);
        *data = plugin->bytes.data();
        *size = plugin->bytes.size();
    });
}

int32_t tsh_plugin_on_shape_change(tsh_plugin* plugin, const tsh_io* io) {
    return guarded([&] { use(plugin).onShapeChange(use(io)); });
}
