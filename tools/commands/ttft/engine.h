// A model on its wiring, one context in it, and the policy of the moment: what a benchmark of
// restores drives. Synchronous; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands/ttft/missing.h"
#include "engine/evaluation_policy.h"
#include "engine/wiring.h"
#include "mzcache/config.h"

namespace mzcache::tools {

// One first token, and what the process spent on it.
struct FirstTokenRun {
  Answer answer;
  double cpu_ms = 0;         // of all threads
  double system_cpu_ms = 0;  // of that, in the kernel
  double compute_ms = 0;     // the device was busy
  // What it did, in its order: two stages of every layer, and the head.
  std::vector<std::pair<actors::Nanoseconds, actors::Nanoseconds>> stages;
  // The device stood still for a unit although the stage that had it was not at work (idle.h).
  double idle_ms = 0;
};

class TtftEngine {
 public:
  // Throws Exception.
  TtftEngine(const Config& config, const std::string& model_file);
  ~TtftEngine();
  TtftEngine(const TtftEngine&) = delete;
  TtftEngine& operator=(const TtftEngine&) = delete;

  [[nodiscard]] const Config& config() const noexcept { return config_; }
  [[nodiscard]] engine::Wiring& wiring() noexcept { return *wiring_; }
  [[nodiscard]] const actors::KvShape& shape() const noexcept { return shape_; }
  // What evictions are planned with.
  [[nodiscard]] engine::RestoreProfile plan_profile();
  [[nodiscard]] bool device_on_cores() const noexcept { return wiring_->device().cpu; }

  // The context: `tokens` positions, drawn like a real model's or computed from these tokens.
  // Everything is resident afterwards. Codecs that want a profile have one of what was drawn,
  // unless the model's own is kept.
  void plant(std::uint32_t tokens);
  void compute(std::vector<Token> tokens);
  // Calls for every chunk of the context, while nothing moves.
  void each_chunk(const std::function<void(const actors::ChunkView&)>& visit);
  // Its memory and copies are given up.
  void forget_context();

  // From the next eviction on. `separate_launches`: layers are launched as in a restore although
  // everything is resident.
  void use(const engine::EvaluationPolicy& policy, bool separate_launches = false);
  // Everything is resident before; nothing is kept of it elsewhere.
  [[nodiscard]] EvictReport evict_to(double remaining_percent);
  [[nodiscard]] Missing missing();
  // A question of so many tokens after the context, answered with one token; the context is as
  // before then, and everything it needs resident.
  [[nodiscard]] FirstTokenRun first_token(std::uint32_t prompt_tokens);
  RestoreReport restore_all();
  // What happened in the last first_token().
  void write_trace(const std::string& file);

 private:
  void arrange(const std::function<void(engine::EngineState&)>& change);
  void open_context(std::uint32_t tokens);
  [[nodiscard]] engine::GenerateResult generate(engine::GenerateRequest request);
  void roll_back();
  void give_codec_profile();

  Config config_;
  actors::Timeline timeline_;
  std::unique_ptr<engine::Wiring> wiring_;
  actors::KvShape shape_;
  std::vector<std::unique_ptr<engine::EvictionPlanner>> planners_;  // the last is in use
  std::uint32_t context_ = 0;
  std::uint32_t tokens_ = 0;
  std::uint64_t requests_ = 0;
};

}  // namespace mzcache::tools
