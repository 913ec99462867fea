#!/usr/bin/env bash
# Builds bin/xmlpeers, the parsers in C and C++ that make versus WHAT=xml compares
# with, and installs the Debian packages that they need.
set -euo pipefail
cd "$(dirname "$0")"

packages=(gcc g++ libc6-dev pkg-config libxml2-dev libexpat1-dev libpugixml-dev)
missing=()
for package in "${packages[@]}"; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
bash ../tools/debian.sh "${missing[@]}"

mkdir -p ../../bin
if [ ! -x ../../bin/xmlpeers ] || [ peers/peers.cc -nt ../../bin/xmlpeers ] || [ setup.sh -nt ../../bin/xmlpeers ]; then
	# shellcheck disable=SC2046 # flags are words
	g++ -std=c++17 -O2 -Wall -Wextra $(pkg-config --cflags libxml-2.0 expat) -o ../../bin/xmlpeers peers/peers.cc \
		$(pkg-config --libs libxml-2.0 expat) -lpugixml
fi
