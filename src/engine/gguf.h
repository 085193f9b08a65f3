// GGUF, versions 2 and 3: the container of models. Parsing checks every count and offset against
// the file's size before it allocates; errors name file, key or tensor, value and limit.
// Source: the format's specification (github.com/ggml-org/ggml, docs/gguf.md).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/model_description.h"
#include "mzcache/errors.h"

namespace mzcache::engine {

using actors::ModelDescription;

// Integers keep their sign; all unsigned widths are uint64, all signed int64, floats double.
using GgufValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string,
                               std::vector<std::uint64_t>, std::vector<std::int64_t>,
                               std::vector<double>, std::vector<bool>, std::vector<std::string>>;

struct GgufTensor {
  std::string name;
  std::uint32_t type = 0;                 // id as in the file, possibly unsupported
  std::vector<std::uint64_t> dimensions;  // 1 … 4, innermost first
  std::uint64_t file_offset = 0;          // absolute
  std::uint64_t bytes = 0;                // 0 where the type's size is unknown
};

class GgufFile {
 public:
  // Reads and checks header, metadata and tensor table.
  [[nodiscard]] static Result<GgufFile> open(const std::string& path);
  // The same over bytes in memory (tests, fuzzing); file_bytes is the size of the whole file.
  [[nodiscard]] static Result<GgufFile> parse(std::string_view name, std::string_view header,
                                              std::uint64_t file_bytes);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  [[nodiscard]] std::uint32_t version() const noexcept { return version_; }
  [[nodiscard]] std::uint64_t alignment() const noexcept { return alignment_; }
  // Hash of header, file size and (where opened from disk) modification time.
  [[nodiscard]] std::uint64_t identity() const noexcept { return identity_; }
  [[nodiscard]] const std::map<std::string, GgufValue, std::less<>>& metadata() const {
    return metadata_;
  }
  [[nodiscard]] const std::vector<GgufTensor>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] const GgufTensor* tensor(std::string_view name) const noexcept;

  // Typed look-ups. Missing: nullopt / the fallback. Present with another type: an error that names
  // the key, the type found and the type wanted. Missing lists are empty, texts() never null.
  [[nodiscard]] Result<std::optional<std::string>> text(std::string_view key) const;
  [[nodiscard]] Result<std::optional<std::uint64_t>> integer(std::string_view key) const;
  [[nodiscard]] Result<std::optional<double>> number(std::string_view key) const;
  [[nodiscard]] Result<std::optional<bool>> boolean(std::string_view key) const;
  [[nodiscard]] Result<const std::vector<std::string>*> texts(std::string_view key) const;
  [[nodiscard]] Result<std::vector<std::int64_t>> integers(std::string_view key) const;
  [[nodiscard]] Result<std::vector<double>> numbers(std::string_view key) const;

 private:
  struct Parts;
  std::string path_;
  std::uint64_t file_bytes_ = 0;
  std::uint32_t version_ = 0;
  std::uint64_t alignment_ = 32;
  std::uint64_t identity_ = 0;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
};

// The model in a GGUF file. An unsupported architecture, tensor type or RoPE scaling, or a missing
// tensor, is an error that lists what is supported.
[[nodiscard]] Result<ModelDescription> describe_model(const GgufFile& file);

}  // namespace mzcache::engine
