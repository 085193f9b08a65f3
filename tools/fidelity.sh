#!/bin/sh
# Measures what codecs save and what that costs, on two texts, as docs/fidelity.md has it: prints the
# table, and writes it and a picture of savings against divergence to a folder. Steps come from a
# profile of the other text. Some ten seconds a codec and text with a 135M model.
#
#   tools/fidelity.sh [MODEL [FOLDER]]     SmolLM2-135M and build/fidelity by default
set -eu

case "${1:-}" in
  -h|--help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
  -*) echo "fidelity.sh: unknown argument '$1' (allowed: a model, a folder)" >&2; exit 2 ;;
esac
root=$(cd "$(dirname "$0")/.." && pwd)
model=${1:-$root/models/SmolLM2-135M-Instruct.Q4_1.gguf}
folder=${2:-$root/build/fidelity}
mzcache=${MZCACHE:-$root/build/release/bin/mzcache}
codecs=${CODECS:-q8,q4,entropy:near,entropy,entropy:small,entropy:free,packed,split-zstd}
[ -f "$model" ] || { echo "fidelity.sh: $model is missing (tools/get-model.sh)" >&2; exit 1; }
[ -x "$mzcache" ] || { echo "fidelity.sh: $mzcache is missing (cmake --build --preset release)" >&2; exit 1; }

"$root/tools/get-text.sh" "$root/texts"
mkdir -p "$folder"
for text in prose tech; do
  other=prose
  [ "$text" = tech ] || other=tech
  # A place of its own for profiles: that of the user stays as it is.
  export XDG_CACHE_HOME="$folder/cache-$other"
  "$mzcache" profile --codec entropy -m "$model" -f "$root/texts/$other.txt" >&2
  "$mzcache" eval kl -m "$model" -f "$root/texts/$text.txt" --codec "$codecs" --json >"$folder/kl-$text.json"
  "$mzcache" eval lookup -m "$model" -f "$root/texts/$text.txt" --codec "$codecs" --json \
    >"$folder/lookup-$text.json"
done
python3 "$root/tools/fidelity_table.py" "$folder" | tee "$folder/table.md"
