#!/usr/bin/env bash
# Installs nginx and haproxy, which make versus WHAT=proxy compares with. Says
# which Debian packages are missing, and installs them when run as root.
set -euo pipefail

missing=()
# Any of the packages of nginx will do; nginx-light is the smallest.
command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || missing+=(nginx-light)
command -v haproxy >/dev/null || [ -x /usr/sbin/haproxy ] || missing+=(haproxy)
command -v taskset >/dev/null || missing+=(util-linux)
((${#missing[@]})) || exit 0
install=(apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}")
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "versus: missing packages: ${missing[*]}" >&2
	echo "versus: hint: as root on Debian: apt-get install ${missing[*]}" >&2
	exit 2
fi
echo "versus: install ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The services that the packages would start are not wanted: each run starts its own.
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
{ apt-get -o DPkg::Lock::Timeout=300 update && "${install[@]}"; } >"$log" 2>&1 </dev/null ||
	{ cat "$log" >&2; echo "versus: could not install ${missing[*]}" >&2; exit 2; }
