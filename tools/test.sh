#!/bin/sh
# Packages, build, models and all tests. The last line on standard output is ctest's own; what was not
# run is named after it.
#
#   tools/test.sh                the release build
#   tools/test.sh --sanitizers   AddressSanitizer with UBSan, and ThreadSanitizer
#   tools/test.sh --offline      skipping a test for want of a model or the network is no failure
#
# Both models are fetched where they are missing: SmolLM2-135M (98 MB) and, after showing its terms,
# Gemma 3 270M (253 MB). CI=true makes warnings of the release build errors.
set -eu

offline=no
sanitizers=no
for argument in "$@"; do
  case "$argument" in
    --offline) offline=yes ;;
    --sanitizers) sanitizers=yes ;;
    -h|--help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "test.sh: unknown argument '$argument' (allowed: --offline, --sanitizers)" >&2; exit 2 ;;
  esac
done

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
model="$root/models/SmolLM2-135M-Instruct.Q4_1.gguf"

models=smollm2
[ "$sanitizers" = yes ] || models="smollm2 gemma3-270m"
if [ "$offline" = yes ]; then
  tools/setup.sh || echo "test.sh: setup failed; going on with what is installed" >&2
else
  tools/setup.sh
fi
# A test without its model is skipped, which is judged at the end.
for name in $models; do
  tools/get-model.sh "$name" || echo "test.sh: no model $name; tests that need it are skipped" >&2
done
[ ! -f "$model" ] || export MZCACHE_MODEL="$model"

werror=OFF
[ "${CI:-}" != true ] || werror=ON

# Builds a preset and runs its tests, all of them or those named, one per core; a skipped test counts
# as failed unless offline. What ctest prints is shown as it comes and kept, because ctest itself ends
# well after skipping.
test_preset() {
  preset=$1
  shift
  cmake --preset "$preset" -DMZCACHE_WERROR="$werror" >&2 || return 1
  if [ $# -gt 0 ]; then
    cmake --build --preset "$preset" --target mzcache-compile "$@" >&2 || return 1
    set -- -R "^($(printf '%s|' "$@" | sed 's/|$//'))\$"
  else
    cmake --build --preset "$preset" >&2 || return 1
  fi
  log="build/$preset/ctest.log"
  status="build/$preset/ctest.status"
  { ctest --test-dir "build/$preset" --output-on-failure -j "$(nproc)" "$@" && echo 0 >"$status" ||
      echo 1 >"$status"; } 2>&1 | tee "$log"
  skipped=$(sed -n 's/^.* Test *#[0-9]*: \([^ ]*\) .*\*\*\*Skipped.*/\1/p' "$log" | tr '\n' ' ')
  [ -z "$skipped" ] || echo "test.sh: not run: $skipped(why: build/$preset/Testing/Temporary/LastTest.log)" >&2
  [ "$(cat "$status")" = 0 ] || return 1
  if [ "$offline" = no ] && [ -n "$skipped" ]; then
    echo "test.sh: tests were skipped; --offline allows that" >&2
    return 1
  fi
}

# Tests that are registered only where they can run: *_root for root, *_golden with golden data.
name_unregistered_tests() {
  name_unregistered _root "root" "$([ "$(id -u)" = 0 ] && echo there || true)"
  name_unregistered _golden "MZCACHE_GOLDEN (a folder of golden data)" "${MZCACHE_GOLDEN:-}"
}
name_unregistered() {
  [ -z "$3" ] || return 0
  names=$(grep -rhoE "\\btest_[a-z0-9_]+$1\\b" tests --include=CMakeLists.txt --include='*.cmake' |
    sort -u | tr '\n' ' ')
  [ -z "$names" ] || echo "test.sh: not run, they need $2: $names" >&2
}

if [ "$sanitizers" = yes ]; then
  werror=OFF  # instrumented code gets warnings of its own, about code that is not ours
  # Where memory and threads are: the rest would only be slower. What a process weighs means nothing
  # here, and the device driver is not instrumented, so ThreadSanitizer leaves the kernels out.
  export MZCACHE_SIM_COUNT="${MZCACHE_SIM_COUNT:-500}"
  tests="test_actors test_sim test_io test_embedding test_runtime_stress"
  test_preset asan $tests test_codec test_engine test_gpu
  test_preset tsan $tests
  exit 0
fi
failed=0
test_preset release || failed=1
name_unregistered_tests
exit $failed
