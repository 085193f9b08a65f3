// The shapes of real models, as published with their weights.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace mzcache::synth {

enum class ChatFamily : std::uint8_t { kChatMl, kLlama3, kGemma, kExaone };

struct Shape {
  std::string_view name;
  std::string_view architecture;  // general.architecture
  std::uint32_t layers;
  std::uint32_t hidden;
  std::uint32_t heads;
  std::uint32_t kv_heads;
  std::uint32_t head_dim;
  std::uint32_t feed_forward;
  std::uint32_t vocabulary;
  std::uint32_t context_length;
  float rope_base;
  float norm_epsilon;
  std::string_view splitter;  // tokenizer.ggml.pre
  ChatFamily chat;
  bool pre_norms = true;      // attn_norm, ffn_norm
  bool post_norms = false;    // post_attention_norm, post_ffw_norm
  bool head_norms = false;    // attn_q_norm, attn_k_norm
  bool rope_factors = false;  // rope_freqs.weight, Llama 3's scaling
  std::uint32_t window = 0;   // attention.sliding_window
  float attention_softcap = 0;
  float logit_softcap = 0;
};

[[nodiscard]] std::span<const Shape> shapes() noexcept;

}  // namespace mzcache::synth
