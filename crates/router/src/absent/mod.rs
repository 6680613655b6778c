//! Capabilities of VPP's that this version does not have: the words with which their commands begin, and what to use
//! instead where there is something. Whoever types one is told so, and not that the word is unknown.

use crate::Router;
use command::CommandSet;

/// First words of commands, and what is known instead; empty: nothing.
const ABSENT: &[(&str, &str)] = &[
    ("nat44", NAT),
    ("nat64", NAT),
    ("nat66", NAT),
    ("nat", NAT),
    ("set nat", NAT),
    ("set interface nat44", NAT),
    ("set interface nat64", NAT),
    ("set interface nat66", NAT),
    ("show nat44", NAT),
    ("show nat64", NAT),
    ("det44", NAT),
    ("dslite", NAT),
    ("map", NAT),
    ("cnat", NAT),
    ("bfd", ""),
    ("show bfd", ""),
    ("create bond", BOND),
    ("bond", BOND),
    ("show bond", BOND),
    ("set interface bond", BOND),
    ("lacp", BOND),
    ("show lacp", BOND),
    ("create bridge-domain", BRIDGE),
    ("show bridge-domain", BRIDGE),
    ("set bridge-domain", BRIDGE),
    ("set interface l2", BRIDGE),
    ("l2fib", BRIDGE),
    ("show l2fib", BRIDGE),
    ("clear l2fib", BRIDGE),
    ("l3xc", ""),
    ("create vxlan", TUNNEL),
    ("show vxlan", TUNNEL),
    ("create vxlan-gpe", TUNNEL),
    ("create gre", TUNNEL),
    ("show gre", TUNNEL),
    ("create geneve", TUNNEL),
    ("create gtpu", TUNNEL),
    ("create ipip", TUNNEL),
    ("show ipip", TUNNEL),
    ("create l2tpv3", TUNNEL),
    ("create pppoe", TUNNEL),
    ("gtpu", TUNNEL),
    ("ipsec", CRYPTO),
    ("show ipsec", CRYPTO),
    ("create ipsec", CRYPTO),
    ("set interface ipsec", CRYPTO),
    ("ikev2", CRYPTO),
    ("show ikev2", CRYPTO),
    ("wireguard", CRYPTO),
    ("show wireguard", CRYPTO),
    ("show crypto", CRYPTO),
    ("set acl-plugin", FILTER),
    ("show acl-plugin", FILTER),
    ("classify", FILTER),
    ("show classify", FILTER),
    ("set interface input acl", FILTER),
    ("set interface output acl", FILTER),
    ("abf", FILTER),
    ("policer", ""),
    ("configure policer", ""),
    ("show policer", ""),
    ("qos", ""),
    ("set sr", "MPLS is here (`mpls local-label`)"),
    ("sr", "MPLS is here (`mpls local-label`)"),
    ("show sr", "MPLS is here (`show mpls fib`)"),
    ("lisp", ""),
    ("one", ""),
    ("vrrp", ""),
    ("show vrrp", ""),
    ("ip mroute", ""),
    ("show ip mfib", ""),
    ("show ip6 mfib", ""),
    ("igmp", ""),
    ("lb", ""),
    ("lcp", "`ip punt redirect` gives the host its packets"),
    ("show lcp", "`show ip punt redirect` lists what the host is given"),
    ("flowprobe", "`set interface span` copies packets to another interface"),
    ("ipfix", "`set interface span` copies packets to another interface"),
    ("set ipfix", "`set interface span` copies packets to another interface"),
    ("nsim", ""),
    ("set nsim", ""),
    ("dns", ""),
    ("set dhcp proxy", "the DHCP client is here (`set dhcp client`)"),
    ("dhcp6", "`set ip6 address` and routes are stated"),
    ("create vhost-user", DEVICE),
    ("create interface rdma", DEVICE),
    ("create interface avf", DEVICE),
    ("create interface vmxnet3", DEVICE),
    ("create interface virtio", DEVICE),
    ("show dpdk", DEVICE),
    ("set dpdk", DEVICE),
    ("show vhost-user", DEVICE),
    ("session", ""),
    ("show session", ""),
    ("show tcp", ""),
    ("test", "`quiver loadtest` and `quiver bench` measure"),
    ("snort", ""),
    ("mactime", ""),
    ("perfmon", "`show runtime` has clocks by node"),
    ("show perfmon", "`show runtime` has clocks by node"),
    ("event-logger", "`show logging`, and `show threads` for a worker that is stuck"),
    ("show event-logger", "`show logging`, and `show threads` for a worker that is stuck"),
    ("api", "every command answers as JSON (`quiver cli --json`)"),
    ("show api", "every command answers as JSON (`quiver cli --json`)"),
    ("set interface feature", "features follow from what is set on an interface (`show interface features`)"),
    ("set ip flow-hash", FLOW_HASH),
    ("set ip6 flow-hash", FLOW_HASH),
    ("pcap dispatch", "`trace add` follows packets through the graph, `pcap trace` writes them"),
];

const NAT: &str = "`ip punt redirect` gives packets to the host, whose netfilter can translate";
const BOND: &str = "let the kernel bond the devices, and take the bond with `create host-interface`";
const BRIDGE: &str = "let the kernel bridge, and take an end with `create tap` or `create host-interface`";
const TUNNEL: &str = "let the kernel make the tunnel's device, and take it with `create host-interface`";
const CRYPTO: &str = "the kernel's IPsec or WireGuard reaches packets by `create tap` and routes";
const FILTER: &str = "`set urpf` checks sources; `ip route add ... via prohibit` refuses destinations";
const DEVICE: &str = "`create host-interface` and `create interface af_xdp` take devices of the kernel, `create interface memif` other programs";
const FLOW_HASH: &str = "paths are chosen by addresses, protocol, ports, and the flow label of IPv6";

pub fn register(set: &mut CommandSet<Router>) {
    for (words, instead) in ABSENT {
        let instead = instead.replace('`', "'");
        let instead = if instead.is_empty() { String::new() } else { format!("; {instead}") };
        set.refuse(words, &format!("not in this version{instead}"));
    }
}
