# Sourced by `run` and `run_dev_servers`.
# shellcheck shell=bash
# shellcheck source=../node_support/modules.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../node_support/modules.sh"

fail() {
    printf 'browser tests: %s\n' "$*" >&2
    exit 1
}

# find_chromium: prints the browser's path. Exits with 77, with the reason, where this system has no package of one.
find_chromium() {
    local found=${ATOLL_CHROMIUM:-} name
    for name in chromium google-chrome google-chrome-stable; do
        [[ -n $found ]] || found=$(command -v "$name" || true)
    done
    if [[ -z $found ]]; then
        if (. /etc/os-release 2>/dev/null && [[ ${ID:-} == ubuntu ]]); then
            printf 'SKIPPED:\n  no Chromium: Ubuntu has it as a snap only; name a browser in ATOLL_CHROMIUM\n' >&2
            exit 77
        fi
        fail 'there is no Chromium: run scripts/setup --tests, or name one in ATOLL_CHROMIUM'
    fi
    printf '%s' "$found"
}
