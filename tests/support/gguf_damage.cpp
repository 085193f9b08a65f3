#include "support/gguf_damage.h"

#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "support/gguf_builder.h"

namespace mzcache::test {
namespace {

using Says = std::vector<std::string>;
using Change = std::function<void(BuiltFile&)>;

constexpr std::uint64_t kHuge = std::uint64_t{1} << 63;
constexpr std::uint64_t kAll = ~std::uint64_t{0};

class Table {
 public:
  std::vector<DamagedFile> files;

  void damage(std::string name, Says says, const Change& change, bool parses = false) {
    BuiltFile file = tiny_llama();
    const std::uint64_t data_bytes = file.data_bytes;
    change(file);
    file.data_bytes = std::max(file.data_bytes, data_bytes);
    says.emplace_back("damaged.gguf");
    files.push_back({std::move(name), file.bytes(), std::move(says), parses});
  }
  void damage_model(std::string name, Says says, const Change& change) {
    damage(std::move(name), std::move(says), change, true);
  }
  void bytes(std::string name, std::string bytes, Says says) {
    says.emplace_back("damaged.gguf");
    files.push_back({std::move(name), std::move(bytes), std::move(says), false});
  }
};

void add_preamble(Table& table) {
  table.damage("magic", {"magic", "\"GGUX\"", "GGUF"}, [](auto& f) { f.magic = "GGUX"; });
  table.damage("magic of NULs", {"magic", "\\x00"}, [](auto& f) { f.magic.assign(4, '\0'); });
  for (const std::uint32_t version : {0U, 1U, 4U, 0xFFFFFFFFU}) {
    table.damage("version " + std::to_string(version),
                 {"version " + std::to_string(version), "2 and 3"},
                 [=](auto& f) { f.version = version; });
  }
  table.damage("big-endian", {"big-endian"}, [](auto& f) { f.version = 0x03000000; });
  for (const std::uint64_t count : {kHuge, kAll, std::uint64_t{1} << 32, std::uint64_t{100000}}) {
    table.damage("tensor count " + std::to_string(count),
                 {"tensor count " + std::to_string(count), "at most"},
                 [=](auto& f) { f.tensor_count = count; });
    table.damage("key count " + std::to_string(count),
                 {"key count " + std::to_string(count), "at most"},
                 [=](auto& f) { f.key_count = count; });
  }
  // One key more than there is: the first tensor's name is taken for a key, its fields for a value.
  table.damage("one key too many", {"tensor 0 of 20", "name of 135"},
               [](auto& f) { ++f.key_count; });
  table.damage("one key too few", {"tensor"}, [](auto& f) { --f.key_count; });
}

void add_truncations(Table& table) {
  const BuiltFile file = tiny_llama();
  const std::string whole = file.bytes();
  for (const std::size_t size : {0, 1, 3, 4, 7, 8, 15, 16, 23}) {
    table.bytes("cut at " + std::to_string(size), whole.substr(0, size),
                {"header", "past the end of the file (" + std::to_string(size) + " bytes)"});
  }
  // The counts are checked against what is left, so short files stop there.
  for (const std::size_t size : {24, 32, 64}) {
    table.bytes("cut at " + std::to_string(size), whole.substr(0, size), {"count", "at most"});
  }
  // Behind each key, and in the middle of each key and tensor entry.
  std::size_t at = 24;
  for (const auto& key : file.keys) {
    const std::size_t bytes = 8 + key.name.size() + 4 + key.value.size();
    for (const std::size_t cut : {at + 4, at + 8 + key.name.size() / 2, at + bytes - 1}) {
      if (cut < 21 * 33) continue;  // the tensor count says no first
      table.bytes("cut in key " + key.name + " at " + std::to_string(cut), whole.substr(0, cut),
                  {"key"});
    }
    at += bytes;
  }
  for (const auto& tensor : file.tensors) {
    const std::size_t bytes = 8 + tensor.name.size() + 4 + 8 * tensor.dimensions.size() + 12;
    table.bytes("cut in tensor " + tensor.name, whole.substr(0, at + bytes - 1),
                {"tensor \"", "the file"});
    at += bytes;
  }
  table.bytes("cut behind the header", whole.substr(0, at), {"tensor", "more than the file's"});
  table.bytes("cut in the data", whole.substr(0, whole.size() / 2), {"tensor", "data section"});
  table.bytes("last byte missing", whole.substr(0, whole.size() - 1),
              {"blk.1.ffn_down.weight", "data section"});
}

void add_keys(Table& table) {
  for (const std::uint32_t type : {13U, 99U, 0xFFFFFFFFU}) {
    table.damage("value type " + std::to_string(type),
                 {"general.name", "value type " + std::to_string(type), "0 to 12"},
                 [=](auto& f) { f.key("general.name").type = type; });
    table.damage("array element type " + std::to_string(type),
                 {"tokens", "array element type " + std::to_string(type)}, [=](auto& f) {
                   f.key("tokenizer.ggml.tokens").value = raw(type) + raw<std::uint64_t>(1);
                 });
  }
  table.damage("array of arrays", {"tokens", "array element type 9"}, [](auto& f) {
    f.key("tokenizer.ggml.tokens").value = raw<std::uint32_t>(9) + raw<std::uint64_t>(1);
  });
  for (const std::uint32_t type : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 10U, 11U, 12U}) {
    for (const std::uint64_t count : {kHuge, kAll}) {
      table.damage("array of " + std::to_string(count) + " of type " + std::to_string(type),
                   {"tokens", "array of " + std::to_string(count), "at most"},
                   [=](auto& f) { f.key("tokenizer.ggml.tokens").value = raw(type) + raw(count); });
    }
  }
  table.damage("u64 count whose bytes overflow", {"tokens", "at most"}, [](auto& f) {
    f.key("tokenizer.ggml.tokens").value = raw<std::uint32_t>(10) + raw((1ULL << 61) + 1);
  });
  for (const std::uint64_t length : {kHuge, kAll, std::uint64_t{1} << 40}) {
    table.damage("string of " + std::to_string(length) + " bytes",
                 {"general.name", std::to_string(length), "past the end"},
                 [=](auto& f) { f.key("general.name").value = raw(length) + "x"; });
  }
  table.damage("array string too long", {"tokens", "element 1 of 2", "past the end"}, [](auto& f) {
    f.key("tokenizer.ggml.tokens").value = raw<std::uint32_t>(8) + raw<std::uint64_t>(2) +
                                           raw_string("a") + raw(std::uint64_t{1} << 50);
  });
  table.damage("boolean 2", {"add_bos_token", "boolean 2"},
               [](auto& f) { f.key("tokenizer.ggml.add_bos_token").value = "\2"; });
  table.damage("boolean array 7", {"flags", "boolean 7"}, [](auto& f) {
    f.add("flags", 9, raw<std::uint32_t>(7) + raw<std::uint64_t>(2) + std::string("\1\7"));
  });
  table.damage("key twice", {"general.name", "twice"},
               [](auto& f) { f.add_string("general.name", "again"); });
  table.damage("empty key", {"name of 0 bytes"}, [](auto& f) { f.add_u32("", 1); });
  table.damage("key of 65536 bytes", {"name of 65536 bytes", "65535"},
               [](auto& f) { f.add_u32(std::string(65536, 'k'), 1); });
  table.damage("key with NUL", {"NUL", "a\\x00b"},
               [](auto& f) { f.add_u32(std::string("a\0b", 3), 1); });
}

void add_text(Table& table) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"lone continuation", "a\x80"},
      {"cut sequence", "a\xE2\x82"},
      {"overlong", "\xC0\xAF"},
      {"surrogate", "\xED\xA0\x80"},
      {"above U+10FFFF", "\xF4\x90\x80\x80"},
      {"byte FF", "\xFF"}};
  for (const auto& [name, text] : bad) {
    table.damage("key, " + name, {"not UTF-8"}, [&](auto& f) { f.add_u32("k" + text, 1); });
    table.damage("value, " + name, {"general.name", "not UTF-8"},
                 [&](auto& f) { f.key("general.name").value = raw_string(text); });
    table.damage("token, " + name, {"tokens", "not UTF-8", "element 1 of 2"}, [&](auto& f) {
      f.key("tokenizer.ggml.tokens").value = raw_string_array({"fine", text});
    });
    table.damage("tensor name, " + name, {"tensor 1", "not UTF-8"},
                 [&](auto& f) { f.tensor("output_norm.weight").name = "n" + text; });
  }
}

