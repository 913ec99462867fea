#!/usr/bin/env bash
# Installs nginx and haproxy, which make versus WHAT=proxy compares with, if they are
# missing.
set -euo pipefail

missing=()
# Any of the packages of nginx will do; nginx-light is the smallest.
command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || missing+=(nginx-light)
command -v haproxy >/dev/null || [ -x /usr/sbin/haproxy ] || missing+=(haproxy)
command -v taskset >/dev/null || missing+=(util-linux)
exec bash "$(dirname "$0")/../tools/debian.sh" "${missing[@]}"
