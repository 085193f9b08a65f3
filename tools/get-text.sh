#!/bin/sh
# Texts to measure quality on, from two Debian packages, as plain text:
#   texts/tech.txt    the Debian Administrator's Handbook (debian-handbook)
#   texts/prose.txt   An Anarchist FAQ (anarchism)
# Nothing is installed: the packages are fetched and unpacked.
#
#   tools/get-text.sh [FOLDER]     texts/ in the repository by default
set -eu

case "${1:-}" in
  -h|--help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
  -*) echo "get-text.sh: unknown argument '$1' (allowed: a folder)" >&2; exit 2 ;;
esac
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$root/texts}
if [ -s "$folder/tech.txt" ] && [ -s "$folder/prose.txt" ]; then
  echo "get-text.sh: the texts are there" >&2
  exit 0
fi
command -v apt-get >/dev/null || { echo "get-text.sh: needs apt-get" >&2; exit 1; }
command -v python3 >/dev/null || { echo "get-text.sh: needs python3" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$folder"

# HTML files in reading order → paragraphs of plain text, a line each.
to_text() {
  python3 - "$@" <<'PYTHON'
import html.parser
import re
import sys

BLOCKS = {"p", "li", "h1", "h2", "h3", "h4", "h5", "h6", "dt", "dd", "blockquote", "div", "br", "tr"}
SKIPPED = {"script", "style", "head", "nav", "pre", "table"}


class Text(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.parts, self.depth = [], 0

    def handle_starttag(self, tag, attributes):
        if tag in SKIPPED:
            self.depth += 1
        elif tag in BLOCKS:
            self.parts.append("\n")

    def handle_endtag(self, tag):
        if tag in SKIPPED:
            self.depth = max(0, self.depth - 1)
        elif tag in BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data):
        if self.depth == 0:
            self.parts.append(re.sub(r"\s+", " ", data))


for path in sys.argv[1:]:
    text = Text()
    with open(path, encoding="utf-8", errors="replace") as file:
        text.feed(file.read())
    lines = (line.strip() for line in "".join(text.parts).split("\n"))
    # Paragraphs only: menus and headings say little.
    for line in lines:
        if len(line) >= 80:
            print(line)
PYTHON
}

fetch() {
  echo "get-text.sh: fetching $1" >&2
  (cd "$work" && apt-get download -q "$1" >&2 && dpkg-deb -x "$1"_*.deb "$1")
}

fetch debian-handbook
find "$work/debian-handbook/usr/share/doc/debian-handbook/html/en-US" -name '*.html' |
  LC_ALL=C sort >"$work/tech.list"
fetch anarchism
find "$work/anarchism/usr/share/doc/anarchism/html" -name 'sec[A-Z]*.html' |
  LC_ALL=C sort >"$work/prose.list"
for name in tech prose; do
  [ -s "$work/$name.list" ] || { echo "get-text.sh: no pages for $name.txt found" >&2; exit 1; }
  # shellcheck disable=SC2046  (no spaces in the names of these packages' files)
  to_text $(cat "$work/$name.list") >"$folder/$name.txt.new"
  mv "$folder/$name.txt.new" "$folder/$name.txt"
  echo "get-text.sh: $folder/$name.txt, $(wc -c <"$folder/$name.txt") bytes" >&2
done
