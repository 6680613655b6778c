#!/bin/sh
# Moves a program's debug information into a file beside it: PROGRAM.debug. The program gets five times smaller. It
# keeps its symbols and names that file, which backtraces and gdb then read. What cargo linked under deps/ stays as it
# is.
set -eu

program=$1
into=$program.debug
# Cargo links its own copy to this name again at each build. Without debug information there is nothing to do.
readelf -S "$program" | grep -q ' \.debug_info' || exit 0
rm -f "$into"
objcopy --only-keep-debug "$program" "$into"
# A link to a file in the same directory: the name alone is written into the program.
(cd "$(dirname "$program")" && objcopy --strip-debug --add-gnu-debuglink="$(basename "$into")" \
    "$(basename "$program")" "$(basename "$program").small")
mv -f "$program.small" "$program"
