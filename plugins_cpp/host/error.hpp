// Failures inside the host: thrown as Failure, turned into a status and a string at the C ABI.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "api.h"

namespace trtsmith::host {

struct Failure : std::runtime_error {
    Failure(tsh_status status, const std::string& text) : std::runtime_error(text), status(status) {}

    tsh_status status;
};

void setLastError(std::string text) noexcept;
const char* lastError() noexcept;

// Runs `body` and returns its status. Whatever is thrown, by us or by the library under test, ends here.
template <typename Body>
int32_t guarded(Body&& body) noexcept {
    try {
        std::forward<Body>(body)();
        return TSH_OK;
    } catch (const Failure& failure) {
        setLastError(failure.what());
        return failure.status;
    } catch (const std::exception& error) {
        setLastError(std::string("threw: ") + error.what());
    } catch (...) {
        setLastError("threw something that is not a std::exception");
    }
    return TSH_BROKEN;
}

inline void require(bool condition, const char* text) {
    if (!condition) {
        throw Failure(TSH_USAGE, text);
    }
}

}  // namespace trtsmith::host
