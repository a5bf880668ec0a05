#include "library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "error.hpp"
#include "log.hpp"
#include "registry.hpp"

namespace trtsmith::host {
namespace {

using namespace nvinfer1;

template <typename Function>
Function* exported(void* handle, const char* name) {
    return reinterpret_cast<Function*>(dlsym(handle, name));
}

constexpr const char* kByItself = "static registration";

// Makes our getPluginRegistry visible to libraries loaded after this. Done only for a library that needs it, since a
// TensorRT loaded later into this process would see it too.
void offerRegistry() {
    Dl_info self{};
    if (dladdr(reinterpret_cast<void*>(&takeRegisteredCreators), &self) && self.dli_fname) {
        dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
    }
}

}  // namespace

Creator::Creator(IPluginCreatorInterface* creator) : mInfo(creator->getInterfaceInfo()) {
    const std::string kind = mInfo.kind ? mInfo.kind : "";
    if (kind == "PLUGIN CREATOR_V3ONE") {
        mV3 = static_cast<IPluginCreatorV3One*>(creator);
    } else if (kind == "PLUGIN CREATOR_V1") {
        mV2 = static_cast<IPluginCreator*>(creator);
    }
}

tsh_creator_info Creator::describe() {
    tsh_creator_info info{};
    info.kind = mInfo.kind;
    info.major = mInfo.major;
    info.minor = mInfo.minor;
    info.family = mV3 ? 3 : mV2 ? 2 : 0;
    if (mV3) {
        info.name = mV3->getPluginName();
        info.version = mV3->getPluginVersion();
        info.plugin_namespace = mV3->getPluginNamespace();
    } else if (mV2) {
        info.name = mV2->getPluginName();
        info.version = mV2->getPluginVersion();
        info.plugin_namespace = mV2->getPluginNamespace();
    }
    if (const PluginFieldCollection* const fields = fieldNames()) {
        info.has_fields = 1;
        info.field_count = fields->nbFields;
    }
    return info;
}

tsh_field Creator::field(int32_t index) {
    const PluginFieldCollection* const fields = fieldNames();
    require(fields && index >= 0 && index < fields->nbFields, "the creator has no field of this index");
    if (!fields->fields) {
        throw Failure(TSH_BROKEN, "getFieldNames returned fields at null");
    }
    const PluginField& field = fields->fields[index];
    return {field.name, field.data, static_cast<int32_t>(field.type), field.length};
}

std::unique_ptr<Plugin> Creator::create(const char* layer, const tsh_field* fields, int32_t count, int32_t phase) {
    require(count >= 0 && (count == 0 || fields), "a list of fields is null");
    std::vector<PluginField> list;
    for (int32_t i = 0; i < count; ++i) {
        list.emplace_back(fields[i].name, fields[i].data, static_cast<PluginFieldType>(fields[i].type),
                          fields[i].length);
    }
    const PluginFieldCollection collection{count, list.empty() ? nullptr : list.data()};
    if (mV3) {
        IPluginV3* const plugin = mV3->createPlugin(layer, &collection, static_cast<TensorRTPhase>(phase));
        if (!plugin) {
            throw Failure(TSH_REFUSED, "createPlugin returned null");
        }
        return wrapV3(plugin);
    }
    if (!mV2) {
        throw Failure(TSH_UNSUPPORTED, std::string("creators of kind ") + (mInfo.kind ? mInfo.kind : "(null)") +
                                           " are not known to the host");
    }
    IPluginV2* const plugin = mV2->createPlugin(layer, &collection);
    if (!plugin) {
        throw Failure(TSH_REFUSED, "createPlugin returned null");
    }
    return wrapV2(plugin);
}

std::unique_ptr<Plugin> Creator::deserialize(const char* layer, const void* data, size_t size) {
    if (!mV2) {
        throw Failure(TSH_UNSUPPORTED, "a V3 plugin is restored from fields with createPlugin in the runtime phase");
    }
    IPluginV2* const plugin = mV2->deserializePlugin(layer, data, size);
    if (!plugin) {
        throw Failure(TSH_REFUSED, "deserializePlugin returned null");
    }
    return wrapV2(plugin);
}

const PluginFieldCollection* Creator::fieldNames() {
    return mV3 ? mV3->getFieldNames() : mV2 ? mV2->getFieldNames() : nullptr;
}

Library::Library(const std::string& path, std::vector<std::string> inits, bool only)
    : mInits(std::move(inits)), mOnly(only) {
    try {
        load(path);
    } catch (...) {
        unload();
        throw;
    }
}

void Library::load(const std::string& path) {
    takeRegisteredCreators();
    mHandle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (mHandle && findCreators()) {
        return;
    }
    // It may register by itself while it is loaded: load it again where it can see our registry.
    const char* const words = mHandle ? nullptr : dlerror();
    const std::string error = words ? words : "";
    const bool wantsRegistry = error.find("undefined symbol: get") != std::string::npos;
    if (mHandle || wantsRegistry) {
        unload();
        offerRegistry();
        mRegistryOffered = true;
        mHandle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (mHandle && findCreators()) {
            return;
        }
    }
    if (!mHandle) {
        const char* const again = dlerror();
        throw Failure(TSH_LOAD, again ? again : error);
    }
    if (mOnly) {
        throw Failure(TSH_NO_CREATORS, "it exports no function " + mInits.front());
    }
    std::string text = "no plugin creators came while it was loaded, nor from getCreators, getPluginCreators";
    for (const std::string& name : mInits) {
        text += ", " + name;
    }
    throw Failure(TSH_NO_CREATORS, text);
}

bool Library::findCreators() {
    offerLogger(&loggerFinder());
    if (!mOnly) {
        mOffered = exportedCreators();
    }
    for (auto name = mInits.begin(); mOffered.empty() && name != mInits.end(); ++name) {
        mOffered = initialized(*name);
    }
    for (IPluginCreatorInterface* const creator : mOffered) {
        mCreators.push_back(std::make_unique<Creator>(creator));
    }
    return !mCreators.empty();
}

void Library::offerLogger(ILoggerFinder* finder) {
    if (auto* const setFinder = exported<void(ILoggerFinder*)>(mHandle, "setLoggerFinder")) {
        setFinder(finder);
    }
}

std::vector<IPluginCreatorInterface*> Library::exportedCreators() {
    int32_t count = 0;
    if (auto* const getCreators = exported<IPluginCreatorInterface* const*(int32_t&)>(mHandle, "getCreators")) {
        mHow = "getCreators";
        IPluginCreatorInterface* const* const creators = getCreators(count);
        return {creators, creators + count};
    }
    if (auto* const getPluginCreators = exported<IPluginCreator* const*(int32_t&)>(mHandle, "getPluginCreators")) {
        mHow = "getPluginCreators";
        IPluginCreator* const* const creators = getPluginCreators(count);
        return {creators, creators + count};
    }
    mHow = kByItself;
    return takeRegisteredCreators();
}

// In the registry of the TensorRT that the library was linked with, as it is bound to that; else in ours.
std::vector<IPluginCreatorInterface*> Library::initialized(const std::string& name) {
    auto* const init = exported<bool(void*, const char*)>(mHandle, name.c_str());
    auto* const getRegistry = exported<IPluginRegistry*()>(mHandle, "getPluginRegistry");
    IPluginRegistry* const its = init && getRegistry ? getRegistry() : nullptr;
    if (!init || (!its && !mRegistryOffered)) {
        return {};
    }
    auto* const getMajor = exported<int32_t()>(mHandle, "getInferLibMajorVersion");
    const int32_t major = getMajor ? getMajor() : NV_TENSORRT_MAJOR;
    const auto before = its ? creatorsIn(*its, major) : std::vector<IPluginCreatorInterface*>();
    bool registered = false;
    std::string said = "returned false";
    try {
        // Its headers may not be ours, and ILogger differs between versions.
        registered = init(its ? nullptr : &logger(), "");
        said = registered ? "returned true, and registered no plugin creators" : said;
    } catch (const std::exception& error) {
        said = std::string("threw: ") + error.what();
    }
    auto creators = its ? creatorsIn(*its, major) : takeRegisteredCreators();
    const auto known = [&](auto* creator) { return std::count(before.begin(), before.end(), creator) > 0; };
    creators.erase(std::remove_if(creators.begin(), creators.end(), known), creators.end());
    if (!registered || creators.empty()) {
        throw Failure(TSH_NO_CREATORS, name + " " + said);
    }
    mHow = name.c_str();
    return creators;
}

void Library::askAgain(Finder finder) {
    if (mHow == kByItself || std::find(mInits.begin(), mInits.end(), mHow) != mInits.end()) {
        throw Failure(TSH_UNSUPPORTED, "the library registered its creators by itself, and cannot be asked for them");
    }
    if (finder != Finder::kKept) {
        offerLogger(finder == Finder::kOurs ? &loggerFinder() : nullptr);
    }
    const auto creators = exportedCreators();
    if (creators.size() != mOffered.size()) {
        throw Failure(TSH_BROKEN, std::string(mHow) + " gave " + std::to_string(mOffered.size()) +
                                      " creators, and then " + std::to_string(creators.size()));
    }
    if (creators != mOffered) {
        throw Failure(TSH_BROKEN, std::string(mHow) + " gave other creators when it was called again");
    }
}

void Library::unload() noexcept {
    mCreators.clear();
    mOffered.clear();
    if (mHandle) {
        dlclose(mHandle);
        mHandle = nullptr;
    }
}

Library::~Library() { unload(); }

const char* Library::how() const noexcept { return mHow; }

std::vector<std::unique_ptr<Creator>>& Library::creators() noexcept { return mCreators; }

}  // namespace trtsmith::host
