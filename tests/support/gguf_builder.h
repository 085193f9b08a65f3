// Builds small GGUF files in memory, field by field, so that a test can damage exactly one of them.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace mzcache::test {

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}
inline std::string raw_string(std::string_view text) {
  return raw<std::uint64_t>(text.size()) + std::string(text);
}

struct BuiltKey {
  std::string name;
  std::uint32_t type = 4;
  std::string value;  // as in the file, after the type
};
struct BuiltTensor {
  std::string name;
  std::vector<std::uint64_t> dimensions;
  std::uint32_t type = 0;
  std::uint64_t offset = 0;  // in the data section
};

struct BuiltFile {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::uint64_t tensor_count = 0;
  std::uint64_t key_count = 0;
  std::vector<BuiltKey> keys;
  std::vector<BuiltTensor> tensors;
  std::uint64_t alignment = 32;
  std::uint64_t data_bytes = 0;

  void add_u32(std::string name, std::uint32_t value) { add(std::move(name), 4, raw(value)); }
  void add_f32(std::string name, float value) { add(std::move(name), 6, raw(value)); }
  void add_string(std::string name, std::string_view value) {
    add(std::move(name), 8, raw_string(value));
  }
  void add(std::string name, std::uint32_t type, std::string value) {
    keys.push_back({std::move(name), type, std::move(value)});
    key_count = keys.size();
  }
  void add_f32_tensor(std::string name, std::vector<std::uint64_t> dimensions) {
    std::uint64_t bytes = 4;
    for (const auto size : dimensions) bytes *= size;
    tensors.push_back({std::move(name), std::move(dimensions), 0, data_bytes});
    data_bytes += (bytes + alignment - 1) / alignment * alignment;
    tensor_count = tensors.size();
  }
  BuiltKey& key(std::string_view name) {
    for (auto& one : keys) {
      if (one.name == name) return one;
    }
    return keys.at(keys.size());  // throws: a mistake in the test
  }
  BuiltTensor& tensor(std::string_view name) {
    for (auto& one : tensors) {
      if (one.name == name) return one;
    }
    return tensors.at(tensors.size());
  }

  [[nodiscard]] std::string header() const {
    std::string out = magic + raw(version) + raw(tensor_count) + raw(key_count);
    for (const auto& one : keys) out += raw_string(one.name) + raw(one.type) + one.value;
    for (const auto& one : tensors) {
      out += raw_string(one.name) + raw(static_cast<std::uint32_t>(one.dimensions.size()));
      for (const auto size : one.dimensions) out += raw(size);
      out += raw(one.type) + raw(one.offset);
    }
    return out;
  }
  // Header, padding and data (small floats, not all alike).
  [[nodiscard]] std::string bytes() const {
    std::string out = header();
    out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
    for (std::uint64_t i = 0; i < data_bytes / 4; ++i) {
      out += raw(0.5F + static_cast<float>(i % 7) / 16.0F);
    }
    return out;
  }
};

inline std::string raw_string_array(const std::vector<std::string>& texts) {
  std::string out = raw<std::uint32_t>(8) + raw<std::uint64_t>(texts.size());
  for (const auto& text : texts) out += raw_string(text);
  return out;
}

// A whole model of architecture llama: 2 layers, hidden 64, 4 heads over 2 KV heads of 16, 48
// tokens, F32. With `tied` the output head is the embedding.
inline BuiltFile tiny_llama(bool tied = true) {
  BuiltFile file;
  file.add_string("general.architecture", "llama");
  file.add_string("general.name", "tiny");
  file.add_u32("general.alignment", 32);
  file.add_u32("llama.block_count", 2);
  file.add_u32("llama.context_length", 512);
  file.add_u32("llama.embedding_length", 64);
  file.add_u32("llama.feed_forward_length", 96);
  file.add_u32("llama.attention.head_count", 4);
  file.add_u32("llama.attention.head_count_kv", 2);
  file.add_f32("llama.attention.layer_norm_rms_epsilon", 1e-6F);
  file.add_f32("llama.rope.freq_base", 5000.0F);
  file.add_string("tokenizer.ggml.model", "gpt2");
  std::vector<std::string> tokens;
  for (int i = 0; i < 48; ++i) tokens.push_back("t" + std::to_string(i));
  file.add("tokenizer.ggml.tokens", 9, raw_string_array(tokens));
  std::string types = raw<std::uint32_t>(5) + raw<std::uint64_t>(48);
  for (int i = 0; i < 48; ++i) types += raw<std::int32_t>(1);
  file.add("tokenizer.ggml.token_type", 9, types);
  file.add("tokenizer.ggml.add_bos_token", 7, std::string(1, '\1'));

  file.add_f32_tensor("token_embd.weight", {64, 48});
  file.add_f32_tensor("output_norm.weight", {64});
  if (!tied) file.add_f32_tensor("output.weight", {64, 48});
  for (int layer = 0; layer < 2; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    file.add_f32_tensor(prefix + "attn_norm.weight", {64});
    file.add_f32_tensor(prefix + "attn_q.weight", {64, 64});
    file.add_f32_tensor(prefix + "attn_k.weight", {64, 32});
    file.add_f32_tensor(prefix + "attn_v.weight", {64, 32});
    file.add_f32_tensor(prefix + "attn_output.weight", {64, 64});
    file.add_f32_tensor(prefix + "ffn_norm.weight", {64});
    file.add_f32_tensor(prefix + "ffn_gate.weight", {64, 96});
    file.add_f32_tensor(prefix + "ffn_up.weight", {64, 96});
    file.add_f32_tensor(prefix + "ffn_down.weight", {96, 64});
  }
  return file;
}

}  // namespace mzcache::test
