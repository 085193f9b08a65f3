#include "engine/coordinator.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

namespace mzcache::engine {
namespace {

using actors::UnitId;
using actors::UnitKind;

// Times a context is computed again from its tokens within one turn before the turn fails.
constexpr std::uint32_t kStartOversMax = 2;

Error cancelled() { return {ErrorCode::kCancelled, 0, "cancelled", ""}; }

// Its CancelRequest came first.
template <class Request>
bool already_cancelled(const Request& request) {
  return request.cancelled != nullptr && request.cancelled->load();
}

}  // namespace

Coordinator::Coordinator(EngineState& state)
    : state_(state), restoring_(state), evicting_(state), generating_(state) {}

// ------------------------------------------------------------------ requests

void Coordinator::on(OpenContext&& request) noexcept {
  const std::uint32_t chunk_tokens = state_.chunk_tokens();
  const std::uint32_t chunks = (request.tokens_max + chunk_tokens - 1) / chunk_tokens;
  Result<void> opened = state_.memory.open_context(request.context, chunks);
  if (opened) state_.cache.open(request.context, request.tokens_max);
  request.done(opened ? Error{} : opened.error());
}

void Coordinator::on(ResetContext&& request) noexcept {
  if (closed_) return request.done(cancelled());
  queue_.emplace_back(std::move(request));
  step();
}

void Coordinator::on(ArrangeRequest&& request) noexcept {
  if (closed_) return request.done();
  queue_.emplace_back(std::move(request));
  step();
}

void Coordinator::on(GenerateRequest&& request) noexcept {
  if (closed_ || already_cancelled(request)) return refuse(std::move(request));
  queue_.emplace_back(std::move(request));
  step();
}

void Coordinator::on(RestoreRequest&& request) noexcept {
  if (closed_ || already_cancelled(request)) return refuse(std::move(request));
  queue_.emplace_back(std::move(request));
  step();
}

void Coordinator::on(EvictRequest&& request) noexcept {
  if (closed_) return request.done(cancelled(), {});
  evicts_.push_back(std::move(request));
  if (activity_ == Activity::kGenerating || activity_ == Activity::kRestoring) {
    interrupt(Interrupt::kEvict);
  }
  step();
}

void Coordinator::on(StatusRequest&& request) noexcept {
  StatusReport report = state_.residency.totals();
  report.activity = activity_name();
  report.process_bytes = state_.memory.process_bytes();
  report.scratch_bytes = generating_.scratch_bytes();
  for (const auto& [id, context] : state_.cache.contexts()) {
    report.context_tokens += static_cast<std::uint32_t>(context.tokens.size());
  }
  request.done(std::move(report));
}

void Coordinator::on(CancelRequest&& request) noexcept {
  const auto same = [&](const Queued& queued) {
    if (const auto* generate = std::get_if<GenerateRequest>(&queued)) {
      return generate->id == request.id;
    }
    if (const auto* turn = std::get_if<Turn>(&queued)) return turn->request.id == request.id;
    const auto* restore = std::get_if<RestoreRequest>(&queued);
    return restore != nullptr && restore->id == request.id;
  };
  if (const auto found = std::find_if(queue_.begin(), queue_.end(), same); found != queue_.end()) {
    Queued queued = std::move(*found);
    queue_.erase(found);
    refuse(std::move(queued));
    return step();
  }
  if (paused_ && paused_->request.id == request.id) {
    ending_.push_back(std::move(*std::exchange(paused_, std::nullopt)));
    return step();
  }
  if ((generating_.running() && generating_.turn().request.id == request.id) ||
      (restore_ && restore_->id == request.id)) {
    interrupt(Interrupt::kCancelled);
    step();
  }
}

void Coordinator::on(Shutdown&& request) noexcept {
  closed_ = true;
  shutdown_ = std::move(request);
  refuse_queued();
  if (activity_ == Activity::kGenerating || activity_ == Activity::kRestoring) {
    interrupt(Interrupt::kCancelled);
  }
  step();
}

// Answers a request that never had the word.
void Coordinator::refuse(Queued&& queued) {
  if (auto* generate = std::get_if<GenerateRequest>(&queued)) {
    GenerateResult result;
    result.answer.stop = StopReason::kCancelled;
    result.error = cancelled();
    generate->done(std::move(result));
  } else if (auto* turn = std::get_if<Turn>(&queued)) {
    ending_.push_back(std::move(*turn));
  } else if (auto* restore = std::get_if<RestoreRequest>(&queued)) {
    restore->done(cancelled(), {});
  } else if (auto* reset = std::get_if<ResetContext>(&queued)) {
    reset->done(cancelled());
  } else {
    std::get<ArrangeRequest>(queued).done();
  }
}

void Coordinator::refuse_queued() {
  for (Queued& queued : std::exchange(queue_, {})) refuse(std::move(queued));
  if (paused_) ending_.push_back(std::move(*std::exchange(paused_, std::nullopt)));
  for (EvictRequest& evict : std::exchange(evicts_, {})) evict.done(cancelled(), {});
}

// ------------------------------------------------------------------ who has the word

bool Coordinator::quiet() const noexcept {
  return generating_.quiet() && restoring_.quiet() && state_.releases_pending == 0;
}

void Coordinator::interrupt(Interrupt why) {
  if (why > interrupt_) interrupt_ = why;
  restoring_.stop();
  generating_.stop();
}

void Coordinator::step() {
  for (;;) {
    check();
    if (interrupt_ != Interrupt::kNone) {
      if (!quiet()) return;
      handle_interrupt();
      continue;
    }
    if (activity_ == Activity::kEvicting) {
      if (!evicting_.advance()) return;
      activity_ = Activity::kIdle;
      EvictRequest done = std::move(*evict_);
      evict_.reset();
      done.done({}, evicting_.report());
      continue;
    }
    if (activity_ == Activity::kRestoring) {
      if (!restoring_.idle()) return;
      finish_restore({}, restore_detail_);
      continue;
    }
    if (activity_ != Activity::kIdle || state_.releases_pending > 0) return;
    if (!ending_.empty()) {
      end_next_paused();
      continue;
    }
    if (shutdown_) {
      std::exchange(shutdown_, std::nullopt)->done();
      return;
    }
    if (!start_next()) return;
  }
}

bool Coordinator::start_next() {
  if (!evicts_.empty()) {
    EvictRequest request = std::move(evicts_.front());
    evicts_.pop_front();
    start(std::move(request));
    return true;
  }
  // What comes after a paused turn waits for it, except a Restore, which prepares it.
  const auto next = std::find_if(queue_.begin(), queue_.end(), [this](const Queued& queued) {
    return !paused_ || std::holds_alternative<RestoreRequest>(queued);
  });
  if (next == queue_.end()) return false;
  Queued request = std::move(*next);
  queue_.erase(next);
  std::visit([this](auto&& queued) { start(std::forward<decltype(queued)>(queued)); },
             std::move(request));
  return true;
}

void Coordinator::start(EvictRequest&& request) {
  std::uint64_t bytes = request.bytes;
  if (request.percent >= 0) {
    bytes = static_cast<std::uint64_t>(static_cast<double>(state_.residency.footprint_bytes()) *
                                       request.percent / 100.0);
  }
  activity_ = Activity::kEvicting;
  evict_ = std::move(request);
  evicting_.begin(bytes, evict_->accepted, evict_->deadline);
}

void Coordinator::start(RestoreRequest&& request) {
  restore_ = std::move(request);
  activity_ = Activity::kRestoring;
  restore_detail_.clear();
  restoring_.begin_report();
  restore_missing();
}

void Coordinator::restore_missing() {
  lost_ = restoring_.want(std::nullopt);
  if (lost_) return interrupt(Interrupt::kLost);
  if (restore_->bytes > 0) restoring_.limit(restore_->bytes);
  restoring_.pump();
}

void Coordinator::start(ResetContext&& request) {
  Context* context = state_.cache.find(request.context);
  if (context == nullptr) {
    return request.done(
        {ErrorCode::kNotFound, 0, "reset", "session " + std::to_string(request.context)});
  }
  state_.lose_kv(*context);
  context->tokens.clear();
  request.done({});
}

void Coordinator::start(ArrangeRequest&& request) {
  request.arrange(state_);
  request.done();
}

void Coordinator::start(GenerateRequest&& request) {
  auto done = request.done;
  if (Error error = generating_.begin(std::move(request)); error.code != ErrorCode::kOk) {
    GenerateResult result;
    result.error = std::move(error);
    return done(std::move(result));
  }
  activity_ = Activity::kGenerating;
  restoring_.begin_report();
  compute_slice();
}

void Coordinator::start(Turn&& turn) {
  generating_.resume(std::move(turn));
  activity_ = Activity::kGenerating;
  restoring_.begin_report();
  compute_slice();
}

void Coordinator::compute_slice() {
  generating_.next_slice();
  lost_ = restoring_.want(generating_.context());
  if (lost_) return interrupt(Interrupt::kLost);
  restoring_.pump();
  send_slice_when_ready();
}

// The device starts at once with what is there, unless nothing may overlap with it.
void Coordinator::send_slice_when_ready() {
  if (!generating_.slice_waits() || !generating_.rows_ready()) return;
  if (state_.options.compute_last && !restoring_.idle()) return;
  generating_.send_slice();
}

// ------------------------------------------------------------------ when work must end

void Coordinator::handle_interrupt() {
  const Interrupt why = std::exchange(interrupt_, Interrupt::kNone);
  Error failure = std::exchange(failure_, {});
  if (lost_) recompute_lost();
  switch (why) {
    case Interrupt::kNone:
      return;
    case Interrupt::kLost:
      if (activity_ == Activity::kRestoring) {
        // The rest still comes back; this context is computed again when it is needed.
        restore_detail_ = "a context will be computed again: " + failure.message();
        return restore_missing();
      }
      if (generating_.turn().start_overs >= kStartOversMax) {
        return finish_generate(StopReason::kCancelled, std::move(failure));
      }
      generating_.start_over();
      return compute_slice();
    case Interrupt::kFailed:
      if (activity_ == Activity::kRestoring) return finish_restore(std::move(failure), "");
      return finish_generate(StopReason::kCancelled, std::move(failure));
    case Interrupt::kEvict:
      if (activity_ == Activity::kRestoring) return finish_restore({}, "evicted");
      if (generating_.turn().request.resume_after_evict && state_.timer != nullptr) {
        return pause_generate();
      }
      return finish_generate(StopReason::kEvicted, {});
    case Interrupt::kCancelled:
      if (activity_ == Activity::kRestoring) return finish_restore(cancelled(), "");
      return finish_generate(StopReason::kCancelled, {});
  }
}

// The turn goes on after a while, before anything that was asked later.
void Coordinator::pause_generate() {
  paused_ = generating_.pause();
  activity_ = Activity::kIdle;
  const actors::Port<ResumePaused> self = self_;
  state_.timer->after(state_.options.resume_delay,
                      [self, id = paused_->request.id] { self.send(ResumePaused{id}); });
}

void Coordinator::on(ResumePaused&& message) noexcept {
  if (!paused_ || paused_->request.id != message.id) return;
  queue_.emplace_front(std::move(*paused_));
  paused_.reset();
  step();
}

// A paused turn ends as it is, once nothing moves (it may give chunks back).
void Coordinator::end_next_paused() {
  generating_.resume(std::move(ending_.front()));
  ending_.pop_front();
  finish_generate(StopReason::kCancelled, {});
}

void Coordinator::recompute_lost() {
  if (Context* context = state_.cache.find(*lost_)) state_.lose_kv(*context);
  lost_.reset();
}

void Coordinator::finish_generate(StopReason reason, Error error) {
  auto done = generating_.turn().request.done;
  RestoreReport restore = restoring_.report();
  state_.learn(restore);
  restore.wait_ms = generating_.turn().wait_ms;
  restore.recomputed = generating_.turn().recomputed;
  const actors::Nanoseconds first_token = generating_.turn().first_token;
  GenerateResult result = generating_.finish(reason, std::move(error));
  result.answer.restore = restore;
  activity_ = Activity::kIdle;
  if (!result.answer.tokens.empty() && first_token_.count() == 0) {
    first_token_ = first_token;
  }
  done(std::move(result));
}

void Coordinator::finish_restore(Error error, const std::string& detail) {
  RestoreRequest request = std::move(*restore_);
  restore_.reset();
  activity_ = Activity::kIdle;
  if (!request.keep_copies) state_.residency.drop_copies();
  RestoreReport report = restoring_.report();
  state_.learn(report);
  report.detail = error.code == ErrorCode::kOk ? detail : error.message();
  request.done(std::move(error), std::move(report));
}

// ------------------------------------------------------------------ restore

void Coordinator::on(actors::UnitsAllocated&& message) noexcept {
  restoring_.on(message);
  if (message.error.code != ErrorCode::kOk) {
    failure_ = message.error;
    interrupt(Interrupt::kFailed);
  } else if (interrupt_ == Interrupt::kNone && generating_.running()) {
    // Fresh chunks are ready with their memory where all of it comes first.
    for (std::uint32_t layer = 0; state_.options.allocate_first && layer < state_.model.layers;
         ++layer) {
      generating_.part_ready(layer, actors::LayerPart::kKv);
    }
    send_slice_when_ready();
  }
  step();
}

void Coordinator::on(actors::UnitReady&& message) noexcept {
  restoring_.on(message);
  if (interrupt_ == Interrupt::kNone) {
    generating_.part_ready(message.unit.layer, message.unit.kind == UnitKind::kKv
                                                   ? actors::LayerPart::kKv
                                                   : actors::LayerPart::kWeights);
    restoring_.pump();
    if (generating_.running()) send_slice_when_ready();
  }
  if (restoring_.idle() && first_ready_.count() == 0) first_ready_ = state_.clock.now();
  step();
}

void Coordinator::on(actors::UnitFailed&& message) noexcept {
  restoring_.on(message);
  failure_ = message.error;
  if (message.unit.kind == UnitKind::kKv) {
    lost_ = message.unit.context;
    interrupt(Interrupt::kLost);
  } else {
    interrupt(Interrupt::kFailed);
  }
  step();
}

void Coordinator::on(actors::RowsRead&& message) noexcept {
  generating_.on(message);
  if (generating_.rows_error().code != ErrorCode::kOk && generating_.running()) {
    failure_ = generating_.rows_error();
    interrupt(Interrupt::kFailed);
  } else if (interrupt_ == Interrupt::kNone && generating_.running()) {
    send_slice_when_ready();
  }
  step();
}

void Coordinator::on(actors::LayerComputed&& message) noexcept {
  restoring_.computed(message.begin, message.end);
}

void Coordinator::on(actors::TokenReady&& message) noexcept {
  if (message.error.code != ErrorCode::kOk) {
    generating_.slice_stopped(message);
    failure_ = message.error;
    interrupt(Interrupt::kFailed);
  } else if (message.stopped) {
    generating_.slice_stopped(message);
  } else if (const bool more = generating_.slice_done(message); interrupt_ != Interrupt::kNone) {
    // Counted, and no further: unless it was the turn's last slice.
    if (!more && interrupt_ == Interrupt::kEvict && restoring_.quiet()) {
      interrupt_ = Interrupt::kNone;
      finish_generate(generating_.turn().reason, {});
    }
  } else if (more) {
    compute_slice();
  } else {
    finish_generate(generating_.turn().reason, {});
  }
  step();
}

// ------------------------------------------------------------------ evict

void Coordinator::on(actors::ChunkCompressed&& message) noexcept {
  evicting_.on(message);
  step();
}

void Coordinator::on(actors::ChunkWritten&& message) noexcept {
  evicting_.on(message);
  step();
}

void Coordinator::on(actors::ScratchReleased&& message) noexcept {
  evicting_.on(message);
  step();
}

void Coordinator::on(actors::UnitsReleased&& message) noexcept {
  --state_.releases_pending;
  for (const UnitId unit : message.units) {
    UnitRecord* record = state_.residency.find(unit);
    if (record == nullptr) continue;  // trimmed meanwhile
    record->moving = false;
    state_.residency.set_resident(unit, false);
  }
  step();
}

const char* Coordinator::activity_name() const noexcept {
  switch (activity_) {
    case Activity::kIdle:
      return "idle";
    case Activity::kGenerating:
      return restoring_.idle() ? "generating" : "restoring and generating";
    case Activity::kRestoring:
      return "restoring";
    case Activity::kEvicting:
      return "evicting";
  }
  return "";
}

void Coordinator::check() const noexcept {
#ifndef NDEBUG
  assert(activity_ == Activity::kGenerating || !generating_.computing());
  assert(activity_ != Activity::kEvicting || restoring_.quiet());
  std::uint64_t resident = 0;
  state_.residency.for_each([&](UnitId unit, const UnitRecord& record) {
    if (record.resident) resident += state_.residency.unit_bytes(unit);
  });
  assert(resident == state_.residency.resident_bytes());
#endif
}

}  // namespace mzcache::engine
