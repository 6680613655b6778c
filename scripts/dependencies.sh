#!/bin/sh
# Checks for what a target of the Makefile needs: 'build', 'demo' or 'test', each of which needs what the ones before it
# need. As root on Debian or Ubuntu it installs what is missing, and says what for; else it says how, and goes on: tests
# of a program that is missing are skipped by name.
set -eu

target=${1:-test}
case "$target" in
    build|demo|test) ;;
    *) echo "usage: $0 [build|demo|test]" >&2; exit 2 ;;
esac

# Some programs lie where users' shells do not look.
PATH=$PATH:/usr/sbin:/sbin
missing=""

# need PACKAGE COMMAND...: the package is missing unless the command succeeds.
need() {
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}

need gcc command -v cc
need libc6-dev test -e /usr/include/stdio.h
if [ "$target" != build ]; then
    need iproute2 command -v ip
    need iputils-ping command -v ping
    need traceroute command -v traceroute
    need iperf3 command -v iperf3
    need python3 test -x /usr/bin/python3
fi
if [ "$target" = test ]; then
    need mtr-tiny command -v mtr
    need nmap command -v nping
    need dnsmasq-base command -v dnsmasq
    need clang command -v clang
    need ethtool command -v ethtool
    need tcpdump command -v tcpdump
    need tshark command -v tshark
    need chromium command -v chromium
    need tmux command -v tmux
    need dpdk-dev command -v dpdk-testpmd
    need librte-net-memif23 sh -c "ls /usr/lib/*/dpdk/pmds-*/librte_net_memif.so.*"
    need qemu-system-x86 command -v qemu-system-x86_64
    need busybox-static test -x /bin/busybox
    need cpio command -v cpio
    need python3-pytest /usr/bin/python3 -c 'import pytest'
    need python3-pytest-xdist /usr/bin/python3 -c 'import xdist'
    need python3-scapy /usr/bin/python3 -c 'import scapy'
fi

if [ -n "$missing" ]; then
    install="apt-get install --yes --no-install-recommends$missing"
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        echo "Installing what 'make $target' needs:$missing"
        export DEBIAN_FRONTEND=noninteractive
        # Package lists may be old, or not there at all.
        $install || { apt-get update && $install; }
    else
        echo "Not installed, but 'make $target' needs it:$missing"
        echo "Please run:    sudo $install"
    fi
fi

if ! command -v cargo >/dev/null; then
    echo "Not installed: Rust (cargo). How to get it, in one command: https://rustup.rs"
    exit 1
fi
