#!/bin/bash
# Runs the tests, part by part: 'scripts/test.sh crates models end-to-end' ('make test'), or some of them. Whatever
# becomes of a part, the next one runs. At the end: how long each took, what failed, and the totals. With QUICK=1 the
# slow tests are left out ('make test-quick').
#
# An end-to-end test that fails beside others is run once more when nothing else runs. When it passes then, the run
# passes, and the end names it: on a loaded machine a deadline can pass that has nothing to do with the change.
set -uo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-/usr/bin/python3}
# Most of an end-to-end test is waiting: a few run at once, each with routers, hosts and wires of its own.
AT_ONCE=${AT_ONCE:-4}
# More tests that fail than this are no accident: they are not run again.
RUN_AGAIN=12

out=target/test-output
mkdir -p "$out"
rm -f "$out"/*
passed=0 failed=0 skipped=0
times="" broken="" recovered=""

# The command of a part, what it says and how long it took.
step() {
    local name=$1
    shift
    echo "== $name: $*"
    local begun=$SECONDS
    "$@" 2>&1 | tee "$out/$name.log"
    local status=${PIPESTATUS[0]}
    times+=$(printf '  %-12s %5d s' "$name" $((SECONDS - begun)))$'\n'
    return "$status"
}

count_cargo() {
    local sums='/^test result: / { p += $4; f += $6; s += $8 } END { print p + 0, f + 0, s + 0 }'
    read -r p f s < <(awk "$sums" "$out/$1.log")
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

crates() {
    # How cost grows with the work is measured at length.
    step crates cargo test --workspace --locked --no-fail-fast -- ${QUICK:+--skip growth::} || broken+=" crates"
    count_cargo crates
}

# Every interleaving of readers and a writer. They run for seconds: to optimise them would take longer.
models() {
    export RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_INCREMENTAL=0
    step models cargo test -p quiver-rcu -p quiver-graph -p quiver-tables --test models --locked || broken+=" models"
    unset RUSTFLAGS CARGO_TARGET_DIR CARGO_PROFILE_DEV_OPT_LEVEL CARGO_INCREMENTAL
    count_cargo models
}

# One part of the end-to-end tests. What pytest calls an error has failed.
pytests() {
    local name=$1
    shift
    # 5: nothing was left to run, by PYTEST or by the marks.
    QUIVER_FAILED="$out/$name.failed" step "$name" "$PYTHON" -m pytest "$@" || [ $? -eq 5 ] || {
        # Nothing says which test failed when the runner itself did.
        [ -s "$out/$name.failed" ] || { broken+=" $name"; failed=$((failed + 1)); }
    }
    read -r p s < <(awk '/^=* ?[0-9]+ [a-z]+.* in [0-9.]+s/ {
        gsub(/[=,]/, "")
        for (i = 1; i < NF; i++) { if ($(i + 1) == "passed") p += $i; if ($(i + 1) == "skipped") s += $i } }
        END { print p + 0, s + 0 }' "$out/$name.log")
    passed=$((passed + p)) skipped=$((skipped + s))
    sort -u -o "$out/failed" "$out/failed" "$out/$name.failed" 2>/dev/null || true
}

end_to_end() {
    step build cargo build -p quiver --locked || { broken+=" build"; return; }
    if ! "$PYTHON" -c 'import pytest, xdist' 2>/dev/null; then
        echo 'pytest or pytest-xdist is not installed (make deps): end-to-end tests are skipped'
        return
    fi
    : >"$out/failed"
    # PYTEST holds options, such as '-k arp -x'.
    # shellcheck disable=SC2086
    pytests end-to-end -n "$AT_ONCE" -m 'not alone' ${QUICK:+--quick} ${PYTEST:-}
    # shellcheck disable=SC2086
    [ -n "${QUICK:-}" ] || pytests alone -m alone ${PYTEST:-}
    run_again
}

run_again() {
    local some
    mapfile -t some <"$out/failed"
    [ "${#some[@]}" -gt 0 ] || return
    if [ "${#some[@]}" -le "$RUN_AGAIN" ]; then
        QUIVER_FAILED="$out/again.failed" step again "$PYTHON" -m pytest "${some[@]}" || true
        # A test that does not fail again has passed, unless the runner came to nothing.
        if grep -qE '^=* ?[0-9]+ (passed|failed).* in [0-9.]+s' "$out/again.log"; then
            touch "$out/again.failed"
            recovered=$(sort -u "$out/again.failed" | comm -13 - "$out/failed")
            sort -u "$out/again.failed" -o "$out/failed"
        fi
    fi
    local again
    again=$(grep -c . <<<"$recovered")
    passed=$((passed + again))
    failed=$((failed + $(wc -l <"$out/failed")))
    [ ! -s "$out/failed" ] || broken+=" end-to-end"
}

for part; do
    case $part in
        crates) crates ;;
        models) models ;;
        end-to-end) end_to_end ;;
        *) echo "$0: $part: no part of the tests; there are: crates models end-to-end" >&2; exit 2 ;;
    esac
done

echo
echo "Times:"
printf '%s' "$times"
[ -z "$recovered" ] || { echo "Failed beside others, passed alone:"; sed 's/^/  /' <<<"$recovered"; }
if [ -n "$broken" ]; then
    echo "Failed:"
    sed -n 's/^test \(.*\) \.\.\. FAILED$/  \1/p' "$out/crates.log" "$out/models.log" 2>/dev/null
    sed 's/^/  /' "$out/failed" 2>/dev/null
    echo "Parts that failed:$broken (their output: $out/)"
fi
echo "$((passed + failed)) tests run"
echo "$passed passed, $failed failed, $skipped skipped"
[ -z "$broken" ] && [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
