#include "mzcache/errors.h"

#include <cstring>

namespace mzcache {
namespace {

class Category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "mzcache"; }
  [[nodiscard]] std::string message(int value) const override {
    switch (static_cast<ErrorCode>(value)) {
      case ErrorCode::kOk:
        return "ok";
      case ErrorCode::kBadArgument:
        return "bad argument";
      case ErrorCode::kBadConfig:
        return "bad configuration";
      case ErrorCode::kNotFound:
        return "not found";
      case ErrorCode::kNotYet:
        return "not yet";
      case ErrorCode::kBadFormat:
        return "bad format";
      case ErrorCode::kUnsupported:
        return "unsupported";
      case ErrorCode::kIo:
        return "input/output error";
      case ErrorCode::kNoSpace:
        return "no space left";
      case ErrorCode::kNoMemory:
        return "out of memory";
      case ErrorCode::kChecksum:
        return "checksum mismatch";
      case ErrorCode::kDevice:
        return "compute device failed";
      case ErrorCode::kCompile:
        return "kernel did not build";
      case ErrorCode::kCancelled:
        return "cancelled";
      case ErrorCode::kContextFull:
        return "context full";
      case ErrorCode::kInternal:
        return "internal error";
    }
    return "unknown";
  }
};

}  // namespace

const std::error_category& mzcache_category() noexcept {
  static const Category category;
  return category;
}

std::string Error::message() const {
  std::string text = operation.empty() ? make_error_code(code).message() : operation;
  if (!context.empty()) text += (text.empty() ? "" : ": ") + context;
  if (native > 0) text += std::string(": ") + std::strerror(static_cast<int>(native));
  if (native < 0) text += " (OpenCL " + std::to_string(native) + ")";
  if (!hint.empty()) text += "; " + hint;
  return text;
}

Exception::Exception(Error error)
    : std::system_error(make_error_code(error.code), error.message()), error_(std::move(error)) {}

}  // namespace mzcache