void add_alignment(Table& table) {
  for (const std::uint32_t value : {0U, 1U, 3U, 4U, 31U, 33U, 1U << 21, 1U << 31, 0xFFFFFFFFU}) {
    table.damage("alignment " + std::to_string(value),
                 {"general.alignment", "value " + std::to_string(value), "powers of two"},
                 [=](auto& f) { f.key("general.alignment").value = raw(value); });
  }
  table.damage("alignment 2^63", {"general.alignment", "powers of two"},
               [](auto& f) { f.key("general.alignment") = {"general.alignment", 10, raw(kHuge)}; });
  table.damage("alignment as text", {"general.alignment", "type"}, [](auto& f) {
    f.key("general.alignment") = {"general.alignment", 8, raw_string("32")};
  });
  table.damage("alignment negative", {"general.alignment", "type"}, [](auto& f) {
    f.key("general.alignment") = {"general.alignment", 5, raw<std::int32_t>(-32)};
  });
  table.damage("alignment larger than the tensors'", {"not a multiple of the alignment 4096"},
               [](auto& f) { f.key("general.alignment").value = raw<std::uint32_t>(4096); });
}

void add_tensors(Table& table) {
  const char* name = "output_norm.weight";
  const auto change = [&](std::string what, Says says, auto&& edit) {
    says.emplace_back("output_norm.weight");
    table.damage(std::move(what), std::move(says), [&](auto& f) { edit(f.tensor(name)); });
  };
  change("no dimensions", {"0 dimensions"}, [](auto& t) { t.dimensions.clear(); });
  change("5 dimensions", {"5 dimensions"}, [](auto& t) { t.dimensions = {64, 1, 1, 1, 1}; });
  change("1000 dimensions", {"1000 dimensions"}, [](auto& t) { t.dimensions.resize(1000, 1); });
  change("dimension 0", {"dimension 0 is 0"}, [](auto& t) { t.dimensions = {0}; });
  change("dimension 1 is 0", {"dimension 1 is 0"}, [](auto& t) { t.dimensions = {64, 0}; });
  change("dimension 2^63", {"more values"}, [](auto& t) { t.dimensions = {kHuge}; });
  change("dimensions overflow to 0", {"more values"},
         [](auto& t) { t.dimensions = {1ULL << 32, 1ULL << 32}; });
  change("dimensions overflow to 64", {"more values"},
         [](auto& t) { t.dimensions = {(1ULL << 32) + 1, 1ULL << 32, 64}; });
  change("bytes overflow", {"values"}, [](auto& t) { t.dimensions = {(1ULL << 62) + 16}; });
  change("larger than the file", {"blocks"}, [](auto& t) { t.dimensions = {64, 2000}; });
  change("larger than its room", {"data section"}, [](auto& t) { t.dimensions = {64, 1000}; });
  change("type 256", {"tensor type 256"}, [](auto& t) { t.type = 256; });
  change("type 2^32-1", {"tensor type 4294967295"}, [](auto& t) { t.type = ~0U; });
  change("row no multiple of the block", {"q6_k", "multiple of 256"}, [](auto& t) { t.type = 14; });
  change("row no multiple of 32", {"q4_0", "multiple of 32"},
         [](auto& t) { t = {t.name, {48}, 2, t.offset}; });
  change("offset 1", {"offset", "not a multiple of the alignment 32"}, [](auto& t) { ++t.offset; });
  change("offset past the file", {"data section"}, [](auto& t) { t.offset = 1ULL << 40; });
  change("offset 2^63", {"data section"}, [](auto& t) { t.offset = kHuge; });
  change("offset wraps", {"data section"}, [](auto& t) { t.offset = ~0ULL - 31; });
  change("unknown type past the file", {"data section"},
         [](auto& t) { t.type = 77, t.offset = 1ULL << 40; });
  change("overlap with the tensor before", {"overlaps", "token_embd.weight"},
         [](auto& t) { t.offset -= 32; });
  change("on top of the tensor before", {"overlaps"}, [](auto& t) { t.offset = 0; });
  table.damage("overlap with the tensor behind", {"overlaps", "output_norm.weight"},
               [](auto& f) { f.tensor("output_norm.weight").dimensions = {128}; });
  table.damage("tensor twice", {"blk.0.attn_norm.weight", "twice"},
               [](auto& f) { f.tensor("output_norm.weight").name = "blk.0.attn_norm.weight"; });
  table.damage("tensor name of 65 bytes", {"tensor 1", "name of 65 bytes", "1 to 64"},
               [](auto& f) { f.tensor("output_norm.weight").name = std::string(65, 'n'); });
  table.damage("empty tensor name", {"tensor 1", "name of 0 bytes"},
               [](auto& f) { f.tensor("output_norm.weight").name = ""; });
  table.damage("tensor name with NUL", {"NUL"}, [](auto& f) {
    f.tensor("output_norm.weight").name = std::string("output\0norm", 11);
  });
}

