// The profile (paper §4.3): what this machine's storage and decoder achieve, measured once and kept
// in a file of its own, from which the policy balances the two restore paths.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "engine/planner.h"
#include "engine/rate_history.h"
#include "mzcache/errors.h"

namespace mzcache::engine {

struct Profile {
  std::string key;  // what it was measured on and with; another key is another profile
  // The device idle. A read rate of 0: measured without a model, or no swap file could be had.
  StageRates alone;
  StageRates busy;                           // the device computing; filled in by restores
  double decode_cpu_s_per_byte = 0;          // processor time of decoding one decoded byte
  double storage_decode_cpu_s_per_byte = 0;  // the same of the codec for storage, if it is another
  // What an eviction does; for people.
  double write_bytes_per_s = 0;
  double encode_bytes_per_s = 0;
  double measure_s = 0;                   // how long measuring took
  std::map<std::string, double> prefill;  // tokens per second, by model (its identity in hex)

  friend bool operator==(const Profile&, const Profile&) = default;
};

// What the planner is given. The device is idle in a Restore and computing in a Generate; which of
// them will follow is not known when an eviction is planned, so it is the figures alone that count,
// as in the paper.
[[nodiscard]] RestoreProfile restore_profile(const Profile& profile);

// One figure for both files, for people: the rate of reading as many bytes of the one as of the
// other, or of the one that is known.
[[nodiscard]] double read_rate(const StageRates& rates);

// Takes over what restores have shown; figures that were given in the configuration are not the
// machine's.
void learn_from(const RateHistory& history, Profile& profile);

// One JSON object with a version and a checksum.
[[nodiscard]] std::string profile_text(const Profile& profile);
// kBadFormat where the text is not what profile_text writes: damaged, another version, a rate that
// cannot be.
[[nodiscard]] Result<Profile> parse_profile(std::string_view text);

// $XDG_CACHE_HOME/mzcache/profiles, else ~/.cache/…; "" where neither is set.
[[nodiscard]] std::string profile_directory();
// The file of a key in a directory.
[[nodiscard]] std::string profile_path(const std::string& directory, std::string_view key);

// kNotFound where there is no such file, kBadFormat where it is damaged or was measured on
// something else.
[[nodiscard]] Result<Profile> load_profile(const std::string& path, std::string_view key);
// Written beside and renamed, so that no half file is ever read; directories are made.
[[nodiscard]] Result<void> save_profile(const std::string& path, const Profile& profile);

}  // namespace mzcache::engine
