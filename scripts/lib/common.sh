# Sourced by the scripts: words for the person in front of the terminal, where builds live, how to build.
# Everything it prints goes to stderr: stdout belongs to the program that a script ends in.
# shellcheck shell=bash

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
# CMake resolves the build folder in the same way: from the folder where the script was called, without `..` and a slash at its end.
[[ -z ${ATOLL_BUILD_DIR:-} ]] || ATOLL_BUILD_DIR=$(realpath -ms -- "$ATOLL_BUILD_DIR")

say() { printf '%s\n' "$*" >&2; }

die() {
    say "${0##*/}: $*"
    exit 1
}

# Prints the comment block that opens a script, without the leading "# ".
usage() {
    awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0"
}

# The folder that holds the builds: build/ in the checkout; where that cannot be written, a folder of the
# user's own cache. ATOLL_BUILD_DIR names another.
builds_dir() {
    if [[ -n ${ATOLL_BUILD_DIR:-} ]]; then
        printf '%s\n' "$ATOLL_BUILD_DIR"
    elif [[ -w $root/build ]] || [[ ! -e $root/build && -w $root ]]; then
        printf '%s\n' "$root/build"
    else
        local key
        key=$(printf '%s' "$root" | cksum | cut -d ' ' -f 1)
        printf '%s\n' "${XDG_CACHE_HOME:-${HOME:-/tmp/atoll-$UID}/.cache}/atoll/build-$key"
    fi
}

# Jobs for a build: one a processor, each with 2 GB (the largest batch of sources takes 1.6). ATOLL_JOBS overrides.
build_jobs() {
    local processors by_memory
    processors=$(nproc)
    by_memory=$(awk '/^MemAvailable:/ { print int($2 / 2097152) }' /proc/meminfo)
    if [[ -n ${ATOLL_JOBS:-} ]]; then
        printf '%s\n' "$ATOLL_JOBS"
    elif ((by_memory < 1)); then
        printf '1\n'
    else
        printf '%s\n' "$((by_memory < processors ? by_memory : processors))"
    fi
}

# A compiler cache that cannot write its folder fails every compilation: then the compiler runs bare.
check_ccache() {
    command -v ccache >/dev/null || return 0
    local dir=${CCACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/ccache}
    if [[ -z ${CCACHE_DIR:-} && -d ${HOME:-/nonexistent}/.ccache ]]; then
        dir=$HOME/.ccache
    fi
    if ! mkdir -p "$dir" 2>/dev/null || [[ ! -w $dir ]]; then
        export CCACHE_DISABLE=1
    fi
    # Paths below the checkout count relative to it, so that another checkout finds what this one compiled.
    export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$root} CCACHE_NOHASHDIR=1
    # The compiler tells which headers it read: without that each file would first be preprocessed for the cache.
    export CCACHE_DEPEND=1
}

# The value of a variable in a build's CMake cache.
cached() { sed -n "s/^$2:[A-Z]*=//p" "$1/CMakeCache.txt" 2>/dev/null; }

# configure PRESET: makes the build folder of a preset ready and sets `build` to its path. Does nothing when
# it is; starts afresh when the checkout has moved or the compiler cache it was configured with is gone.
configure() {
    build=$(builds_dir)/$1
    local fresh=() launcher
    if [[ -f $build/CMakeCache.txt ]]; then
        launcher=$(cached "$build" CCACHE)
        if [[ $(cached "$build" CMAKE_HOME_DIRECTORY) != "$root" || $(cached "$build" CMAKE_CACHEFILE_DIR) != "$build" ]]; then
            fresh=(--fresh)
        elif [[ -n $launcher && $launcher != *-NOTFOUND && ! -x $launcher ]]; then
            fresh=(--fresh)
        elif [[ -f $build/build.ninja && $(cached "$build" ATOLL_TESTS) != OFF ]]; then
            return 0
        fi
    fi
    mkdir -p "$build" 2>/dev/null || die "cannot write $build: set ATOLL_BUILD_DIR to a folder that you can write"
    (cd "$root" && cmake --preset "$1" -B "$build" -DATOLL_TESTS=ON "${fresh[@]}") >&2 ||
        die "configuring the $1 build failed: see above"
}

# make_targets [TARGET...]: builds in `build`. One builder at a time: two in one folder would spoil it. The builder has
# the lock's descriptor, or the lock would end with the shell that it replaces.
make_targets() {
    check_ccache
    (
        flock -n 9 || { say "waiting for another build in $build"; flock 9; }
        exec ninja -C "$build" -j "$(build_jobs)" "$@"
    ) 9>"$build/.atoll-lock" >&2 || die "the build failed: see above"
}
