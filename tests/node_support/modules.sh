# Sourced by the `run` of a suite.
# shellcheck shell=bash

# install_modules SUITE_DIR TARGET_DIR: installs SUITE_DIR/package-lock.json's packages into TARGET_DIR with this machine's
# npm configuration, once for each version of the lock file. Needs a function `fail` that does not return.
install_modules() {
    local from=$1 into=$2 wanted
    command -v node >/dev/null || fail 'there is no node: run scripts/setup --tests'
    command -v npm >/dev/null || fail 'there is no npm: run scripts/setup --tests'
    wanted=$(cksum <"$from/package-lock.json")
    [[ ! -d $into/node_modules || $(cat "$into/stamp" 2>/dev/null) != "$wanted" ]] || return 0
    mkdir -p "$into"
    cp "$from/package.json" "$from/package-lock.json" "$into/"
    (cd "$into" && npm ci --no-audit --no-fund --ignore-scripts) || fail "npm ci failed in $into: see above"
    printf '%s\n' "$wanted" >"$into/stamp"
}
