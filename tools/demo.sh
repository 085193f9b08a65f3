#!/bin/sh
# From a fresh clone to the demonstration: packages, build, model, and a conversation that gives half
# and then all of its memory back and goes on.
#
#   tools/demo.sh            a context of about 1,500 tokens
#   tools/demo.sh --short    a shorter conversation
set -eu

for argument in "$@"; do
  case "$argument" in
    --short) ;;
    -h|--help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "demo.sh: unknown argument '$argument' (allowed: --short)" >&2; exit 2 ;;
  esac
done

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
tools/setup.sh
cmake --preset release >&2
cmake --build --preset release --target mzcache_demo mzcache_command >&2
tools/get-model.sh
exec build/release/bin/mzcache_demo models/SmolLM2-135M-Instruct.Q4_1.gguf \
  --trace build/release/restore-trace.json "$@"
