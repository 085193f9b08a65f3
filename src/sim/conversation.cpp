#include "sim/conversation.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <vector>

#include "sim/greedy.h"
#include "sim/sim_memory.h"

namespace mzcache::sim {
namespace {

using actors::Nanoseconds;

constexpr std::uint32_t kContext = 1;
constexpr std::uint32_t kContextTokens = 96;
constexpr std::uint64_t kEventsMax = 2'000'000;

class Conversation {
 public:
  Conversation(std::uint64_t seed, const ConversationOptions& options)
      : options_(options), random_(seed ^ 0xC0FFEE) {
    choose(seed);
  }

  ConversationResult run() {
    open();
    for (std::uint32_t i = 0; i < options_.requests; ++i) schedule_request();
    if (!settle("with faults")) return result_;
    calm();
    ask(7, 3, true);
    if (!settle("without faults")) return result_;
    shut_down();
    result_.trace_hash = world_->dispatcher().trace_hash();
    return result_;
  }

 private:
  [[nodiscard]] std::uint64_t pick(std::uint64_t low, std::uint64_t high) {
    return std::uniform_int_distribution<std::uint64_t>(low, high)(random_);
  }
  [[nodiscard]] bool coin(double probability) {
    return std::uniform_real_distribution<>(0, 1)(random_) < probability;
  }
  [[nodiscard]] double one_of(std::initializer_list<double> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(pick(0, values.size() - 1)));
  }

  void choose(std::uint64_t seed) {
    ModelOptions model;
    model.layers = static_cast<std::uint32_t>(pick(1, 4));
    model.layer_blocks = static_cast<std::uint32_t>(pick(1, 4));
    model.head_blocks = static_cast<std::uint32_t>(pick(1, 3));
    MachineOptions machine;
    machine.read_bytes_per_s = one_of({5e7, 1e9, 4e9});
    machine.write_bytes_per_s = one_of({2e7, 6e8, 2e9});
    machine.allocate_bytes_per_s = one_of({1e8, 2e10});
    machine.decode_bytes_per_s = one_of({5e7, 6e9});
    machine.encode_bytes_per_s = one_of({5e7, 3e9});
    machine.layer_time = Nanoseconds(static_cast<std::int64_t>(one_of({2e3, 5e4, 1e6})));
    machine.depth = static_cast<std::uint32_t>(pick(1, 8));
    machine.block_bytes = 4096 * pick(1, 3);
    if (options_.faults) {
      machine.read_error = coin(0.3) ? 0.05 : 0;
      machine.model_read_error = coin(0.2) ? 0.02 : 0;
      machine.write_error = coin(0.3) ? 0.1 : 0;
      machine.short_transfer = coin(0.5) ? 0.2 : 0;
      machine.busy = coin(0.5) ? 0.2 : 0;
      machine.no_space = coin(0.3) ? 0.3 : 0;
      machine.no_memory = coin(0.3) ? 0.03 : 0;
      machine.bit_flip = coin(0.3) ? 0.05 : 0;
    }
    engine::EngineOptions engine;
    engine.swap_file_max = coin(0.2) ? 4096 * pick(0, 20) : std::uint64_t{64} << 20;
    engine.swap_range_bytes = std::uint64_t{4} << 20;
    engine.memory_swap_max_percent = one_of({0, 30, 100});
    engine.restore_bytes_in_flight = 4096 * pick(1, 40);
    engine.restore_run_bytes = 4096 * pick(1, 8);
    engine.slice_tokens_max = 64;
    engine.memory_closed = coin(0.2);
    engine.allocate_first = coin(0.15);
    engine.compute_last = coin(0.15);
    engine.keep_compressed = coin(0.4) ? 4096 * pick(1, 40) : 0;
    // From numbers of their own: seeds keep what else they meant.
    std::mt19937_64 windows(seed ^ 0x51D3);
    if (windows() % 2 == 0) model.window = static_cast<std::uint32_t>(1 + windows() % 30);
    engine.free_out_of_window = windows() % 4 != 0;
    std::mt19937_64 stored(seed ^ 0x570ED);
    machine.storage_codec = stored() % 2 == 1;
    machine.stored_share = stored() % 3 == 0 ? 0.9 : 0.2;
    constexpr double kStoredRates[] = {5e7, 1e9, 2e10};
    machine.storage_decode_bytes_per_s = kStoredRates[stored() % std::size(kStoredRates)];
    machine.storage_encode_bytes_per_s = kStoredRates[stored() % std::size(kStoredRates)];
    if (options_.faults && stored() % 3 == 0) machine.encode_error = 0.2;
    std::mt19937_64 reading(seed ^ 0x1E4C0DED);
    engine.compressed_attention = reading() % 3 == 0;
    engine.resume_delay = Nanoseconds(static_cast<std::int64_t>(pick(0, 5'000'000)));
    const engine::WorkerCounts workers{static_cast<std::uint32_t>(pick(1, 3)),
                                       static_cast<std::uint32_t>(pick(1, 3)),
                                       static_cast<std::uint32_t>(pick(1, 3))};
    vocabulary_ = model.vocabulary;
    std::mt19937_64 policies(seed ^ 0x9071C1);
    engine::PlannerOptions policy;
    using Order = engine::EvictionOrder;
    if (policies() % 2 == 0) {
      constexpr Order kOthers[] = {Order::kForwardOut, Order::kRandomOut, Order::kOptimal};
      policy.order = kOthers[policies() % std::size(kOthers)];
      policy.seed = seed;
    }
    policy.recompute = policies() % 3 == 0;
    world_ = std::make_unique<World>(seed, model, machine, engine, workers, policy);
    constexpr double kPrefill[] = {1e3, 1e5, 1e9};  // tokens a second, as the policy believes
    world_->state().profile.prefill_tokens_per_s = kPrefill[policies() % std::size(kPrefill)];
  }

