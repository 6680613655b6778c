#!/bin/bash
# 'make demo': two Linux hosts with Quiver between them, and real traffic through it.
#
# The hosts are network namespaces. Everything is taken down at the end. The exit code is 0
# only if each kind of traffic has passed.
set -euo pipefail
cd "$(dirname "$0")/.."

play=no
case "${1-}" in
    "") ;;
    --play) play=yes ;;
    *) echo "usage: $0 [--play]" >&2; exit 2 ;;
esac
if [ "$(id -u)" -ne 0 ]; then
    echo "The demo makes network namespaces, which only root may: sudo make demo" >&2
    echo "(Without root, 'make bench' shows Quiver at work.)" >&2
    exit 1
fi

quiver=$PWD/target/release/quiver
a=quiver-demo-a-$$
b=quiver-demo-b-$$
work=$(mktemp -d -t quiver-demo.XXXXXX)
router=

clean_up() {
    status=$?
    trap - EXIT
    [ -z "$router" ] || { kill "$router" 2>/dev/null && wait "$router" || true; }
    for host in "$a" "$b"; do
        # Namespaces live as long as a process in them.
        ip netns pids "$host" 2>/dev/null | xargs -r kill 2>/dev/null || true
        ip netns delete "$host" 2>/dev/null || true
    done
    if [ "$status" -ne 0 ] && [ -s "$work/quiver.log" ]; then
        echo "The router's log:" >&2
        cat "$work/quiver.log" >&2
    fi
    rm -rf "$work"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

if [ -t 1 ]; then bold=$(tput bold 2>/dev/null || true) plain=$(tput sgr0 2>/dev/null || true); else bold= plain=; fi
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
# Shows a command as one would type it, then runs it in a host.
on() {
    host=$1
    shift
    case "$host" in "$a") name=a ;; *) name=b ;; esac
    printf '%s$ %s\n' "host $name" "$*"
    ip netns exec "$host" "$@"
}
cli() { printf 'quiver# %s\n' "$*"; "$quiver" cli -s "$work/cli.sock" "$@"; }
fail() { printf '\n%s\n' "FAILED: $*" >&2; exit 1; }

cat <<DRAWING

      host a                    Quiver                     host b
   +-----------+         +-----------------+         +-----------+
   |      eth0 +---------+ e0           e1 +---------+ eth0      |
   +-----------+   tap   +-----------------+   tap   +-----------+
     10.0.1.2        10.0.1.1         10.0.2.1         10.0.2.2

DRAWING

for host in "$a" "$b"; do
    ip netns add "$host"
    ip netns exec "$host" sh -c 'echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6' 2>/dev/null || true
    ip -n "$host" link set lo up
done

cat > "$work/startup.conf" <<CONFIG
unix {
  nodaemon
  cli-listen $work/cli.sock
  log $work/quiver.log
  exec $work/demo.cli
}
CONFIG
cat > "$work/demo.cli" <<COMMANDS
create tap name e0 host-if-name eth0 host-ns $a host-ip4-addr 10.0.1.2/24
create tap name e1 host-if-name eth0 host-ns $b host-ip4-addr 10.0.2.2/24
set interface ip address e0 10.0.1.1/24
set interface ip address e1 10.0.2.1/24
set interface state e0 up
set interface state e1 up
COMMANDS
say "The router's configuration, startup.conf:"
cat "$work/startup.conf"
say "and the commands that it runs at start, demo.cli:"
cat "$work/demo.cli"

say "Start: quiver run -c startup.conf"
"$quiver" run -c "$work/startup.conf" &
router=$!
for _ in $(seq 100); do
    ! grep -q 'startup commands' "$work/quiver.log" 2>/dev/null || break
    kill -0 "$router" 2>/dev/null || fail "the router did not start"
    sleep 0.05
done
grep -q 'startup commands.*done' "$work/quiver.log" || fail "the start-up commands were not carried out"
ip -n "$a" route add default via 10.0.1.1
ip -n "$b" route add default via 10.0.2.1
echo "It runs as process $router; each host has it as its default gateway."

say "1. Can host a reach host b?"
on "$a" ping -n -c 3 -i 0.2 10.0.2.2 | tee "$work/ping" || true
grep -q ' 3 received' "$work/ping" || fail "pings were lost"

say "2. Which way do packets take? (The router answers when a TTL runs out.)"
on "$a" traceroute -n -q 1 -w 2 10.0.2.2 | tee "$work/traceroute" || true
grep -qE '^ 1  10\.0\.1\.1 ' "$work/traceroute" || fail "the router is not on the way"
grep -qE '^ 2  10\.0\.2\.2 ' "$work/traceroute" || fail "host b is not at its end"

say "3. How fast? (Hosts, router and both ends of iperf3 share this machine's cores.)"
ip netns exec "$b" iperf3 --server --daemon
for _ in $(seq 50); do
    ! ip netns exec "$b" ss -Hltn | grep -q :5201 || break
    sleep 0.05
done
# measure NAME OPTIONS...: two seconds of iperf3, judged by its report.
measure() {
    name=$1
    shift
    printf 'host a$ iperf3 -c 10.0.2.2 -t 2 %s\n' "$*"
    ip netns exec "$a" iperf3 -c 10.0.2.2 -t 2 --json "$@" > "$work/iperf3.json" || fail "iperf3 $name did not run"
    python3 - "$name" "$work/iperf3.json" <<'PYTHON' || fail "no $name traffic passed"
import json, sys
name, report = sys.argv[1], json.load(open(sys.argv[2]))["end"]
received = report.get("sum_received") or report["sum"]
rate, count = received["bits_per_second"] / 1e9, received["bytes"]
if name == "UDP":
    total = report["sum"]
    passed = total["packets"] - total["lost_packets"]
    print(f"  {name}: {passed} of {total['packets']} datagrams arrived, {rate:.2f} Gbit/s")
    sys.exit(passed < total["packets"] // 2)
print(f"  {name}: {count / 1e6:.0f} MB arrived, {rate:.2f} Gbit/s")
sys.exit(count < 1_000_000)
PYTHON
}
measure TCP
measure UDP --udp --bitrate 200M

say "4. What did the router see?"
cli show interface
say "Where did its time go? (a packet passes one node after another)"
cli show runtime

say "5. One ping, followed from node to node:"
"$quiver" cli -s "$work/cli.sock" clear trace
cli trace add virtio-input 1
ip netns exec "$a" ping -n -c 1 10.0.2.2 > /dev/null || fail "the traced ping was lost"
cli show trace

"$quiver" cli -s "$work/cli.sock" show ledger | grep -q '^balanced' || fail "packets are not accounted for"

say "6. How much does a router carry? The load tester sends eight kinds of traffic through Quiver, then through Linux."
"$quiver" loadtest matrix --dut quiver,kernel --duration 0.5 --output target/demo || fail "the load tester"
[ -s target/demo/report.html ] || fail "the load tester drew no page"

say "The charts of that, to look at in a browser: $PWD/target/demo/report.html"
if [ "$play" = no ]; then
    say "All of it has passed. To stay and play on: make demo PLAY=1"
    exit 0
fi
say "All of it has passed. The hosts and the router stay until you leave."
cat <<PLAY
From another terminal, as root:
  a shell in host a     ip netns exec $a bash
  the router's CLI      $quiver cli -s $work/cli.sock
  its files             ls $work
Or type commands for the router here, such as 'show ip fib' ('?' lists them, 'quit' ends
the demo).
PLAY
"$quiver" cli -s "$work/cli.sock" || true
