#!/usr/bin/env bash
# A generator of one's own is named by its import path; whoever verifies may draw it again.
set -euo pipefail
cd "$(dirname "$0")"
work=${1:-build}
rm -rf "$work" && mkdir -p "$work" && cp audit.toml make_table.py mine.py "$work" && cd "$work"
export PROXYGUARD_HOME=$PWD/home PYTHONPATH=$PWD
python make_table.py

proxyguard init audit --declaration audit.toml
proxyguard run audit
proxyguard verify audit --redraw 2 --run-named-code
echo "The page: $PWD/audit/report.html"
