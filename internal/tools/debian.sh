#!/usr/bin/env bash
# Installs Debian packages for a comparison when run as root; else it says which are
# missing and ends with 2:
#
#   bash internal/tools/debian.sh PACKAGE…
set -euo pipefail

(($#)) || exit 0
install=(apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@")
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "versus: missing packages: $*" >&2
	echo "versus: hint: as root on Debian: apt-get install $*" >&2
	exit 2
fi
echo "versus: install $*"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The services that some packages would start are not wanted: each run starts its own.
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
{ apt-get -o DPkg::Lock::Timeout=300 update && "${install[@]}"; } >"$log" 2>&1 </dev/null ||
	{ cat "$log" >&2; echo "versus: could not install $*" >&2; exit 2; }
