#!/bin/sh
# Compiles the codecs for AArch64 and runs their tests under qemu-user: the NEON kernels have to give
# the bits of the scalar reference. zstd and lz4 are left out, they have no code of ours.
#
#   tools/test-aarch64.sh      needs root or sudo for the packages the first time
set -eu

case "${1:-}" in
  -h|--help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
  "") ;;
  *) echo "test-aarch64.sh: unknown argument '$1'" >&2; exit 2 ;;
esac
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
tools/setup.sh --aarch64

build="build/aarch64"
mkdir -p "$build/include"
# Headers without code of their own for a processor; the rest of /usr/include is not ours to see.
ln -sfn /usr/include/catch2 "$build/include/catch2"
ln -sfn /usr/include/xxhash.h "$build/include/xxhash.h"

{
  echo "builddir = $build"
  echo "cxx = aarch64-linux-gnu-g++"
  echo "flags = -std=c++20 -O2 -ffp-contract=off -DXXH_INLINE_ALL -Isrc -Iinclude -Itests -I$build/include"
  echo "rule compile"
  echo "  command = \$cxx \$flags -MD -MF \$out.d -c \$in -o \$out"
  echo "  depfile = \$out.d"
  echo "  deps = gcc"
  echo "rule link"
  echo "  command = \$cxx -static \$in -o \$out"
  objects=""
  for source in src/codec/*.cpp src/actors/errors.cpp tests/support/main.cpp tests/codec/*.cpp; do
    case "$source" in
      *_avx2.cpp|*_avx512.cpp|*/lossless.cpp|*/registry.cpp|*/test_registry.cpp|*/test_fuzz.cpp) continue ;;
      */codecs_all.cpp) continue ;;
    esac
    object="$build/$(echo "${source%.cpp}" | tr / _).o"
    echo "build $object: compile $source"
    objects="$objects $object"
  done
  echo "build $build/test_codec: link$objects"
  echo "default $build/test_codec"
} >"$build/build.ninja"
ninja -j "${JOBS:-$(nproc)}" -f "$build/build.ninja" >&2
qemu-aarch64 "$build/test_codec"
