#include "conversation_json.h"

#include "token_text.h"

namespace mzcache::tools {
namespace {

Json turn_json(const TurnResult& result, const Model& model, bool with_logprobs) {
  const Answer& answer = result.answer;
  Json turn = {{"prompt_tokens", answer.prompt_tokens},
               {"context_tokens", answer.context_tokens},
               {"tokens", answer.tokens},
               {"text", answer.text},
               {"stop", stop_reason_name(answer.stop)},
               {"ttft_ms", answer.ttft_ms},
               {"prefill_ms", answer.prefill_ms},
               {"decode_tokens_per_s", answer.decode_tokens_per_s},
               {"evictions", to_json(result.evictions)},
               {"restore", to_json(answer.restore)}};
  if (with_logprobs) turn["logprobs"] = to_json(answer.logprobs, model);
  return turn;
}

}  // namespace

Json to_json(const std::vector<EvictReport>& evictions) {
  Json list = Json::array();
  for (const EvictReport& report : evictions) list.push_back(to_json(report));
  return list;
}

Json to_json(Client& client, const Model& model, const std::vector<TurnResult>& turns,
             bool with_logprobs) {
  const ModelInfo& info = model.info();
  Json list = Json::array();
  for (const TurnResult& turn : turns) list.push_back(turn_json(turn, model, with_logprobs));
  const DeviceSummary device = client.runtime().device();
  const auto [error, status] = client.send(Status{});
  require(error, status.detail);
  return {{"model",
           {{"name", info.name},
            {"architecture", info.architecture},
            {"weights_bytes", info.weights_bytes},
            {"file", info.file}}},
          {"device", {{"name", device.name}, {"memory", device.memory}}},
          {"turns", list},
          {"load", to_json(client.runtime().load_report())},
          {"footprint_bytes", status.footprint_bytes},
          {"scratch_bytes", status.scratch_bytes},
          {"floor_bytes", status.floor_bytes},
          {"peak_rss_bytes", peak_rss_bytes()}};
}

}  // namespace mzcache::tools
