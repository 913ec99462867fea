#!/usr/bin/env bash
# Installs wrk and iperf3, which make versus WHAT=bench compares with, if they are
# missing.
set -euo pipefail

missing=()
for tool in wrk iperf3; do
	command -v "$tool" >/dev/null || missing+=("$tool")
done
exec bash "$(dirname "$0")/../tools/debian.sh" "${missing[@]}"
