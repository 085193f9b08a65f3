#!/bin/sh
# Measures what the paper's evaluation shows, on this machine, and writes docs/evaluation.md with
# tables, plots and the paper's own numbers. Models are made by `mzcache synth`; every piece (a model,
# a context, a level) is a file of its own, and one that is there already is not measured again.
#
#   bench/reproduce.sh [--quick] [MODEL …]    models: qwen3-0.6b exaone4-1.2b (both without)
#
#   --quick   8k context, 50 and 0 % remaining, 3 repeats
#
#   FOLDER=build/evaluation   where models and pieces go
#   RUNNER=                   put before every measuring command (a lock, nice, taskset)
#   PYTHON=python3            one that has matplotlib (apt-get install python3-matplotlib)
#   CONTEXTS= REPEAT=         other contexts and repeats than the table's (CONTEXTS='2k 8k' REPEAT=3)
#   MORE=                     further flags for every measuring command (--set …)
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
folder=${FOLDER:-$root/build/evaluation}
mzcache=${MZCACHE:-$root/build/release/bin/mzcache}
quick=false
models=
for word in "$@"; do
  case "$word" in
    -h|--help) sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --quick) quick=true ;;
    qwen3-0.6b|exaone4-1.2b) models="$models $word" ;;
    *) echo "reproduce.sh: unknown argument '$word' (allowed: --quick qwen3-0.6b exaone4-1.2b)" >&2
       exit 2 ;;
  esac
done
models=${models:-qwen3-0.6b exaone4-1.2b}
[ -x "$mzcache" ] || { echo "reproduce.sh: $mzcache is missing (cmake --build --preset release)" >&2; exit 1; }
python=${PYTHON:-python3}
if [ -z "${PYTHON:-}" ] && ! "$python" -c 'import matplotlib' 2>/dev/null; then
  python=/usr/bin/python3
fi
"$python" -c 'import matplotlib' 2>/dev/null ||
  { echo "reproduce.sh: matplotlib is missing (apt-get install python3-matplotlib)" >&2; exit 1; }

if $quick; then
  contexts=8k levels="50 0" repeat=3
else
  contexts="2k 8k 16k 32k" levels="100 75 50 25 0" repeat=5
fi
contexts=${CONTEXTS:-$contexts} repeat=${REPEAT:-$repeat}

# What the figures need at a level: 9 (and 4) the two systems, 12 no overlap, 10 and 11 the rest.
policies() {
  case "$1" in
    100) echo mzcache ;;
    75|25) echo mzcache,partial-offload,no-overlap ;;
    50) echo mzcache,partial-offload,no-overlap,allocation-reload,reload-prefill,forward-out,random-out,memory-only,storage-only ;;
    *) echo mzcache,partial-offload,no-overlap,memory-only,storage-only ;;
  esac
}

# KiB of a model, and of a context's keys and values as FP16 by 1,024 tokens.
model_kib() { case "$1" in qwen3-0.6b) echo 1250000 ;; *) echo 2600000 ;; esac; }
kv_kib() { case "$1" in qwen3-0.6b) echo 114688 ;; *) echo 61440 ;; esac; }

need_room() {  # DIRECTORY KIB WHAT
  free=$(df -Pk "$1" | awk 'NR == 2 { print $4 }')
  if [ "$free" -lt "$2" ]; then
    echo "reproduce.sh: $1 has $((free / 1024)) MiB free, $3 needs $(($2 / 1024))" >&2
    exit 1
  fi
}

mkdir -p "$folder"
for model in $models; do
  file=$folder/$model.gguf
  largest=0
  for context in $contexts; do largest=${context%k}; done
  need_room /var/tmp $((largest * $(kv_kib "$model") + 1048576)) "the swap file of $model"
  if [ ! -f "$file" ]; then
    need_room "$folder" $(($(model_kib "$model") + 1048576)) "$model"
    "$mzcache" synth --arch "$model" --type f16 -o "$file" >&2
  fi
  for context in $contexts; do
    for level in $levels; do
      piece=$folder/$model-$context-$level-$repeat.json
      [ -s "$piece" ] && continue
      echo "reproduce.sh: $model, $context, $level %" >&2
      # shellcheck disable=SC2086
      ${RUNNER:-} "$mzcache" bench ttft -m "$file" --context "$context" --remaining "$level" \
        --policy "$(policies "$level")" --repeat "$repeat" ${MORE:-} --json >"$piece.part"
      mv "$piece.part" "$piece"
    done
  done
  for what in storage memory; do
    piece=$folder/$model-$what.json
    [ -s "$piece" ] && continue
    # shellcheck disable=SC2086
    ${RUNNER:-} "$mzcache" bench "$what" -m "$file" --repeat "$repeat" ${MORE:-} --json >"$piece.part"
    mv "$piece.part" "$piece"
  done
done
"$python" "$root/bench/evaluation.py" "$folder" "$root/docs"
