// The demonstration: a conversation about a long text, half and then all of its memory given back,
// the next question answered while weights and KV cache are still coming back. Prints one table and
// fails where an answer is not what it has to be. Uses only the public headers.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "client.h"
#include "mzcache/runtime.h"
#include "mzcache/trace.h"
#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

constexpr float kCloseCall = 0.1F;  // two tokens nearer than this may swap places after 8 bits

struct DemoOptions {
  std::string model;
  std::string text_file = "LICENSE";  // any long text; this one is at hand
  std::string trace_file = "restore-trace.json";
  std::size_t text_tokens = 1440;
  std::uint32_t answer_tokens = 48;
};

// What one run of the conversation gave; the evictions of a run are all of one kind.
struct Conversation {
  std::string label;
  StatusReport before;
  std::vector<StatusReport> emptied;  // after each eviction before the question
  StatusReport after;
  std::vector<EvictReport> evictions;
  Answer answer;
};

StatusReport status(Client& client) { return client.ask(Status{}); }

std::string mib(std::uint64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / 1048576.0);
}

// About `tokens` tokens of the file's beginning, cut at a line.
std::string excerpt(const Model& model, const DemoOptions& options) {
  const std::string text = read_text_file(options.text_file);
  std::size_t bytes = std::min(text.size(), options.text_tokens * 8);
  while (bytes > 0) {
    const std::size_t tokens = model.tokenize(std::string_view(text).substr(0, bytes)).size();
    if (tokens <= options.text_tokens) break;
    bytes = bytes * options.text_tokens / tokens;
  }
  const std::size_t line = text.rfind('\n', bytes);
  return text.substr(0, line == std::string::npos ? bytes : line);
}

class Demo {
 public:
  explicit Demo(DemoOptions options) : options_(std::move(options)) {}

  int run() {
    std::printf("model %s\n", options_.model.c_str());
    const Conversation resident = converse("resident", "q8", {}, "");
    const Conversation half = converse("Evict 50%", "q8", {50}, "");
    const Conversation all = converse("Evict 50%, then 100%", "q8", {50, 100}, options_.trace_file);
    const Conversation lossless = converse("the same, codec none", "none", {50, 100}, "");
    print_memory(all);
    print_answers({&resident, &half, &all, &lossless});
    print_overlap();
    bool good = agree_exactly(resident, lossless);
    good = agree_to_close_call(resident, half) && good;
    good = agree_to_close_call(resident, all) && good;
    good = nothing_left(all) && nothing_left(lossless) && good;
    std::printf("%s\n", good ? "all agree" : "FAILED: see above");
    return good ? kExitDone : kExitFailed;
  }

 private:
  // One runtime per conversation, so that each starts from the same state.
  Conversation converse(const std::string& label, const std::string& codec,
                        const std::vector<double>& percents, const std::string& trace) {
    std::fprintf(stderr, "[%s …]\n", label.c_str());
    Config config;
    config.set("memory.codec=" + codec);
    config.set("memory.storage_codec=none");
    Client client(config);
    const Model model = client.load(options_.model);
    const Session session = model.open_session();
    Conversation result;
    result.label = label;
    (void)client.ask(first_turn(model, session));
    result.before = status(client);
    for (const double percent : percents) {
      Amount amount;
      amount.percent = percent;
      result.evictions.push_back(client.ask(Evict{amount}));
      result.emptied.push_back(status(client));
    }
    if (!trace.empty()) client.runtime().start_trace();
    result.answer = client.ask(question(session));
    if (!trace.empty()) client.runtime().write_trace(trace);
    result.after = status(client);
    return result;
  }

  Generate first_turn(const Model& model, Session session) const {
    Generate message{session, excerpt(model, options_) + "\n\nWhat is the text above?", {}, {}};
    message.options.max_tokens = options_.answer_tokens;
    return message;
  }
  Generate question(Session session) const {
    Generate message{session, "Who may use the work, and under which conditions?", {}, {}};
    message.options.max_tokens = options_.answer_tokens;
    return message;
  }

  void print_memory(const Conversation& all) const {
    std::printf(
        "\ncontext of %u tokens; sizes in MiB; footprint: weights and KV cache in full; floor: "
        "the\n"
        "process without them\n",
        all.before.context_tokens);
    std::printf("%-22s %10s %10s %10s %10s %10s %10s\n", "memory", "process", "footprint",
                "resident", "swap mem", "swap file", "floor");
    const auto row = [](const char* name, const StatusReport& report) {
      std::printf("%-22s %10s %10s %10s %10s %10s %10s\n", name, mib(report.process_bytes).c_str(),
                  mib(report.footprint_bytes).c_str(), mib(report.resident.bytes).c_str(),
                  mib(report.memory_swap_bytes).c_str(), mib(report.swap_file_bytes).c_str(),
                  mib(report.floor_bytes).c_str());
    };
    row("before", all.before);
    row("after Evict 50%", all.emptied.front());
    row("after Evict 100%", all.emptied.back());
    row("after the answer", all.after);
    for (const EvictReport& report : all.evictions) {
      std::printf("evicted %s MiB of %s asked in %.0f ms; the process's PSS fell by %.1f MiB\n",
                  mib(report.freed_bytes).c_str(), mib(report.requested_bytes).c_str(), report.ms,
                  static_cast<double>(report.pss_drop_bytes) / 1048576.0);
    }
  }

