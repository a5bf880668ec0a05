"""The facts read from NVIDIA's plugin sources."""

from __future__ import annotations

import pytest

from scripts.stockplugins.creator_sources import PluginSources, StockField
from scripts.stockplugins.write_table import newest_tags

REGISTER = """bool initLibNvInferPlugins(void* logger, char const* ns) {
    initializePlugin<nvinfer1::plugin::PoolCreator>(logger, ns);
    // initializePlugin<nvinfer1::plugin::GoneCreator>(logger, ns);
    initializePlugin<nvinfer1::plugin::OldCreator>(logger, ns);
}"""
HEADER = """
class TRT_DEPRECATED Pool : public IPluginV2DynamicExt { };
class TRT_DEPRECATED_BECAUSE(
    "No reason.") PoolCreator : public nvinfer1::pluginInternal::BaseCreator { };
class NewCreator final : public nvinfer1::IPluginCreatorV3One {
    char const* getPluginVersion() const noexcept { return "2"; }
};
template <class T> class OldBase : public BaseCreator { };
class OldStatic : public Base<IPluginV2Ext> { };
using OldCreator = OldBase<OldStatic>;
"""
SOURCE = """
char const* const kNAMES[] = {"Pool_TRT", "New_TRT"};
static char const* const kVERSION{"1"};
REGISTER_TENSORRT_PLUGIN(NewCreator);
PoolCreator::PoolCreator() : mParam{} {
    mPluginAttributes.emplace_back(PluginField("kernel", nullptr, PluginFieldType::kINT32, 2)); // kFLOAT32
    mPluginAttributes.emplace_back(PluginField("scale", nullptr, nvinfer1::PluginFieldType::kFLOAT32, 1));
}
char const* PoolCreator::getPluginName() const noexcept { return kNAMES[0]; }
char const* PoolCreator::getPluginVersion() const noexcept { return kVERSION; }
IPluginV2DynamicExt* PoolCreator::createPlugin(char const* name, PluginFieldCollection const* fc) noexcept {
    gLogWarning << "Other is deprecated";
    plugin::validateRequiredAttributesExist({"kernel"}, fc);
    return new Pool(name);
}
IPluginV3* NewCreator::createPlugin(char const* n, Fields const* f, TensorRTPhase p) noexcept { return make(); }
NewCreator::NewCreator() { mFields.emplace_back(PluginField("only_named")); }
char const* NewCreator::getPluginName() const noexcept { return kNAMES[1]; }
template <class T> OldBase<T>::OldBase() { a.emplace_back(PluginField("stride", nullptr, PluginFieldType::kINT32, 1)); }
template <class T> char const* OldBase<T>::getPluginName() const noexcept { return "Old_TRT"; }
template <class T> IPluginV2Ext* OldBase<T>::createPlugin(char const* n, Fields const* f) noexcept { return new T(); }
char const* OldStatic::getPluginVersion() const noexcept { return kVERSION; }
"""


def test_creators_of_a_release() -> None:
    sources = PluginSources({"api/inferPlugin.cpp": REGISTER, "pool/pool.h": HEADER, "pool/pool.cpp": SOURCE})
    new, old, pool = sources.creators()
    assert (new.name, new.version, new.interface) == ("New_TRT", "2", "IPluginV3")
    assert new.fields == (StockField("only_named", "unknown", 0),)
    assert (old.name, old.version, old.interface) == ("Old_TRT", "1", "IPluginV2Ext")
    assert (pool.name, pool.version, pool.interface) == ("Pool_TRT", "1", "IPluginV2DynamicExt")
    assert pool.fields == (StockField("kernel", "int32", 2), StockField("scale", "float32", 1))
    assert pool.required == ("kernel",)


def test_what_cannot_be_read_is_an_error() -> None:
    odd = SOURCE.replace("PluginFieldType::kINT32, 2", "kindOf(3), 2")
    with pytest.raises(ValueError, match="a field of PoolCreator cannot be read"):
        PluginSources({"api/inferPlugin.cpp": REGISTER, "p/p.h": HEADER, "p/p.cpp": odd}).creators()


def test_the_last_patch_of_each_release() -> None:
    tags = ["v8.5.3", "v8.6.0", "v8.6.1", "v10.16", "v10.2.0", "main", "21.02", "8.5.1"]
    assert newest_tags(tags) == {"8.6": "v8.6.1", "10.2": "v10.2.0", "10.16": "v10.16"}
