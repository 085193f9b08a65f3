#!/bin/sh
# Packages, build, model and all tests. The last line is ctest's own.
#
#   tools/test.sh                the release build
#   tools/test.sh --sanitizers   AddressSanitizer with UBSan, and ThreadSanitizer
#   tools/test.sh --offline      skipping a test for want of the model or the network is no failure
#
# CI=true makes warnings of the release build errors.
set -eu

offline=no
sanitizers=no
for argument in "$@"; do
  case "$argument" in
    --offline) offline=yes ;;
    --sanitizers) sanitizers=yes ;;
    -h|--help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "test.sh: unknown argument '$argument' (allowed: --offline, --sanitizers)" >&2; exit 2 ;;
  esac
done

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
model="$root/models/SmolLM2-135M-Instruct.Q4_1.gguf"

if [ "$offline" = yes ]; then
  tools/setup.sh || echo "test.sh: setup failed; going on with what is installed" >&2
  tools/get-model.sh || echo "test.sh: no model; tests that need it are skipped" >&2
else
  tools/setup.sh
  tools/get-model.sh
fi
[ ! -f "$model" ] || export MZCACHE_MODEL="$model"

werror=OFF
[ "${CI:-}" != true ] || werror=ON

# Builds a preset and runs its tests, all of them or those named; a skipped test counts as failed
# unless offline. What ctest prints is shown as it comes and kept, because ctest itself ends well
# after skipping.
test_preset() {
  preset=$1
  shift
  cmake --preset "$preset" -DMZCACHE_WERROR="$werror" >&2
  if [ $# -gt 0 ]; then
    cmake --build --preset "$preset" --target mzcache-compile "$@" >&2
    set -- -R "^($(printf '%s|' "$@" | sed 's/|$//'))\$"
  else
    cmake --build --preset "$preset" >&2
  fi
  log="build/$preset/ctest.log"
  status="build/$preset/ctest.status"
  { ctest --test-dir "build/$preset" --output-on-failure "$@" && echo 0 >"$status" ||
      echo 1 >"$status"; } 2>&1 | tee "$log"
  [ "$(cat "$status")" = 0 ] || return 1
  if [ "$offline" = no ] && grep -q '\*\*\*Skipped' "$log"; then
    echo "test.sh: tests were skipped (see above); --offline allows that" >&2
    return 1
  fi
}

# Tests named *_root are registered only for root.
name_root_tests() {
  [ "$(id -u)" != 0 ] || return 0
  names=$(grep -rhoE '\btest_[a-z_]+_root\b' tests --include=CMakeLists.txt | sort -u | tr '\n' ' ')
  [ -z "$names" ] || echo "test.sh: not run, they need root: $names" >&2
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
test_preset release
name_root_tests
