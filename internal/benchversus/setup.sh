#!/usr/bin/env bash
# Installs wrk and iperf3, which make versus WHAT=bench compares with. Says which
# Debian packages are missing, and installs them when run as root.
set -euo pipefail

missing=()
for tool in wrk iperf3; do
	command -v "$tool" >/dev/null || missing+=("$tool")
done
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
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
{ apt-get -o DPkg::Lock::Timeout=300 update && "${install[@]}"; } >"$log" 2>&1 </dev/null ||
	{ cat "$log" >&2; echo "versus: could not install ${missing[*]}" >&2; exit 2; }
