#!/bin/sh
# Installs the Debian packages that building, testing or checking need; says what it does, and does
# nothing where all of them are there.
#
#   tools/setup.sh            build, tests, demonstration
#   tools/setup.sh --check    what tools/check.sh needs besides
#   tools/setup.sh --fuzz     what tools/fuzz.sh needs besides
#   tools/setup.sh --aarch64  what tools/test-aarch64.sh needs besides
set -eu

packages="g++ cmake ninja-build pkg-config pocl-opencl-icd ocl-icd-opencl-dev opencl-clhpp-headers
libasio-dev liburing-dev libzstd-dev liblz4-dev libconcurrentqueue-dev catch2 libtomlplusplus-dev libcli11-dev
nlohmann-json3-dev libfmt-dev libxxhash-dev libpcre2-dev libbenchmark-dev python3 python3-pip unzip
ca-certificates"

for argument in "$@"; do
  case "$argument" in
    --check) packages="$packages clang-19 clang-format-19 clang-tidy-19 git oclgrind" ;;
    --fuzz) packages="$packages clang-19 libclang-rt-19-dev" ;;
    --aarch64) packages="$packages g++-aarch64-linux-gnu qemu-user" ;;
    -h|--help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "setup.sh: unknown argument '$argument' (allowed: --check, --fuzz, --aarch64)" >&2; exit 2 ;;
  esac
done

installed() {
  [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null | cut -c2)" = i ]
}

if ! command -v dpkg-query >/dev/null; then
  echo "setup.sh: this is not Debian; these packages are needed, by their Debian names:" $packages >&2
  exit 1
fi

missing=""
for package in $packages; do
  installed "$package" || missing="$missing $package"
done
if [ -z "$missing" ]; then
  echo "setup.sh: all packages are there" >&2
  exit 0
fi

# From here on as root. The package lists are read anew: from old ones apt asks for versions that the
# mirror no longer has.
run=""
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup.sh: not root, and there is no sudo; as root: apt-get install$missing" >&2
    exit 1
  fi
  run="sudo"
fi
echo "setup.sh: reading the package lists (apt-get update)" >&2
$run apt-get update -qq >&2 || echo "setup.sh: apt-get update failed; going on with the old lists" >&2
echo "setup.sh: installing$missing" >&2
$run env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  -o Dpkg::Use-Pty=0 $missing >&2
