#!/bin/sh
# The golden tests on a second OpenCL implementation, Intel's for processors (from PyPI, in a virtual
# environment of its own under .venv/). Nothing is installed outside it.
#
#   tools/test_intel.sh [BUILD]     BUILD: build/release where not given
#
# Programs that want golden data are there where MZCACHE_GOLDEN was set for the build; with CI=true all
# of them have to be.
set -eu

case "${1:-}" in
  -h|--help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
  -*) echo "test_intel.sh: unknown argument '$1' (allowed: a build directory)" >&2; exit 2 ;;
esac

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
build=${1:-build/release}
if [ "${CI:-}" = true ] && [ -z "${MZCACHE_GOLDEN:-}" ]; then
  echo "test_intel.sh: MZCACHE_GOLDEN is not set, and CI=true wants the golden models" >&2
  exit 1
fi
[ -x "$build/bin/mzcache" ] || {
  echo "test_intel.sh: no $build/bin/mzcache; build first: cmake --build --preset release" >&2
  exit 1
}
venv="$root/.venv/intel-opencl"
if [ ! -e "$venv/ready" ]; then
  echo "test_intel.sh: intel-opencl-rt from PyPI into .venv/intel-opencl" >&2
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check intel-opencl-rt==2026.2.0 \
    intel-cmplr-lib-rt==2026.2.0
  touch "$venv/ready"
fi

# The loader shall see this implementation alone.
mkdir -p "$venv/vendors"
find "$venv/lib" -maxdepth 1 -name 'libintelocl.so.*' | head -1 >"$venv/vendors/intel.icd"
[ -s "$venv/vendors/intel.icd" ] || { echo "test_intel.sh: no libintelocl.so in $venv" >&2; exit 1; }
export OCL_ICD_VENDORS="$venv/vendors"
# Its libraries, but for its own loader.
mkdir -p "$venv/libraries"
find "$venv/lib" -maxdepth 1 -name '*.so*' ! -name 'libOpenCL.so*' -exec ln -sf {} "$venv/libraries" \;
export LD_LIBRARY_PATH="$venv/libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

device=$("$build/bin/mzcache" devices)
echo "$device" | head -3
case "$device" in
  *Intel*) ;;
  *) echo "test_intel.sh: the device is not Intel's" >&2; exit 1 ;;
esac

status=0
for test in test_system test_gpu_golden test_system_golden; do
  if [ ! -x "$build/bin/$test" ]; then
    echo "test_intel.sh: not run: $test (configure and build with MZCACHE_GOLDEN set)" >&2
    [ "${CI:-}" != true ] || status=1
    continue
  fi
  pattern='*golden*'
  echo "test_intel.sh: $test" >&2
  "$build/bin/$test" "$pattern" || status=1
done
exit $status
