#!/usr/bin/env bash
# Evictions of 1, 5, 10, … 100 % of a model with a 3,000-token context: what was freed, what the
# process's memory fell by, how long it took, and how well the restore times were predicted.
#   tools/sweep_evict.sh [MODEL] [further flags of `mzcache bench evict`]
set -euo pipefail
cd "$(dirname "$0")/.."
model=models/SmolLM2-135M-Instruct.Q4_1.gguf
if [[ $# -gt 0 && $1 != -* ]]; then
  model=$1
  shift
fi
mzcache=${MZCACHE_BINARY:-build/release/bin/mzcache}
if [[ ! -x $mzcache ]]; then
  echo "sweep_evict: no $mzcache; build it first (cmake --preset release && cmake --build --preset release)" >&2
  exit 1
fi
if [[ ! -f $model ]]; then
  echo "sweep_evict: no $model (tools/get-model.sh fetches it)" >&2
  exit 1
fi
exec "$mzcache" bench evict -m "$model" --context 3000 "$@"
