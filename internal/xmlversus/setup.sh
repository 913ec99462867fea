#!/usr/bin/env bash
# Builds bin/xmlpeers, the parsers in C and C++ that make versus WHAT=xml compares
# with. Says which Debian packages are missing, and installs them when run as root.
set -euo pipefail
cd "$(dirname "$0")"

packages=(gcc g++ libc6-dev pkg-config libxml2-dev libexpat1-dev libpugixml-dev)
missing=()
for package in "${packages[@]}"; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if ((${#missing[@]})); then
	install=(apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}")
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "versus: missing packages: ${missing[*]}" >&2
		echo "versus: hint: as root on Debian: apt-get install ${missing[*]}" >&2
		exit 2
	fi
	echo "versus: install ${missing[*]}"
	log=$(mktemp)
	trap 'rm -f "$log"' EXIT
	export DEBIAN_FRONTEND=noninteractive
	{ apt-get -o DPkg::Lock::Timeout=300 update && "${install[@]}"; } >"$log" 2>&1 </dev/null ||
		{ cat "$log" >&2; echo "versus: could not install ${missing[*]}" >&2; exit 2; }
fi

mkdir -p ../../bin
if [ ! -x ../../bin/xmlpeers ] || [ peers/peers.cc -nt ../../bin/xmlpeers ] || [ setup.sh -nt ../../bin/xmlpeers ]; then
	# shellcheck disable=SC2046 # flags are words
	g++ -std=c++17 -O2 -Wall -Wextra $(pkg-config --cflags libxml-2.0 expat) -o ../../bin/xmlpeers peers/peers.cc \
		$(pkg-config --libs libxml-2.0 expat) -lpugixml
fi
