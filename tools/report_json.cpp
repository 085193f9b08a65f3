#include "report_json.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <fstream>

namespace mzcache::tools {

Json to_json(const EvictReport& report) {
  return {{"requested_bytes", report.requested_bytes},
          {"freed_bytes", report.freed_bytes},
          {"all_there_is", report.all_there_is},
          {"pss_drop_bytes", report.pss_drop_bytes},
          {"bytes_written", report.bytes_written},
          {"bytes_encoded", report.bytes_encoded},
          {"storage_bytes_encoded", report.storage_bytes_encoded},
          {"bytes_compressed", report.bytes_compressed},
          {"ms", report.ms},
          {"remaining_percent", report.remaining_percent},
          {"predicted_memory_ms", report.restore_memory_ms},
          {"predicted_storage_ms", report.restore_storage_ms},
          {"units",
           {{"weights_dropped", report.units.weights_dropped},
            {"head_dropped", report.units.head_dropped},
            {"kv_compressed", report.units.kv_compressed},
            {"kv_stored", report.units.kv_stored},
            {"kv_moved", report.units.kv_moved},
            {"kv_clean", report.units.kv_clean},
            {"kv_dropped", report.units.kv_dropped}}}};
}

Json to_json(const RestoreReport& report) {
  return {{"bytes_read", report.bytes_read},
          {"bytes_decoded", report.bytes_decoded},
          {"storage_bytes_decoded", report.storage_bytes_decoded},
          {"bytes_allocated", report.bytes_allocated},
          {"allocate_ms", report.allocate_ms},
          {"read_ms", report.read_ms},
          {"decode_ms", report.decode_ms},
          {"storage_decode_ms", report.storage_decode_ms},
          {"wait_ms", report.wait_ms},
          {"overlap_percent", report.overlap_percent},
          {"ms", report.ms},
          {"recomputed", report.recomputed}};
}

// What the file does not say is null.
template <class Number>
Json known(Number value) {
  return value == 0 ? Json(nullptr) : Json(value);
}

Json to_json(const ModelInfo& info) {
  Json types = Json::array();
  for (const auto& use : info.tensor_types) {
    types.push_back({{"type", use.type}, {"tensors", use.tensors}, {"bytes", known(use.bytes)}});
  }
  Json units = Json::array();
  for (const auto& unit : info.units) {
    units.push_back({{"name", unit.name}, {"bytes", unit.bytes}, {"window_tokens", unit.window}});
  }
  return {{"file", info.file},
          {"file_bytes", info.file_bytes},
          {"name", info.name},
          {"architecture", info.architecture},
          {"gguf_version", info.gguf_version},
          {"parameters", info.parameters},
          {"sizes",
           {{"layers", known(info.layers)},
            {"hidden", known(info.hidden)},
            {"feed_forward", known(info.feed_forward)},
            {"heads", known(info.heads)},
            {"kv_heads", known(info.kv_heads)},
            {"head_dim", known(info.head_dim)},
            {"vocabulary", known(info.vocabulary)},
            {"context_length", known(info.context_length)},
            {"tied_embeddings", info.tied_embeddings}}},
          {"tensor_types", types},
          {"tokenizer",
           {{"model", info.tokenizer_model},
            {"splitter", info.tokenizer_splitter},
            {"tokens", info.tokenizer_tokens},
            {"chat_template", info.chat_template}}},
          {"weights_bytes", known(info.weights_bytes)},
          {"chunk_bytes", known(info.chunk_bytes)},
          {"kv_bytes_per_token", known(info.kv_bytes_per_token)},
          {"units", units},
          {"supported", info.unsupported.empty()},
          {"unsupported", info.unsupported}};
}

Json to_json(const SystemInfo& system) {
  Json devices = Json::array();
  for (const auto& device : system.devices) {
    devices.push_back({{"name", device.name},
                       {"platform", device.platform},
                       {"version", device.version},
                       {"driver", device.driver},
                       {"svm", device.svm},
                       {"memory", device.memory},
                       {"granularity", device.granularity},
                       {"kernels", device.kernels},
                       {"compute_units", device.compute_units},
                       {"float_width", device.float_width},
                       {"cpu", device.cpu},
                       {"fp16", device.fp16},
                       {"subgroups", device.subgroups},
                       {"dot_products", device.dot_products}});
  }
  Json cores = Json::array();
  for (const auto& core : system.cores) {
    cores.push_back({{"id", core.id}, {"class", core.core_class}, {"capacity", core.capacity}});
  }
  return {{"devices", devices}, {"cores", cores}};
}

Json to_json(const LoadReport& report) {
  return {{"metadata_ms", report.metadata_ms},
          {"ready_ms", report.ready_ms},
          {"first_token_ms", report.first_token_ms}};
}

void print_json(const Json& json) {
  const std::string line =
      json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

std::string human_bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (std::fabs(bytes) >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::uint64_t peak_rss_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != "VmHWM:") continue;
    std::uint64_t kib = 0;
    status >> kib;
    return kib * 1024;
  }
  return 0;
}

}  // namespace mzcache::tools
