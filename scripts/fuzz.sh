#!/bin/bash
# Feeds parsers with what libFuzzer makes up: 'fuzz.sh run SECONDS [TARGET...]'. What covers something
# new is kept in target/fuzz/TARGET from run to run; 'fuzz.sh keep TARGET...' takes the least of it that
# covers as much over into fuzz/corpus/TARGET. An input that does harm lies in target/fuzz/harm; give
# it to fuzz/corpus/TARGET when the fault is mended, so that it stays so.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "cargo-fuzz is missing: cargo install cargo-fuzz" >&2
    exit 1
fi
# libFuzzer's instrumentation is an unstable flag of the compiler.
export RUSTC_BOOTSTRAP=1
here=target/fuzz
mkdir -p "$here/harm"
all=$(cargo fuzz list)

fuzz() { # TARGET FOLDERS... -- OPTIONS...
    local sanitizer=address
    # A router for each input is slow to make under it, and packets lie in memory that it does not watch.
    case "$1" in frames | commands | configuration) sanitizer=none ;; esac
    cargo fuzz run --sanitizer "$sanitizer" --target-dir "$here/build-$sanitizer" "$@"
}

case "${1:-}" in
run)
    seconds=$2
    shift 2
    for target in ${*:-$all}; do
        echo "--- $target, $seconds s"
        mkdir -p "$here/$target"
        fuzz "$target" "$here/$target" "fuzz/corpus/$target" -- \
            -max_total_time="$seconds" -timeout=20 -print_final_stats=1 -artifact_prefix="$here/harm/$target-"
    done
    ;;
keep)
    shift
    for target in "$@"; do
        mkdir -p "$here/least"
        rm -rf "$here/least/$target" && mkdir "$here/least/$target"
        fuzz "$target" "$here/least/$target" "fuzz/corpus/$target" "$here/$target" -- -merge=1
        cp "$here/least/$target"/* "fuzz/corpus/$target/"
    done
    ;;
*)
    sed -n '2,5p' "$0"
    exit 1
    ;;
esac
