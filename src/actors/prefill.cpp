#include "actors/prefill.h"

#include <algorithm>

namespace mzcache::actors {
namespace {

// Stages the device may hold beyond the one it works on: two layers. More gains nothing and makes a
// stop wait.
constexpr std::uint32_t kStagesAhead = 4;

}  // namespace

Prefill::Prefill(ComputeQueue& queue, const Clock& clock, Timeline& timeline)
    : queue_(queue),
      clock_(clock),
      timeline_(timeline),
      device_track_(timeline.add_track("device")) {}

void Prefill::connect(Ports ports, Port<StageComputed> self) {
  ports_ = ports;
  queue_.set_listener(
      [self](const ComputeCompletion& completion) { self.send(StageComputed{completion}); });
}

std::uint32_t Prefill::stages_total() const noexcept {
  return work_.layers * 2 + (work_.slice.logit_rows.empty() ? 0 : 1);
}

bool Prefill::stage_ready(std::uint32_t stage) const noexcept {
  const std::uint32_t layer = stage / 2;
  if (stage % 2 == 0) return work_.weights_ready[layer];  // the head's entry is the last
  return work_.kv_ready[layer];
}

void Prefill::on(ComputeTokens&& message) noexcept {
  work_ = std::move(message);
  enqueued_ = completed_ = 0;
  early_.clear();
  error_ = {};
  stopped_ = false;
  starved_.assign(stages_total(), false);
  compute_ = wait_ = Nanoseconds{0};
  accepted_ = first_begin_ = last_end_ = clock_.now();
  state_ = State::kComputing;
  const auto all = [](const std::vector<bool>& ready) {
    return std::find(ready.begin(), ready.end(), false) == ready.end();
  };
  work_.slice.undisturbed =
      work_.slice.undisturbed && all(work_.weights_ready) && all(work_.kv_ready);
  if (Result<void> begun = queue_.begin_slice(work_.slice); !begun) {
    fail(begun.error());
    return;
  }
  enqueue_more();
}

void Prefill::on(LayerReady&& message) noexcept {
  if (message.request != work_.request || state_ != State::kComputing) return;
  auto& ready = message.part == LayerPart::kWeights ? work_.weights_ready : work_.kv_ready;
  ready[message.layer] = true;
  enqueue_more();
}

void Prefill::on(StopCompute&& message) noexcept {
  if (message.request != work_.request || state_ == State::kIdle) return;
  stopped_ = true;
  state_ = State::kDraining;
  queue_.request_stop();
  finish_if_drained();
}

void Prefill::on(ReleaseScratch&&) noexcept {
  if (state_ == State::kIdle) queue_.release_scratch();
  ports_.scratch_released.send({});
}

bool Prefill::enqueue_next() noexcept {
  const std::uint32_t stage = enqueued_;
  if (stage >= stages_total()) return false;
  // A whole slice takes a stop all the same.
  if (!queue_.takes_whole_slice() && stage - completed_ >= kStagesAhead) return false;
  if (!stage_ready(stage)) {
    starved_[stage] = true;
    return false;
  }
  const std::uint64_t ticket = stage + 1;
  Result<void> queued =
      stage == work_.layers * 2
          ? queue_.enqueue_head(ticket)
          : queue_.enqueue_layer(
                stage / 2, stage % 2 == 0 ? LayerStage::kProject : LayerStage::kAttend, ticket);
  if (!queued) {
    fail(queued.error());
    return false;
  }
  ++enqueued_;
  return true;
}

void Prefill::enqueue_more() noexcept {
  if (state_ != State::kComputing) return;
  const std::uint32_t before = enqueued_;
  while (enqueue_next()) {
  }
  if (enqueued_ != before) queue_.flush();
  if (state_ == State::kDraining) finish_if_drained();
}

void Prefill::fail(Error error) noexcept {
  if (error_.code == ErrorCode::kOk) error_ = std::move(error);
  state_ = State::kDraining;
  queue_.request_stop();
  finish_if_drained();
}

void Prefill::record(const ComputeCompletion& completion, UnitId unit) noexcept {
  const Nanoseconds begin = std::max(completion.begin, last_end_);
  // Only time for want of a unit is waiting; between stages the device also pauses by itself.
  const bool waited = starved_[completed_] && begin > last_end_;
  if (waited) wait_ += begin - last_end_;
  const Nanoseconds end = std::max(completion.end, begin);
  compute_ += end - begin;
  if (completed_ == 0) first_begin_ = begin;
  if (timeline_.enabled()) {
    SpanRecord span;
    span.track = device_track_;
    span.unit = unit;
    span.has_unit = true;
    if (waited) {
      span.stage = Stage::kWait;
      span.name = "wait";
      span.begin = last_end_;
      span.end = begin;
      timeline_.record(span);
    }
    span.stage = Stage::kCompute;
    span.name = unit.kind == UnitKind::kHead ? "head" : "layer";
    span.begin = begin;
    span.end = end;
    timeline_.record(span);
  }
  last_end_ = end;
}

// Reported by several threads of the device: reports may overtake each other, and wait here for
// those before them.
void Prefill::on(StageComputed&& message) noexcept {
  if (state_ == State::kIdle || message.completion.ticket == 0) return;
  early_.push_back(std::move(message.completion));
  const auto is_next = [this](const ComputeCompletion& completion) {
    return completion.ticket == std::uint64_t{completed_} + 1;
  };
  for (;;) {
    const auto next = std::find_if(early_.begin(), early_.end(), is_next);
    if (next == early_.end()) return;
    const ComputeCompletion completion = std::move(*next);
    early_.erase(next);
    stage_computed(completion);
  }
}

void Prefill::stage_computed(const ComputeCompletion& completion) noexcept {
  const auto stage = static_cast<std::uint32_t>(completion.ticket - 1);
  if (completion.error.code != ErrorCode::kOk) {
    completed_ = stage + 1;
    fail(completion.error);
    return;
  }
  if (!completion.stopped && state_ == State::kComputing) {
    const bool head = stage == work_.layers * 2;
    record(completion, head ? head_unit(work_.layers) : weights_unit(stage / 2));
    if (stage % 2 == 0) layer_begin_ = completion.begin;
    if (!head && stage % 2 == 1) {
      ports_.layer_computed.send(
          LayerComputed{work_.request, stage / 2, layer_begin_, completion.end});
    }
  }
  completed_ = stage + 1;
  if (completion.stopped) {
    stopped_ = true;
    state_ = State::kDraining;
  }
  if (state_ == State::kComputing && completed_ < stages_total()) {
    enqueue_more();
    return;
  }
  finish_if_drained();
}

void Prefill::finish_if_drained() noexcept {
  if (state_ == State::kIdle) return;
  if (completed_ < enqueued_) return;  // every stage carries a ticket
  if (state_ == State::kComputing && completed_ < stages_total()) return;
  if (state_ == State::kDraining) queue_.clear_stop();
  state_ = State::kIdle;
  TokenReady report;
  report.request = work_.request;
  report.stopped = stopped_;
  report.error = error_;
  if (!stopped_ && error_.code == ErrorCode::kOk) {
    for (std::size_t row = 0; row < work_.slice.logit_rows.size(); ++row) {
      report.logits.push_back(queue_.logits(row));
    }
  }
  report.compute = compute_;
  report.wait = wait_;
  report.begin = accepted_;
  report.end = last_end_;
  ports_.token_ready.send(std::move(report));
}

}  // namespace mzcache::actors
