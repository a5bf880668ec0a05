// The logger that plugins see. It keeps what they say for the caller to take.
#pragma once

#include <NvInferRuntime.h>

#include <string>

namespace trtsmith::host {

nvinfer1::ILogger& logger() noexcept;
nvinfer1::ILoggerFinder& loggerFinder() noexcept;

// The messages since the last call, one a line, each with its severity; forgets them.
std::string takeLog();

}  // namespace trtsmith::host
