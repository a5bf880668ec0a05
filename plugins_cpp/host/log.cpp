#include "log.hpp"

#include <mutex>
#include <utility>

namespace trtsmith::host {
namespace {

const char* severityName(nvinfer1::ILogger::Severity severity) {
    using Severity = nvinfer1::ILogger::Severity;
    switch (severity) {
        case Severity::kINTERNAL_ERROR:
            return "internal error";
        case Severity::kERROR:
            return "error";
        case Severity::kWARNING:
            return "warning";
        case Severity::kINFO:
            return "info";
        case Severity::kVERBOSE:
            return "verbose";
    }
    return "unknown severity";
}

class Logger final : public nvinfer1::ILogger {
public:
    void log(Severity severity, const nvinfer1::AsciiChar* message) noexcept override {
        try {
            const std::lock_guard<std::mutex> lock(mMutex);
            mText.append(severityName(severity)).append(": ").append(message ? message : "(null)").append("\n");
        } catch (...) {
            // No memory for a log line is no reason to end the process.
        }
    }

    std::string take() {
        const std::lock_guard<std::mutex> lock(mMutex);
        return std::exchange(mText, {});
    }

private:
    std::mutex mMutex;
    std::string mText;
};

Logger& instance() {
    static Logger* const logger = new Logger;  // never destroyed: plugins may log while the process ends
    return *logger;
}

class Finder final : public nvinfer1::ILoggerFinder {
public:
    nvinfer1::ILogger* findLogger() override { return &logger(); }
};

}  // namespace

nvinfer1::ILogger& logger() noexcept { return instance(); }

nvinfer1::ILoggerFinder& loggerFinder() noexcept {
    static Finder* const finder = new Finder;
    return *finder;
}

std::string takeLog() { return instance().take(); }

}  // namespace trtsmith::host
