// `mzcache profile`: what storage and decoder of this machine achieve, and what follows from it for
// a model.
#include "mzcache/profile.h"

#include <cstdio>
#include <memory>
#include <string>

#include "command.h"
#include "options.h"
#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

struct ProfileOptions {
  CommonOptions common;
  std::string model;
  std::string codec;
  std::string text_file;
  bool refresh = false;
  bool json = false;
};

Json to_json(const ProfileRates& rates) {
  return {{"read_bytes_per_s", rates.read_bytes_per_s},
          {"decode_bytes_per_s", rates.decode_bytes_per_s},
          {"allocate_bytes_per_s", rates.allocate_bytes_per_s}};
}

// What only a model gives is null without one.
Json to_json(const ProfileReport& report, bool model) {
  const auto with_model = [model](double value) { return model ? Json(value) : Json(nullptr); };
  Json json = to_json(report.alone);
  json["prefill_tokens_per_s"] = with_model(report.prefill_tokens_per_s);
  json["r"] = with_model(report.r);
  json["threshold_chunks"] = with_model(report.threshold_chunks);
  json["read_weights_ms"] = with_model(report.read_weights_ms);
  json["read_chunk_ms"] = with_model(report.read_chunk_ms);
  json["decode_chunk_ms"] = with_model(report.decode_chunk_ms);
  json["decode_chunk_priced_ms"] = with_model(report.decode_priced_ms);
  json["busy"] = to_json(report.busy);
  json["model_read_bytes_per_s"] = with_model(report.model_read_bytes_per_s);
  json["swap_read_bytes_per_s"] = report.swap_read_bytes_per_s;
  json["write_bytes_per_s"] = report.write_bytes_per_s;
  json["encode_bytes_per_s"] = report.encode_bytes_per_s;
  json["decode_cpu_s_per_byte"] = report.decode_cpu_s_per_byte;
  json["storage_decode_bytes_per_s"] = report.storage_decode_bytes_per_s;
  json["storage_decode_cpu_s_per_byte"] = report.storage_decode_cpu_s_per_byte;
  json["measure_ms"] = report.measure_s * 1e3;
  json["cached"] = report.cached;
  json["file"] = report.file;
  json["key"] = report.key;
  return json;
}

void print_rate(const char* name, double bytes_per_s, const char* note) {
  if (bytes_per_s <= 0) {
    std::printf("%-12s not known%s\n", name, note);
  } else {
    std::printf("%-12s %s/s%s\n", name, human_bytes(bytes_per_s).c_str(), note);
  }
}

void print(const ProfileReport& report, bool model) {
  print_rate("read", report.alone.read_bytes_per_s, ", storage into fresh unit buffers");
  if (model) print_rate("  model", report.model_read_bytes_per_s, "");
  print_rate("  swap", report.swap_read_bytes_per_s, "");
  print_rate("decode", report.alone.decode_bytes_per_s, ", of decoded bytes, all workers");
  if (report.storage_decode_bytes_per_s > 0) {
    print_rate("  stored", report.storage_decode_bytes_per_s, ", by the codec for storage");
  }
  print_rate("allocate", report.alone.allocate_bytes_per_s, "");
  print_rate("encode", report.encode_bytes_per_s, "");
  print_rate("write", report.write_bytes_per_s, "");
  if (report.busy.read_bytes_per_s > 0 || report.busy.decode_bytes_per_s > 0) {
    std::printf("while the device computes (learnt from restores)\n");
    print_rate("  read", report.busy.read_bytes_per_s, "");
    print_rate("  decode", report.busy.decode_bytes_per_s, "");
    print_rate("  allocate", report.busy.allocate_bytes_per_s, "");
  }
  if (model) {
    std::printf("prefill      %.0f tokens/s\n", report.prefill_tokens_per_s);
    std::printf("t_r(W)       %.3f ms to read a layer's weights\n", report.read_weights_ms);
    std::printf("t_r(KV)      %.3f ms to read a chunk\n", report.read_chunk_ms);
    std::printf(
        "t_d(KV)      %.3f ms to decode a chunk, %.3f ms with the processor's time priced\n",
        report.decode_chunk_ms, report.decode_priced_ms);
    std::printf("r            %.2f chunks compressed per layer dropped\n", report.r);
    std::printf("T            %.1f chunks take as long as reading all weights\n",
                report.threshold_chunks);
  }
  std::printf("%s %s\n", report.cached ? "kept in     " : "measured; in",
              report.file.empty() ? "memory only" : report.file.c_str());
}

int run_codec(const ProfileOptions& options) {
  need("-m", options.model, "a GGUF file");
  need("-f", options.text_file, "a text of at least 4096 tokens");
  Config config = options.common.config();
  set_from_flag(config, "--codec", "memory.codec", options.codec);
  const CodecProfileReport report = make_codec_profile(
      std::move(config), options.codec, options.model, read_text_file(options.text_file));
  if (options.json) {
    print_json({{"codec", options.codec},
                {"file", report.file},
                {"id", report.id},
                {"tokens", report.tokens},
                {"bytes", report.bytes}});
  } else {
    std::printf("profile %08x from %u tokens, %llu bytes, kept in %s\n", report.id, report.tokens,
                static_cast<unsigned long long>(report.bytes), report.file.c_str());
  }
  return kExitDone;
}

int run(const ProfileOptions& options) {
  if (!options.codec.empty()) return run_codec(options);
  if (!options.text_file.empty()) throw UsageError("-f: only with --codec");
  const ProfileReport report = measure_profile(
      options.common.config(), options.model, options.refresh, [](std::string_view notice) {
        std::fprintf(stderr, "mzcache: %.*s\n", static_cast<int>(notice.size()), notice.data());
      });
  const bool model = !options.model.empty();
  if (options.json) {
    print_json(to_json(report, model));
  } else {
    print(report, model);
  }
  return kExitDone;
}

}  // namespace

void add_profile(CommandLine& app, Commands& commands) {
  auto options = std::make_shared<ProfileOptions>();
  CommandLine& command =
      app.add_subcommand("profile", "Measure storage and decoder, which the policy balances");
  command
      .add_option("-m,--model", options->model, "GGUF file: read it too, measure prefill, show r")
      .type_name("FILE");
  command.add_flag("--refresh", options->refresh, "Measure again");
  command.add_flag("--json", options->json, "One JSON object on stdout");
  command
      .add_option("--codec", options->codec,
                  "Make the profile this codec wants of the model, from the text")
      .type_name("NAME");
  command.add_option("-f,--file", options->text_file, "Text for --codec").type_name("TEXT");
  options->common.add_without_timelines_to(command);
  command.footer(
      "Example:\n  mzcache profile -m models/SmolLM2-135M-Instruct.Q4_1.gguf --refresh\n"
      "  mzcache profile --codec entropy -m models/SmolLM2-135M-Instruct.Q4_1.gguf -f "
      "texts/tech.txt");
  commands.push_back({&command, [options] { return run(*options); }});
}

}  // namespace mzcache::tools
