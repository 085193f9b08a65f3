// A conversation as the JSON that `run` and `chat` print.
#pragma once

#include <vector>

#include "client.h"
#include "mzcache/runtime.h"
#include "report_json.h"

namespace mzcache::tools {

// One user turn: the evictions before it, and the answer.
struct TurnResult {
  std::vector<EvictReport> evictions;
  Answer answer;
};

[[nodiscard]] Json to_json(const std::vector<EvictReport>& evictions);
// The turns, with what is known of model, device, load and memory at the end.
[[nodiscard]] Json to_json(Client& client, const Model& model, const std::vector<TurnResult>& turns,
                           bool with_logprobs);

}  // namespace mzcache::tools
