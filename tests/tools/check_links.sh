#!/bin/sh
# check_links.sh PROGRAM LIBRARY…: fails where the program is linked with one of the libraries.
set -eu
program=$1
shift
needed=$(ldd "$program")
echo "$needed" | grep -q libc || { echo "ldd says nothing about $program" >&2; exit 1; }
for library in "$@"; do
  if echo "$needed" | grep "$library"; then
    echo "$program must not need $library" >&2
    exit 1
  fi
done
