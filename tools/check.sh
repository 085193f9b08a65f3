#!/bin/sh
# clang-format and clang-tidy over everything that is ours, and the kernels as a compiler for SPIR
# sees them (OpenCL C 3.0, both forms of chunk tables); all have to be silent.
#
#   tools/check.sh             all files
#   tools/check.sh FILE…       only these (clang-tidy for those of them that are compiled)
#
# MZCACHE_TIDY_MINUTES limits how long clang-tidy goes on; what it did not get to is said.
set -eu

case "${1:-}" in
  -h|--help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
  -*) echo "check.sh: unknown argument '$1' (allowed: files)" >&2; exit 2 ;;
esac

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
tools/setup.sh --check

if [ $# -gt 0 ]; then
  files=$(printf '%s\n' "$@")
else
  files=$(git ls-files --cached --others --exclude-standard -- '*.cpp' '*.h')
fi
echo "check.sh: clang-format" >&2
printf '%s\n' "$files" | xargs clang-format-19 --dry-run -Werror

echo "check.sh: kernels for SPIR" >&2
for target in spir spir64; do
  for pointers in 0 1; do
    # As one program, what they share in front.
    { cat kernels/common.cl; ls kernels/*.cl | grep -v '/common\.cl$' | xargs cat; } |
      clang-19 -x cl -cl-std=CL3.0 -target "$target" -DMZ_POINTERS=$pointers -Wall -Werror \
        -Xclang -finclude-default-header -fsyntax-only -
  done
done

if [ "${CI:-}" = true ]; then
  cmake --preset release -DMZCACHE_WERROR=ON >&2  # as test.sh will want it: built once
elif [ ! -f build/release/compile_commands.json ]; then
  cmake --preset release >&2
fi
cmake --build --preset release >&2  # generated sources have to be there
# Only what is compiled here: files for another processor have no flags of their own. Those changed last
# come first.
recent=$( { git log -n 60 --name-only --format= 2>/dev/null; printf '%s\n' "$files"; } | awk '!seen[$0]++')
sources=$(printf '%s\n' "$recent" | grep -E '^(src|tools|examples|bench)/.*\.cpp$' |
  while read -r file; do
    printf '%s\n' "$files" | grep -qxF "$file" || continue
    grep -qF "\"file\": \"$root/$file\"" build/release/compile_commands.json && echo "$file"
  done || true)
[ -n "$sources" ] || exit 0
# -Wno-error: GCC's warnings are errors in CI, clang's are not asked for.
echo "check.sh: clang-tidy over $(printf '%s\n' "$sources" | wc -l) files" >&2
minutes=${MZCACHE_TIDY_MINUTES:-1000000}
until=$(($(date +%s) + minutes * 60))
export until
left=build/release/clang-tidy.left
: >"$left"
printf '%s\n' "$sources" |
  xargs -P "$(nproc)" -n 1 sh -c '
    [ "$(date +%s)" -lt "$until" ] || { echo "$1" >>build/release/clang-tidy.left; exit 0; }
    exec clang-tidy-19 -p build/release --quiet --warnings-as-errors="*" \
      --extra-arg=-Wno-error \
      --extra-arg=-DASIO_HAS_CO_AWAIT=1 --extra-arg=-DASIO_HAS_STD_COROUTINE=1 "$1"' check \
    2>build/release/clang-tidy.err || {
  grep -E 'error:|Error' build/release/clang-tidy.err >&2 || true
  echo "check.sh: clang-tidy is not silent" >&2
  exit 1
}
[ ! -s "$left" ] ||
  echo "check.sh: after $minutes minutes clang-tidy had not looked at $(wc -l <"$left") files ($left)" >&2
