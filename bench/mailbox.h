// How fast messages reach an actor, beside the bare queue under the mailbox and, where it was
// found at build time, CAF: all measured in the same run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mzcache::bench {

struct MailboxRow {
  std::string implementation;  // "mzcache", "moodycamel", "caf"
  std::uint32_t producers = 0;
  double messages_per_s = 0;  // median: a million small messages to one actor that counts them
  double wake_us = 0;         // median: from posting to a sleeping actor until its handler runs
};

// Medians over `repeat` runs, the implementations taking turns; a row per implementation and
// number of producers (1 and 4).
[[nodiscard]] std::vector<MailboxRow> bench_mailbox(std::uint32_t repeat);

}  // namespace mzcache::bench
