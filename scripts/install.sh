#!/bin/sh
# Installs Quiver, or removes what was installed:
#
#     scripts/install.sh install BINARY
#     scripts/install.sh uninstall
#
# From the environment: PREFIX (/usr/local), SYSCONFDIR (/etc), DESTDIR (nothing), which is put
# before every path, for packages.
#
# What was made is written down in PREFIX/share/quiver/manifest, a line each: 'directory PATH',
# 'file PATH', 'link PATH', 'config SHA256 PATH'. Removing goes by it, so that it removes that
# and nothing else. A configuration that somebody has changed is neither replaced nor removed.
set -eu

PREFIX=${PREFIX:-/usr/local}
SYSCONFDIR=${SYSCONFDIR:-/etc}
DESTDIR=${DESTDIR:-}
here=$(cd "$(dirname "$0")/.." && pwd)

bindir=$PREFIX/bin
unitdir=$PREFIX/lib/systemd/system
manifest=$PREFIX/share/quiver/manifest

say() { echo "quiver: $*"; }

# Whether the manifest has a line that is exactly this.
noted() { [ -e "$DESTDIR$manifest" ] && grep -qxF -- "$1" "$DESTDIR$manifest"; }

note() { noted "$1" || echo "$1" >>"$DESTDIR$manifest"; }

# Makes a directory and those above it, and leaves in $made which ones were not there.
directory() {
    if [ ! -d "$DESTDIR$1" ]; then
        [ "$1" = "$(dirname "$1")" ] || directory "$(dirname "$1")"
        mkdir -m 755 "${DESTDIR:-}$1"
        made="$made
directory $1"
    fi
}

# put MODE FROM TO
put() {
    directory "$(dirname "$3")"
    # A new file under the name: a program that runs is not written into.
    install -m "$1" "$2" "$DESTDIR$3.new"
    mv -f "$DESTDIR$3.new" "$DESTDIR$3"
    made="$made
file $3"
}

checksum() { sha256sum "$1" | cut -d ' ' -f 1; }

put_config() {
    to=$SYSCONFDIR/quiver/startup.conf
    directory "$(dirname "$to")"
    sed "s|@sysconfdir@|$SYSCONFDIR|" "$here/packaging/startup.conf" >"$work/startup.conf"
    sum=$(checksum "$work/startup.conf")
    if [ -e "$DESTDIR$to" ] && ! noted "config $(checksum "$DESTDIR$to") $to"; then
        say "$DESTDIR$to is kept: it is not as we installed it (ours: packaging/startup.conf)"
        return
    fi
    install -m 640 "$work/startup.conf" "$DESTDIR$to"
    made="$made
config $sum $to"
}

# put_name NAME: one that scripts call, unless it is somebody else's.
put_name() {
    link=$bindir/$1
    if [ "$(readlink "$DESTDIR$link" 2>/dev/null)" != quiver ]; then
        other=$DESTDIR$link
        [ -e "$other" ] || [ -L "$other" ] || other=""
        [ -n "$other$DESTDIR" ] || other=$(command -v "$1" || true)
        if [ -n "$other" ]; then
            say "$1 is not linked to quiver: there is $other"
            return
        fi
        ln -s quiver "$DESTDIR$link"
    fi
    made="$made
link $link"
}

# generated TO WORD...: what the program itself prints.
generated() {
    to=$1
    shift
    if "$binary" "$@" >"$work/generated" 2>/dev/null; then
        put 644 "$work/generated" "$to"
    else
        say "$DESTDIR$to is left out: this build does not print it (quiver $*)"
    fi
}

do_install() {
    binary=$1
    [ -x "$binary" ] || { say "$binary is not built (make build)" >&2; exit 1; }
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    made=""
    directory "$(dirname "$manifest")"
    put 755 "$binary" "$bindir/quiver"
    # Where backtraces and gdb look for it.
    [ ! -e "$binary.debug" ] || put 644 "$binary.debug" "$bindir/.debug/quiver.debug"
    put_name vppctl
    put_name trex-loadtest
    sed "s|@bindir@|$bindir|; s|@sysconfdir@|$SYSCONFDIR|" "$here/packaging/quiver.service" >"$work/quiver.service"
    put 644 "$work/quiver.service" "$unitdir/quiver.service"
    generated "$PREFIX/share/bash-completion/completions/quiver" completion bash
    generated "$PREFIX/share/man/man1/quiver.1" generate man
    put_config
    # One configuration is ours at a time.
    if [ -e "$DESTDIR$manifest" ]; then
        case $made in *"
config "*)
            grep -v '^config ' "$DESTDIR$manifest" >"$work/manifest" || true
            cat "$work/manifest" >"$DESTDIR$manifest"
            ;;
        esac
    fi
    echo "$made" | while read -r line; do
        [ -z "$line" ] || note "$line"
    done
    chmod 644 "$DESTDIR$manifest"
    say "installed under $DESTDIR$PREFIX; to run it now and at each start:"
    say "    systemctl daemon-reload; systemctl enable --now quiver"
}

# Goes through the manifest backwards: what lies in a directory before the directory.
do_uninstall() {
    [ -e "$DESTDIR$manifest" ] ||
        { say "nothing is installed under $DESTDIR$PREFIX (no $DESTDIR$manifest)" >&2; exit 1; }
    lines=$(tac "$DESTDIR$manifest")
    rm -f "$DESTDIR$manifest"
    # Files first, then directories from the deepest to the first.
    echo "$lines" | while read -r kind rest; do
        case $kind in
            file) rm -f "$DESTDIR$rest" ;;
            link) [ "$(readlink "$DESTDIR$rest" 2>/dev/null)" != quiver ] || rm -f "$DESTDIR$rest" ;;
            config)
                path=${rest#* }
                if [ -e "$DESTDIR$path" ] && [ "$(checksum "$DESTDIR$path")" != "${rest%% *}" ]; then
                    say "$DESTDIR$path is kept: it has been changed"
                else
                    rm -f "$DESTDIR$path"
                fi
                ;;
        esac
    done
    echo "$lines" | while read -r kind rest; do
        # What others have put there meanwhile keeps the directory.
        [ "$kind" != directory ] || rmdir "$DESTDIR$rest" 2>/dev/null || true
    done
    # A package's scripts do that by themselves.
    [ -n "$DESTDIR" ] || say "removed; if it ran as a service: systemctl disable --now quiver; systemctl daemon-reload"
}

case "${1:-}" in
    install) do_install "${2:?which binary?}" ;;
    uninstall) do_uninstall ;;
    *) sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
