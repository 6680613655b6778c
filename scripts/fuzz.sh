#!/bin/bash
# Feeds parsers with what libFuzzer makes up: `fuzz.sh run SECONDS [TARGET...]'. What covers something
# new is kept in target/fuzz/TARGET from run to run; `fuzz.sh keep TARGET...' takes the least of it that
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

fuzz() { # ACTION TARGET FOLDERS... -- OPTIONS...
    cargo fuzz "$1" --sanitizer address --target-dir "$here/build" "${@:2}"
}

case "${1:-}" in
run)
    seconds=$2
    shift 2
    for target in ${*:-$all}; do
        echo "--- $target, $seconds s"
        mkdir -p "$here/$target"
        fuzz run "$target" "$here/$target" "fuzz/corpus/$target" -- \
            -max_total_time="$seconds" -timeout=20 -print_final_stats=1 -artifact_prefix="$here/harm/$target-"
    done
    ;;
keep)
    shift
    for target in "$@"; do
        mkdir -p "$here/least"
        rm -rf "$here/least/$target" && mkdir "$here/least/$target"
        fuzz run "$target" "$here/least/$target" "fuzz/corpus/$target" "$here/$target" -- -merge=1
        cp "$here/least/$target"/* "fuzz/corpus/$target/"
    done
    ;;
*)
    sed -n '2,5p' "$0"
    exit 1
    ;;
esac
