#include <algorithm>
#include <asio/use_future.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "codec/registry.h"
#include "engine/gguf.h"
#include "engine/wiring_codec_profile.h"
#include "mzcache/profile.h"
#include "mzcache/runtime.h"

namespace mzcache {

CodecProfileReport make_codec_profile(Config config, const std::string& codec_name,
                                      const std::string& model_file, std::string_view text,
                                      const std::function<void(std::string_view)>& notice) {
  const auto codec = value_or_throw(codec::make_codec(codec_name));
  const auto* const profiled = dynamic_cast<const codec::ProfiledCodec*>(codec.get());
  if (profiled == nullptr || !profiled->wants_profile()) {
    throw Exception({ErrorCode::kBadArgument, 0, "codec profile",
                     "codec \"" + codec_name + "\" uses none (entropy and packed do)"});
  }
  const auto description =
      value_or_throw(engine::describe_model(value_or_throw(engine::GgufFile::open(model_file))));
  CodecProfileReport report;
  report.file = engine::codec_profile_path(description);
  if (report.file.empty()) {
    throw Exception({ErrorCode::kNotFound, 0, "codec profile",
                     "no place to keep it: neither XDG_CACHE_HOME nor HOME is set"});
  }
  config.memory.codec = codec_name;
  config.memory.storage_codec = "none";
  // Plans play no part: nothing is measured.
  for (double* rate : {&config.profile.read_bytes_per_s, &config.profile.decode_bytes_per_s,
                       &config.profile.allocate_bytes_per_s}) {
    if (*rate <= 0) *rate = 1e9;
  }
  // The one that is there stays until a new one takes its place.
  const std::string aside = report.file + ".old";
  std::error_code ignored;
  std::filesystem::rename(report.file, aside, ignored);
  try {
    Runtime runtime(std::move(config), notice);
    const Model model = runtime.load(model_file);
    const std::vector<Token> tokens = model.tokenize(text, {});
    if (tokens.size() < engine::kCodecProfileTokens) {
      throw Exception({ErrorCode::kBadArgument, 0, "codec profile",
                       "the text has " + std::to_string(tokens.size()) + " tokens, " +
                           std::to_string(engine::kCodecProfileTokens) + " are needed"});
    }
    // Whole chunks count; a short context takes several sessions.
    const std::uint32_t chunk = description.chunk_tokens;
    const std::uint32_t limit = std::max(
        chunk, std::min(model.info().context_length, engine::kCodecProfileTokens) / chunk * chunk);
    for (std::uint32_t at = 0; at < engine::kCodecProfileTokens; at += limit) {
      Evaluate message;
      message.session = model.open_session({});
      const auto first = tokens.begin() + at;
      message.tokens.assign(first, first + std::min<std::ptrdiff_t>(limit, tokens.end() - first));
      const Session session = message.session;
      static_cast<void>(runtime.send(std::move(message), asio::use_future).get());
      static_cast<void>(runtime.send(Reset{session}, asio::use_future).get());
    }
  } catch (...) {
    std::filesystem::rename(aside, report.file, ignored);
    throw;
  }
  auto made = engine::load_codec_profile(report.file, description);
  if (!made) {
    std::filesystem::rename(aside, report.file, ignored);
    throw Exception(std::move(made.error()));
  }
  std::filesystem::remove(aside, ignored);
  const auto& profile = *made;
  report.tokens = profile.tokens;
  report.id = profile.id;
  report.bytes = std::filesystem::file_size(report.file, ignored);
  return report;
}

}  // namespace mzcache
