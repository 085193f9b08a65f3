#!/bin/sh
# check_install.sh CMAKE BUILD SOURCE COMPILER: installs into a folder of its own and builds the
# embedding example against it, once with find_package and once with pkg-config.
set -eu
cmake=$1 build=$2 source=$3 compiler=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --prefix "$work/prefix" >/dev/null
[ -x "$work/prefix/bin/mzcache" ]
"$work/prefix/bin/mzcache" --help >/dev/null

mkdir "$work/consumer"
cp "$source/examples/embed.cpp" "$work/consumer/"
cat >"$work/consumer/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(consumer CXX)
find_package(mzcache 0.1 REQUIRED)
add_executable(embed embed.cpp)
target_link_libraries(embed PRIVATE mzcache::mzcache)
END
"$cmake" -G Ninja -S "$work/consumer" -B "$work/consumer/build" -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
"$cmake" --build "$work/consumer/build"

pc=$(find "$work/prefix" -name mzcache.pc)
export PKG_CONFIG_PATH="$(dirname "$pc")"
# A prefix elsewhere than configured: pkg-config is told.
flags() { pkg-config --define-variable=prefix="$work/prefix" "$@" mzcache; }
"$compiler" $(flags --cflags) "$source/examples/embed.cpp" -o "$work/embed" $(flags --libs)

library=$(dirname "$(dirname "$pc")")
for program in "$work/consumer/build/embed" "$work/embed"; do
  status=0
  LD_LIBRARY_PATH="$library" "$program" 2>"$work/said" || status=$?
  [ "$status" = 2 ] && grep -q usage "$work/said" || { cat "$work/said" >&2; exit 1; }
  status=0
  LD_LIBRARY_PATH="$library" "$program" "$work/none.gguf" 2>"$work/said" || status=$?
  [ "$status" = 1 ] && grep -q none.gguf "$work/said" || { cat "$work/said" >&2; exit 1; }
done
