// Makes the TENSORRTAPI functions below visible, as TensorRT's own build does.
#define TENSORRT_BUILD_LIB 1
#include "registry.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "log.hpp"

namespace trtsmith::host {
namespace {

using namespace nvinfer1;

bool isV2(const IPluginCreatorInterface& creator) {
    return std::strcmp(creator.getInterfaceInfo().kind, "PLUGIN CREATOR_V1") == 0;
}

// A plain list. Nothing is found by name here: the host asks each library for its own creators.
class Registry final : public IPluginRegistry {
public:
    bool registerCreator(IPluginCreator& creator, const AsciiChar* const pluginNamespace) noexcept override {
        creator.setPluginNamespace(pluginNamespace ? pluginNamespace : "");
        return add(creator);
    }

    bool registerCreator(IPluginCreatorInterface& creator, const AsciiChar* const pluginNamespace) noexcept override {
        if (isV2(creator)) {
            return registerCreator(static_cast<IPluginCreator&>(creator), pluginNamespace);
        }
        return add(creator);
    }

    bool deregisterCreator(const IPluginCreator& creator) noexcept override { return remove(creator); }

    bool deregisterCreator(const IPluginCreatorInterface& creator) noexcept override { return remove(creator); }

    IPluginCreator* const* getPluginCreatorList(int32_t* const count) const noexcept override {
        const std::lock_guard<std::mutex> lock(mMutex);
        mV2.clear();
        for (IPluginCreatorInterface* creator : mAll) {
            if (isV2(*creator)) {
                mV2.push_back(static_cast<IPluginCreator*>(creator));
            }
        }
        *count = static_cast<int32_t>(mV2.size());
        return mV2.data();
    }

    IPluginCreator* getPluginCreator(const AsciiChar* const, const AsciiChar* const,
                                     const AsciiChar* const) noexcept override {
        return nullptr;
    }

    IPluginCreatorInterface* const* getAllCreators(int32_t* const count) const noexcept override {
        *count = static_cast<int32_t>(mAll.size());
        return mAll.data();
    }

    IPluginCreatorInterface* const* getAllCreatorsRecursive(int32_t* const count) noexcept override {
        return getAllCreators(count);
    }

    IPluginCreatorInterface* getCreator(const AsciiChar* const, const AsciiChar* const,
                                        const AsciiChar* const) noexcept override {
        return nullptr;
    }

    void setErrorRecorder(IErrorRecorder* const recorder) noexcept override { mRecorder = recorder; }

    IErrorRecorder* getErrorRecorder() const noexcept override { return mRecorder; }

    bool isParentSearchEnabled() const override { return false; }

    void setParentSearchEnabled(const bool) override {}

    PluginLibraryHandle loadLibrary(const AsciiChar*) noexcept override { return nullptr; }

    void deregisterLibrary(PluginLibraryHandle) noexcept override {}

    // Resources are shared by key: the first one given under a key is cloned, kept and handed to everyone after.
    IPluginResource* acquirePluginResource(const AsciiChar* key, IPluginResource* resource) noexcept override {
        const std::lock_guard<std::mutex> lock(mMutex);
        Held& held = mResources[key];
        if (held.users == 0) {
            held.resource = resource ? resource->clone() : nullptr;
        }
        if (!held.resource) {
            mResources.erase(key);
            return nullptr;
        }
        ++held.users;
        return held.resource;
    }

    int32_t releasePluginResource(const AsciiChar* key) noexcept override {
        const std::lock_guard<std::mutex> lock(mMutex);
        const auto found = mResources.find(key);
        if (found == mResources.end()) {
            return -1;
        }
        if (--found->second.users > 0) {
            return 0;
        }
        const int32_t status = found->second.resource->release();
        delete found->second.resource;
        mResources.erase(found);
        return status;
    }

    std::vector<IPluginCreatorInterface*> take() {
        const std::lock_guard<std::mutex> lock(mMutex);
        return std::exchange(mAll, {});
    }

private:
    struct Held {
        IPluginResource* resource{nullptr};
        int32_t users{0};
    };

    bool add(IPluginCreatorInterface& creator) noexcept {
        const std::lock_guard<std::mutex> lock(mMutex);
        mAll.push_back(&creator);
        return true;
    }

    bool remove(const IPluginCreatorInterface& creator) noexcept {
        const std::lock_guard<std::mutex> lock(mMutex);
        const auto found = std::find(mAll.begin(), mAll.end(), &creator);
        if (found == mAll.end()) {
            return false;
        }
        mAll.erase(found);
        return true;
    }

    mutable std::mutex mMutex;
    std::vector<IPluginCreatorInterface*> mAll;
    mutable std::vector<IPluginCreator*> mV2;
    std::map<std::string, Held> mResources;
    IErrorRecorder* mRecorder{nullptr};
};

Registry& registry() {
    static Registry* const instance = new Registry;  // never destroyed: libraries deregister while the process ends
    return *instance;
}

}  // namespace

// IPluginRegistry of TensorRT 11 and TensorRT-RTX, which dropped its functions for V2 creators: the places of its table up
// to the one that is called here. Not in the unnamed namespace: GCC sees there that nothing implements it, and calls nothing.
class LaterRegistry {
public:
    virtual ~LaterRegistry() = 0;  // two places
    virtual void setErrorRecorder(IErrorRecorder*) noexcept = 0;
    virtual IErrorRecorder* getErrorRecorder() const noexcept = 0;
    virtual bool isParentSearchEnabled() const = 0;
    virtual void setParentSearchEnabled(bool) = 0;
    virtual void* loadLibrary(const AsciiChar*) noexcept = 0;
    virtual void deregisterLibrary(void*) noexcept = 0;
    virtual bool registerCreator(IPluginCreatorInterface&, const AsciiChar*) noexcept = 0;
    virtual IPluginCreatorInterface* const* getAllCreators(int32_t*) const noexcept = 0;
};

std::vector<IPluginCreatorInterface*> takeRegisteredCreators() { return registry().take(); }

std::vector<IPluginCreatorInterface*> creatorsIn(IPluginRegistry& registry, int32_t major) {
    int32_t count = 0;
    IPluginCreatorInterface* const* const creators =
        major == NV_TENSORRT_MAJOR ? registry.getAllCreators(&count)
                                   : reinterpret_cast<const LaterRegistry&>(registry).getAllCreators(&count);
    return {creators, creators + count};
}

}  // namespace trtsmith::host

// What a library that registers by itself expects to find in libnvinfer.

nvinfer1::IPluginRegistry* getPluginRegistry() noexcept { return &trtsmith::host::registry(); }

nvinfer1::ILogger* getLogger() noexcept { return &trtsmith::host::logger(); }

int32_t getInferLibVersion() noexcept { return NV_TENSORRT_VERSION; }

int32_t getInferLibMajorVersion() noexcept { return NV_TENSORRT_MAJOR; }

int32_t getInferLibMinorVersion() noexcept { return NV_TENSORRT_MINOR; }

int32_t getInferLibPatchVersion() noexcept { return NV_TENSORRT_PATCH; }

int32_t getInferLibBuildVersion() noexcept { return NV_TENSORRT_BUILD; }
