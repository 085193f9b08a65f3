// errno as an Error of the library.
#pragma once

#include <cerrno>
#include <string>
#include <utility>

#include "mzcache/errors.h"

namespace mzcache::io {

inline Error io_error(int native, std::string operation, std::string context) {
  ErrorCode code = ErrorCode::kIo;
  if (native == ENOENT || native == ENOTDIR) code = ErrorCode::kNotFound;
  if (native == ENOSPC || native == EDQUOT || native == EFBIG) code = ErrorCode::kNoSpace;
  if (native == ENOMEM) code = ErrorCode::kNoMemory;
  return {code, native, std::move(operation), std::move(context)};
}

}  // namespace mzcache::io
