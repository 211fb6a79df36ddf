#!/usr/bin/env bash
# The verdict of a sealed file of losses is validated, and no guarantee remains (exit code 7): that the
# losses were computed as said is the author's word.
set -euo pipefail
cd "$(dirname "$0")"
work=${1:-build}
rm -rf "$work" && mkdir -p "$work" && cp audit.toml certify.py "$work" && cd "$work"
export PROXYGUARD_HOME=$PWD/home
python certify.py

proxyguard init audit --declaration audit.toml
proxyguard run audit || test $? -eq 7
proxyguard verify audit
echo "The page: $PWD/audit/report.html"
