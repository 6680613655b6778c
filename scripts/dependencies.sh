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
missing="" reasons=""

# need PACKAGE WHY COMMAND...: the package is missing unless the command succeeds.
need() {
    package=$1 why=$2
    shift 2
    if ! "$@" >/dev/null 2>&1; then
        missing="$missing $package"
        reasons="$reasons$(printf '\n  %-22s %s' "$package" "$why")"
    fi
}

need gcc "links the program" command -v cc
need libc6-dev "links the program" test -e /usr/include/stdio.h
if [ "$target" != build ]; then
    need iproute2 "hosts and wires: network namespaces, TAP and veth interfaces" command -v ip
    need iputils-ping "traffic of hosts: ping" command -v ping
    need traceroute "traffic of hosts: traceroute" command -v traceroute
    need iperf3 "traffic of hosts: TCP at full speed" command -v iperf3
    need python3 "prints figures in tables" test -x /usr/bin/python3
fi
if [ "$target" = test ]; then
    need python3-pytest "runs the end-to-end tests" /usr/bin/python3 -c 'import pytest'
    need python3-pytest-xdist "runs several end-to-end tests at once" /usr/bin/python3 -c 'import xdist'
    need python3-scapy "makes and reads single packets" /usr/bin/python3 -c 'import scapy'
    need mtr-tiny "traffic of hosts: mtr" command -v mtr
    need nmap "traffic of hosts: nping" command -v nping
    need dnsmasq-base "a DHCP server" command -v dnsmasq
    need bird2 "a routing daemon in Linux: BIRD" command -v bird
    need frr "a routing daemon in Linux: FRR" test -x /usr/lib/frr/zebra
    need ethtool "offloads of the hosts' interfaces" command -v ethtool
    need tcpdump "reads captures, and compares filters" command -v tcpdump
    need tshark "reads captures" command -v tshark
    need graphviz "draws the graph of the docs ('make graph')" command -v dot
    need clang "compiles a test's XDP program" command -v clang
    need chromium "opens report pages of the load tester" command -v chromium
    need tmux "a terminal for the CLI and the load tester's console" command -v tmux
    need dpdk-dev "a memif peer: dpdk-testpmd" command -v dpdk-testpmd
    need librte-net-memif23 "a memif peer: its driver" sh -c "ls /usr/lib/*/dpdk/pmds-*/librte_net_memif.so.*"
    need qemu-system-x86 "a host with a kernel that has VLANs" command -v qemu-system-x86_64
    need busybox-static "the programs of that host" test -x /bin/busybox
    need cpio "packs the disk of that host" command -v cpio
fi

if [ -n "$missing" ]; then
    install="apt-get install --yes --no-install-recommends$missing"
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        echo "Installing what 'make $target' needs:$reasons"
        export DEBIAN_FRONTEND=noninteractive
        # Package lists may be old, or not there at all.
        $install || { apt-get update && $install; }
    else
        echo "Not installed, but 'make $target' needs it:$reasons"
        echo "Please run:    sudo $install"
    fi
fi

if ! command -v cargo >/dev/null; then
    echo "Not installed: Rust (cargo). How to get it, in one command: https://rustup.rs"
    exit 1
fi