  static void print_answers(const std::vector<const Conversation*>& conversations) {
    std::printf("\n%-22s %10s %10s %10s %10s %9s\n", "next question", "TTFT ms", "read MiB",
                "decode MiB", "waited ms", "overlap %");
    for (const Conversation* c : conversations) {
      const RestoreReport& restore = c->answer.restore;
      std::printf("%-22s %10.0f %10s %10s %10.1f %9.0f\n", c->label.c_str(), c->answer.ttft_ms,
                  mib(restore.bytes_read).c_str(), mib(restore.bytes_decoded).c_str(),
                  restore.wait_ms, restore.overlap_percent);
    }
    for (const Conversation* c : conversations) {
      std::printf("\n--- %s\n%s\n", c->label.c_str(), c->answer.text.c_str());
    }
  }

  void print_overlap() const {
    std::printf("\ntrace of the restore after Evict 100%%: %s\n", options_.trace_file.c_str());
    std::printf("%-10s %10s %26s\n", "stage", "busy ms", "of it while the device computed");
    for (const TraceStage& stage : summarize_trace(options_.trace_file)) {
      std::printf("%-10s %10.1f %25.0f%%\n", stage.name.c_str(), stage.busy_ms,
                  stage.overlap_compute_percent);
    }
    std::printf("\n");
  }

  static bool agree_exactly(const Conversation& reference, const Conversation& other) {
    const bool same = reference.answer.tokens == other.answer.tokens &&
                      reference.answer.gaps == other.answer.gaps;
    std::printf("codec none: tokens and gaps %s those of the resident run\n",
                same ? "equal" : "DIFFER from");
    return same;
  }

  // The same tokens up to the first step at which the reference itself hardly had a preference.
  static bool agree_to_close_call(const Conversation& reference, const Conversation& other) {
    const auto& wanted = reference.answer.tokens;
    const auto& got = other.answer.tokens;
    const auto& gaps = reference.answer.gaps;
    const std::size_t common = static_cast<std::size_t>(
        std::mismatch(wanted.begin(), wanted.end(), got.begin(), got.end()).first - wanted.begin());
    const auto close =
        std::find_if(gaps.begin(), gaps.end(), [](float gap) { return gap < kCloseCall; });
    const auto first_close = static_cast<std::size_t>(close - gaps.begin());
    const bool whole = common == wanted.size() && common == got.size();
    const bool good = whole || common >= first_close;
    std::string note = close == gaps.end() ? std::string("no close call")
                                           : fmt::format("first close call at {} (gap {:.3f})",
                                                         first_close, *close);
    std::printf("q8, %s: %zu of %zu tokens equal; %s%s\n", other.label.c_str(), common,
                wanted.size(), note.c_str(), good ? "" : " — DIFFERS before it");
    return good;
  }

  static bool nothing_left(const Conversation& conversation) {
    const StatusReport& report = conversation.emptied.back();
    const bool good = report.resident.units == 0 && report.memory_swap_bytes == 0;
    if (!good) {
      std::printf("%s: %u units RESIDENT, %s MiB of in-memory swap after Evict 100%%\n",
                  conversation.label.c_str(), report.resident.units,
                  mib(report.memory_swap_bytes).c_str());
    }
    return good;
  }

  DemoOptions options_;
};

DemoOptions parse(int argc, char** argv) {
  DemoOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--short") {
      options.text_tokens = 500;
      options.answer_tokens = 16;
    } else if (word == "--trace" && i + 1 < argc) {
      options.trace_file = argv[++i];
    } else if (options.model.empty() && !word.starts_with("-")) {
      options.model = word;
    } else {
      refuse("mzcache_demo", word, "MODEL, --short, --trace FILE");
    }
  }
  need("MODEL", options.model, "a GGUF file");
  return options;
}

int main_guarded(int argc, char** argv) {
  try {
    return Demo(parse(argc, argv)).run();
  } catch (const UsageError& error) {
    std::fprintf(stderr, "mzcache_demo: %s\n", error.what());
    return kExitUsage;
  } catch (const Interrupted& error) {
    std::fprintf(stderr, "mzcache_demo: %s\n", error.what());
    return kExitInterrupted;
  } catch (const Exception& error) {
    std::fprintf(stderr, "mzcache_demo: %s\n", error.error().message().c_str());
    return kExitFailed;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mzcache_demo: %s\n", error.what());
    return kExitFailed;
  }
}

}  // namespace
}  // namespace mzcache::tools

int main(int argc, char** argv) {
  try {
    return mzcache::tools::main_guarded(argc, argv);
  } catch (...) {
    return mzcache::tools::kExitFailed;
  }
}
