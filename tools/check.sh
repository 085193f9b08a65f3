#!/bin/sh
# clang-format and clang-tidy over everything that is ours; both have to be silent.
#
#   tools/check.sh             all files
#   tools/check.sh FILE…       only these (clang-tidy for those of them that are compiled)
set -eu

case "${1:-}" in
  -h|--help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
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

[ -f build/release/compile_commands.json ] || cmake --preset release >&2
cmake --build --preset release >&2  # generated sources have to be there
# Only what is compiled here: files for another processor have no flags of their own.
sources=$(printf '%s\n' "$files" | grep -E '^(src|tools|examples|bench)/.*\.cpp$' |
  while read -r file; do
    grep -qF "\"file\": \"$root/$file\"" build/release/compile_commands.json && echo "$file"
  done || true)
[ -n "$sources" ] || exit 0
echo "check.sh: clang-tidy over $(printf '%s\n' "$sources" | wc -l) files" >&2
printf '%s\n' "$sources" |
  xargs -P "$(nproc)" -n 1 clang-tidy-19 -p build/release --quiet --warnings-as-errors='*' \
    --extra-arg=-DASIO_HAS_CO_AWAIT=1 --extra-arg=-DASIO_HAS_STD_COROUTINE=1 \
    2>build/release/clang-tidy.err || {
  grep -E 'error:|Error' build/release/clang-tidy.err >&2 || true
  echo "check.sh: clang-tidy is not silent" >&2
  exit 1
}
