#!/usr/bin/env bash
# Two people: the author runs the audit, the steward alone can release the target's key.
set -euo pipefail
cd "$(dirname "$0")"
work=${1:-build}
rm -rf "$work" && mkdir -p "$work" && cp audit.toml make_table.py "$work" && cd "$work"
export PROXYGUARD_HOME=$PWD/author
python make_table.py

proxyguard init audit --declaration audit.toml
proxyguard check audit

# The steward makes a key, once, and tells the author its identity.
proxyguard grant --key steward.key --make-key --json >identity.json
identity=$(python -c 'import json; print(json.load(open("identity.json"))["identity"])')

proxyguard seal audit --steward "$identity"
proxyguard register audit
proxyguard draw audit

# The steward looks at what is asked, and grants it for these releases and nothing else.
proxyguard grant audit --key steward.key --home steward

proxyguard open audit
proxyguard verify audit
echo "The page: $PWD/audit/report.html"
