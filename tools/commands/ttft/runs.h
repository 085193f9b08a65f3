// The runs of one context: every level and policy in turn, in an order that changes, with what is
// measured beside them.
#pragma once

#include <cstdint>
#include <vector>

#include "commands/ttft/alone.h"
#include "commands/ttft/engine.h"
#include "commands/ttft/row.h"
#include "engine/evaluation_policy.h"
#include "report_json.h"

namespace mzcache::tools {

struct TtftPlan {
  std::vector<std::uint32_t> contexts;
  std::vector<double> levels;
  std::vector<engine::EvaluationPolicy> policies;
  std::uint32_t prompt_tokens = 8;
  std::uint32_t repeat = 5;
  bool cold = false;
};

class ContextRuns {
 public:
  // All of them outlive the runs; the engine holds the context.
  ContextRuns(TtftEngine& engine, StagesAlone& alone, const TtftPlan& plan, std::uint32_t context);

  // Every row once, and the references; progress on stderr. `number` from 1, decides the order.
  void repeat(std::uint32_t number);
  // A row for each level and policy of the plan.
  [[nodiscard]] Json rows() const;

 private:
  void measure_in_memory();
  void measure(TtftRow& row);
  void prepare_memory(TtftSample& sample, const Missing& missing);

  TtftEngine& engine_;
  StagesAlone& alone_;
  const TtftPlan& plan_;
  std::vector<TtftRow> rows_;
  std::size_t asked_rows_ = 0;  // behind them the baseline, where nobody asked for it
  std::vector<double> in_memory_;
  std::vector<double> in_memory_best_;
};

}  // namespace mzcache::tools
