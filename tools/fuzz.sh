#!/bin/sh
# Builds the libFuzzer targets (clang, AddressSanitizer, UBSan) and runs each for some seconds over
# the kept seeds. What is found beyond them goes to build/fuzz/corpus; an input that fails is
# written to build/fuzz/findings, and the exit status is then 1.
#
#   tools/fuzz.sh [SECONDS] [TARGET…]     10 seconds, all targets
set -eu

case "${1:-}" in
  -h|--help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *[!0-9]*) echo "fuzz.sh: '$1' is no number of seconds" >&2; exit 2 ;;
esac
seconds=${1:-10}
[ $# -eq 0 ] || shift

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
tools/setup.sh --fuzz
[ -f build/fuzz/build.ninja ] || cmake --preset fuzz >&2
cmake --build --preset fuzz >&2

if [ $# -eq 0 ]; then
  set -- $(cd build/fuzz/bin && ls -d fuzz_*)
fi
mkdir -p build/fuzz/findings
failed=""
for target in "$@"; do
  seeds="tests/fuzz/seeds/${target#fuzz_}"
  corpus="build/fuzz/corpus/$target"
  mkdir -p "$corpus"
  [ ! -d "$seeds" ] || cp "$seeds"/* "$corpus"/
  echo "fuzz.sh: $target, $seconds s" >&2
  "build/fuzz/bin/$target" "$corpus" -max_total_time="$seconds" -max_len=65536 -timeout=20 \
    -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="build/fuzz/findings/$target-" \
    >"build/fuzz/$target.log" 2>&1 || failed="$failed $target"
  grep -E 'DONE|ERROR|SUMMARY|runtime error' "build/fuzz/$target.log" >&2 || true
done
if [ -n "$failed" ]; then
  echo "fuzz.sh: failed:$failed (build/fuzz/TARGET.log, build/fuzz/findings)" >&2
  exit 1
fi