void add_model_sizes(Table& table) {
  const auto drop = [](BuiltFile& file, std::string_view name) {
    std::erase_if(file.keys, [&](const BuiltKey& key) { return key.name == name; });
    file.key_count = file.keys.size();
  };
  for (const char* key :
       {"general.architecture", "llama.block_count", "llama.embedding_length",
        "llama.feed_forward_length", "llama.context_length", "llama.attention.head_count"}) {
    table.damage_model(std::string("without ") + key, {key, "missing"},
                       [&](auto& f) { drop(f, key); });
  }
  for (const char* key : {"llama.block_count", "llama.embedding_length", "llama.context_length",
                          "llama.feed_forward_length", "llama.attention.head_count",
                          "llama.attention.head_count_kv"}) {
    table.damage_model(std::string(key) + " 0", {key, "value 0", "allowed"},
                       [&](auto& f) { f.key(key).value = raw<std::uint32_t>(0); });
    table.damage_model(std::string(key) + " 2^32-1", {key, "value 4294967295", "allowed"},
                       [&](auto& f) { f.key(key).value = raw(~std::uint32_t{0}); });
    table.damage_model(std::string(key) + " as text", {key, "string", "wanted"},
                       [&](auto& f) { f.key(key) = {key, 8, raw_string("2")}; });
    table.damage_model(std::string(key) + " negative", {key, "-2"},
                       [&](auto& f) { f.key(key) = {key, 5, raw<std::int32_t>(-2)}; });
  }
  table.damage_model("more layers than tensors", {"blk.2.attn_norm.weight", "missing"},
                     [](auto& f) { f.key("llama.block_count").value = raw<std::uint32_t>(4000); });
  table.damage_model("fewer layers than tensors", {"blk.1.", "not supported", "1 layers"},
                     [](auto& f) { f.key("llama.block_count").value = raw<std::uint32_t>(1); });
  table.damage_model("heads do not divide", {"key_length", "3 heads"}, [](auto& f) {
    f.key("llama.attention.head_count").value = raw<std::uint32_t>(3);
  });
  table.damage_model("KV heads do not divide", {"head_count_kv", "does not divide"}, [](auto& f) {
    f.key("llama.attention.head_count_kv").value = raw<std::uint32_t>(3);
  });
  table.damage_model("value_length differs", {"value_length", "supported"},
                     [](auto& f) { f.add_u32("llama.attention.value_length", 32); });
  for (const float value : {0.0F, -1.0F, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    table.damage_model("epsilon " + std::to_string(value), {"epsilon", "allowed"}, [=](auto& f) {
      f.key("llama.attention.layer_norm_rms_epsilon").value = raw(value);
    });
    table.damage_model("rope base " + std::to_string(value), {"freq_base", "allowed"},
                       [=](auto& f) { f.key("llama.rope.freq_base").value = raw(value); });
  }
  for (const std::uint32_t value : {0U, 7U, 18U, 4000U}) {
    table.damage_model("rope dimensions " + std::to_string(value),
                       {"dimension_count", std::to_string(value), "allowed"},
                       [=](auto& f) { f.add_u32("llama.rope.dimension_count", value); });
  }
}

void add_model_features(Table& table) {
  for (const char* name : {"qwen4", "gemma", "", "LLAMA", "llama\xE2\x82\xAC"}) {
    table.damage_model("architecture " + std::string(name),
                       {"architecture", "supported: llama qwen2"},
                       [&](auto& f) { f.key("general.architecture").value = raw_string(name); });
  }
  for (const char* name : {"longrope", "dynamic", ""}) {
    table.damage_model("rope scaling " + std::string(name),
                       {"rope.scaling.type", "supported: linear none yarn"},
                       [&](auto& f) { f.add_string("llama.rope.scaling.type", name); });
  }
  for (const char* key : {"rope.scale_linear", "rope.scaling.factor", "rope.scaling.attn_factor",
                          "rope.scaling.yarn_beta_fast"}) {
    table.damage_model(std::string(key) + " below 0", {key, "allowed"}, [&](auto& f) {
      f.add_string("llama.rope.scaling.type", "yarn");
      f.add_f32("llama." + std::string(key), -2.0F);
    });
  }
  table.damage_model("original context of 0", {"original_context_length", "allowed"},
                     [](auto& f) { f.add_u32("llama.rope.scaling.original_context_length", 0); });
  table.damage_model("a huge window", {"attention.sliding_window", "allowed"},
                     [](auto& f) { f.add_u32("llama.attention.sliding_window", 0xFFFFFFFF); });
  table.damage_model("a window pattern of too few layers", {"sliding_window_pattern", "layers (2)"},
                     [](auto& f) {
                       f.add_u32("llama.attention.sliding_window", 64);
                       f.add("llama.attention.sliding_window_pattern", 9,
                             raw<std::uint32_t>(7) + raw<std::uint64_t>(1) + std::string(1, '\1'));
                     });
  table.damage_model("soft-caps", {"attn_logit_softcapping", "not supported"},
                     [](auto& f) { f.add_f32("llama.attn_logit_softcapping", 50.0F); });
  table.damage_model("experts", {"expert_count", "not supported"},
                     [](auto& f) { f.add_u32("llama.expert_count", 8); });
  table.damage_model("chat template is a number", {"chat_template", "wanted string"},
                     [](auto& f) { f.add_u32("tokenizer.chat_template", 8); });
  for (const auto& tensor : tiny_llama().tensors) {
    table.damage_model(
        "without " + tensor.name, {tensor.name, "missing", "ffn_down"}, [&](auto& f) {
          std::erase_if(f.tensors, [&](const BuiltTensor& t) { return t.name == tensor.name; });
          f.tensor_count = f.tensors.size();
        });
    // I64 is a type of the format, twice as large: placed behind everything else.
    table.damage_model(tensor.name + " as i64", {tensor.name, "i64", "supported"}, [&](auto& f) {
      auto& one = f.tensor(tensor.name);
      one.type = 27;
      one.offset = f.data_bytes;
      f.data_bytes += 8ULL * 96 * 96;
    });
    table.damage_model(tensor.name + " of unknown type", {tensor.name, "type 77", "supported"},
                       [&](auto& f) { f.tensor(tensor.name).type = 77; });
    table.damage_model(tensor.name + " mis-shaped", {tensor.name, "shape", "[32"},
                       [&](auto& f) { f.tensor(tensor.name).dimensions[0] = 32; });
  }
  table.damage_model("a norm in f16", {"output_norm.weight", "f16", "supported: f32"},
                     [](auto& f) { f.tensor("output_norm.weight").type = 1; });
  table.damage_model("a bias", {"blk.0.attn_output.bias", "not supported"},
                     [](auto& f) { f.add_f32_tensor("blk.0.attn_output.bias", {64}); });
  table.damage_model("a bias mis-shaped", {"blk.0.attn_q.bias", "[32", "[64]"},
                     [](auto& f) { f.add_f32_tensor("blk.0.attn_q.bias", {32}); });
  table.damage_model("rope_freqs of the wrong size", {"rope_freqs.weight", "shape"},
                     [](auto& f) { f.add_f32_tensor("rope_freqs.weight", {9}); });
  table.damage_model("no tensors", {"no tensors"}, [](auto& f) {
    f.tensors.clear();
    f.tensor_count = 0;
  });
}

}  // namespace

std::vector<DamagedFile> damaged_files() {
  Table table;
  add_preamble(table);
  add_truncations(table);
  add_keys(table);
  add_text(table);
  add_alignment(table);
  add_tensors(table);
  add_model_sizes(table);
  add_model_features(table);
  return std::move(table.files);
}

}  // namespace mzcache::test
