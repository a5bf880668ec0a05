#include "error.hpp"

namespace trtsmith::host
{
namespace
{
thread_local std::string gLastError;
}

void setLastError(std::string text) noexcept
{
    gLastError = std::move(text);
}

char const* lastError() noexcept
{
    return gLastError.c_str();
}

} // namespace trtsmith::host