  template <class Request>
  void post(Request request) {
    world_->coordinator().post(std::move(request));
  }

  void fail(std::string what) {
    if (result_.failure.empty()) result_.failure = std::move(what);
  }

  // A request was made; the function to call when it is answered: exactly once.
  std::function<void()> expect_answer(const char* what) {
    ++open_;
    auto answered = std::make_shared<bool>(false);
    return [this, answered, what] {
      if (*answered) fail(std::string("answered twice: ") + what);
      *answered = true;
      --open_;
    };
  }

  void open() {
    auto answered = expect_answer("open");
    post(engine::OpenContext{kContext, kContextTokens, [this, answered](const Error& error) {
                               answered();
                               if (error.code != ErrorCode::kOk) fail("open: " + error.message());
                             }});
    world_->dispatcher().run_until_quiet(kEventsMax);
  }

  void schedule_request() {
    // Bursts and pauses: some requests meet an idle machine, some each other.
    last_ +=
        Nanoseconds(static_cast<std::int64_t>(coin(0.4) ? pick(0, 200'000) : pick(0, 20'000'000)));
    const std::uint64_t kind = pick(0, 99);
    world_->dispatcher().at(last_, [this, kind] {
      if (kind < 40) {
        ask(static_cast<std::uint32_t>(pick(1, 20)), static_cast<std::uint32_t>(pick(1, 8)), false);
      } else if (kind < 70) {
        evict();
      } else if (kind < 80) {
        restore();
      } else if (kind < 90) {
        post(engine::CancelRequest{next_id_ - pick(0, std::min<std::uint64_t>(next_id_, 3))});
      } else if (kind < 95) {
        status();
      } else {
        reset();
      }
    });
  }

  void ask(std::uint32_t prompt, std::uint32_t answer, bool must_succeed) {
    engine::GenerateRequest request;
    request.id = ++next_id_;
    request.context = kContext;
    for (std::uint32_t i = 0; i < prompt; ++i) {
      request.tokens.push_back(static_cast<Token>(pick(0, vocabulary_ - 1)));
    }
    request.source = std::make_shared<Greedy>(answer);
    request.slice_tokens = static_cast<std::uint32_t>(pick(1, 24));
    request.resume_after_evict = coin(0.3);
    request.accepted = world_->dispatcher().now();
    auto answered = expect_answer("generate");
    request.done = [this, answered, must_succeed,
                    tokens = request.tokens](const engine::GenerateResult& result) {
      answered();
      check_answer(tokens, result, must_succeed);
    };
    post(std::move(request));
  }

  void check_answer(const std::vector<Token>& prompt, const engine::GenerateResult& result,
                    bool must_succeed) {
    if (result.error.code == ErrorCode::kContextFull) {
      reset();
      if (must_succeed) ask(3, 2, true);
      return;
    }
    if (result.error.code != ErrorCode::kOk) ++result_.errors;
    if (must_succeed && (result.error.code != ErrorCode::kOk || result.answer.tokens.empty())) {
      fail("failed without faults: " + result.error.message());
    }
    if (result.answer.restore.recomputed) ++result_.recomputed;
    if (result.answer.tokens.empty()) return;  // the turn left no trace
    history_.insert(history_.end(), prompt.begin(), prompt.end());
    for (const Token token : result.answer.tokens) {
      const Token expected = world_->expected(history_);
      if (token != expected) {
        fail("token " + std::to_string(history_.size()) + " is " + std::to_string(token) +
             ", the model says " + std::to_string(expected));
      }
      history_.push_back(token);
      ++result_.generated;
    }
    if (result.answer.context_tokens != history_.size()) fail("the context has another length");
  }

  void evict() {
    engine::EvictRequest request;
    request.id = ++next_id_;
    request.accepted = world_->dispatcher().now();
    if (coin(0.5)) {
      request.percent = static_cast<double>(pick(0, 100));
    } else {
      request.bytes = pick(0, 40) * 4096;
    }
    if (coin(0.2)) request.deadline = Nanoseconds(static_cast<std::int64_t>(pick(1, 2'000'000)));
    auto answered = expect_answer("evict");
    request.done = [this, answered](const Error& error, const EvictReport& report) {
      answered();
      ++result_.evictions;
      result_.dropped += report.units.kv_dropped;
      if (shutting_down_ && error.code == ErrorCode::kCancelled) return;
      if (error.code != ErrorCode::kOk) return fail("evict: " + error.message());
      if (report.freed_bytes < report.requested_bytes && !report.all_there_is) {
        fail("evict freed less than asked and did not say so");
      }
    };
    post(std::move(request));
  }

  void restore() {
    engine::RestoreRequest request;
    request.id = ++next_id_;
    request.accepted = world_->dispatcher().now();
    if (coin(0.5)) request.bytes = 4096 * pick(1, 30);
    auto answered = expect_answer("restore");
    request.done = [this, answered](const Error& error, const RestoreReport&) {
      answered();
      if (error.code != ErrorCode::kOk) ++result_.errors;
    };
    post(std::move(request));
  }

  void status() {
    auto answered = expect_answer("status");
    post(engine::StatusRequest{[answered](const StatusReport&) { answered(); }});
  }

  void reset() {
    auto answered = expect_answer("reset");
    post(engine::ResetContext{kContext, [this, answered](const Error& error) {
                                answered();
                                if (error.code == ErrorCode::kOk) history_.clear();
                              }});
  }

  bool settle(const std::string& phase) {
    if (!world_->dispatcher().run_until_quiet(kEventsMax)) fail(phase + ": never quiet");
    if (open_ != 0) fail(phase + ": " + std::to_string(open_) + " requests were never answered");
    if (const std::string wrong = world_->check_quiet(); !wrong.empty()) {
      fail(phase + ": " + wrong);
    }
    return result_.failure.empty();
  }

  void calm() {
    MachineOptions& machine = world_->machine();
    machine.read_error = machine.model_read_error = machine.write_error = 0;
    machine.short_transfer = machine.busy = machine.no_space = 0;
    machine.no_memory = machine.bit_flip = machine.encode_error = 0;
  }

  // In the middle of whatever is going on.
  void shut_down() {
    shutting_down_ = true;
    ask(5, 6, false);
    evict();
    restore();
    bool done = false;
    world_->dispatcher().at(
        world_->dispatcher().now() + Nanoseconds(static_cast<std::int64_t>(pick(0, 2'000'000))),
        [this, &done] { post(engine::Shutdown{[&done] { done = true; }}); });
    if (!settle("shutdown")) return;
    if (!done) fail("shutdown never finished");
  }

  const ConversationOptions options_;
  std::mt19937_64 random_;
  std::unique_ptr<World> world_;
  std::uint32_t vocabulary_ = 0;
  std::vector<Token> history_;
  Nanoseconds last_{0};
  std::uint64_t next_id_ = 0;
  int open_ = 0;
  bool shutting_down_ = false;
  ConversationResult result_;
};

}  // namespace

ConversationResult run_conversation(std::uint64_t seed, const ConversationOptions& options) {
  return Conversation(seed, options).run();
}

}  // namespace mzcache::sim
