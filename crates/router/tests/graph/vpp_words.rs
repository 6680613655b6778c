//! Commands in the spellings that VPP documents, for every command that is here: each is read, or refused with a reason
//! that says more than that the word is unknown. Written from the facts of its help texts and examples.

/// Lines that are read, by the command that they are one of.
const READ: &[(&str, &str)] = &[
    ("ip route add", "ip route 172.16.23.0/24 via 10.0.0.2 e0"),
    ("ip route add", "ip route add 172.16.24.0/24 table 7 via 10.0.0.2 e0"),
    ("ip route add", "ip route add table 7 172.16.24.0/24 via 10.0.0.2 e0"),
    ("ip route add", "ip route add 172.16.25.0/24 via 10.0.0.2 e0 resolve-via-attached"),
    ("ip route add", "ip route add count 10 7.0.0.1/32 table 3 via 6.0.0.1 e0"),
    ("ip route add", "ip route add 7.0.0.1/32 via 6.0.0.1 e0 weight 9 via 6.0.0.2 e1 weight 3"),
    ("ip route add", "ip route 2001:db8::/32 via fe80::1 e0 resolve-via-connected"),
    ("ip route add", "ip route 7.0.0.0/8 count 5 via drop"),
    ("ip route add", "ip route add 7.0.0.1/32 via ip4-lookup-in-table 1"),
    ("ip route add", "ip route add 7.0.0.1/32 via 6.0.0.1 next-hop-table 5"),
    ("ip route add", "ip route add 10.0.0.0/24 via 6.0.0.1 e0 out-labels 33 34"),
    ("ip route del", "ip route del 172.16.24.0/24 table 7"),
    ("ip route del", "ip route del 7.0.0.1/32 table 3 via 6.0.0.1 e0"),
    ("ip route del", "ip route del count 10 7.0.0.1/32 table 3 via 6.0.0.1 e0 resolve-via-host"),
    ("ip table add", "ip table 8"),
    ("ip table add", "ip table add 8"),
    ("ip table del", "ip table del 8"),
    ("ip6 table add", "ip6 table 8"),
    ("mpls table add", "mpls table 0"),
    ("mpls table add", "mpls table add 0"),
    ("mpls local-label add", "mpls local-label add eos 33 via 10.0.0.2 e0"),
    ("create loopback interface", "loopback create-interface"),
    ("create loopback interface", "loopback create-interface mac 02:00:00:00:00:01 instance 7"),
    ("create loopback interface", "loop create"),
    ("create loopback interface", "create loopback interface mac de:ad:0:0:0:7"),
    ("delete loopback interface intfc", "loopback delete-interface intfc loop0"),
    ("set interface tag", "set interface tag loop0 uplink"),
    ("delete loopback interface intfc", "delete loopback interface intfc loop0"),
    (
        "create tap",
        "create tap id 0 host-if-name t0 num-rx-queues 2 num-tx-queues 2 rx-ring-size 1024 tx-ring-size 1024 no-gso",
    ),
    (
        "create tap",
        "create tap id 1 hw-addr 2:fe:0:0:0:1 host-ns n host-mac-addr 02:00:00:00:00:02 host-ip4-addr 10.0.0.2/24",
    ),
    (
        "create tap",
        "create tap id 2 host-ip4-gw 10.0.0.1 host-ip6-addr 2001:db8::2/64 host-ip6-gw 2001:db8::1 host-bridge br0",
    ),
    ("create host-interface", "create host-interface name vpp1"),
    ("set ip flow-hash", "set ip flow-hash table 7 dst sport proto"),
    ("set ip6 flow-hash", "set ip6 flow-hash table 8 dst sport dport proto flowlabel"),
    ("create host-interface", "create host-interface name vpp1 hw-addr 02:fe:ac:7c:da:23"),
    ("set interface state", "set interface state GigabitEthernet2/0/0 up"),
    ("set interface ip address", "set interface ip address GigabitEthernet2/0/0 172.16.2.12/24"),
    ("set interface ip address", "set interface ip address del GigabitEthernet2/0/0 all"),
    ("set interface mac address", "set interface mac address e0 aa:bb:cc:dd:ee:1"),
    ("set interface unnumbered", "set interface unnumbered e0 use loop0"),
    ("set interface promiscuous", "set interface promiscuous on GigabitEthernet2/0/0"),
    ("set interface rx-mode", "set interface rx-mode e0 queue 0 interrupt"),
    ("set interface rx-placement", "set interface rx-placement e0 queue 1 worker 2"),
    ("create sub-interfaces", "create sub-interfaces e0 11 dot1q 100 inner-dot1q 200 exact-match"),
    ("set ip neighbor", "set ip neighbor e0 10.0.0.2 dead.beef.babe"),
    ("set ip neighbor", "set ip neighbor e0 10.0.0.3 1:2:3:4:5:6"),
    ("set ip neighbor", "set ip arp GigabitEthernet2/0/0 6.0.0.3 dead.beef.babe"),
    ("set ip neighbor", "set ip arp static e0 6.0.0.3 dead.beef.babe no-fib-entry"),
    ("ip neighbor", "ip neighbor del e0 6.0.0.3 de:ad:be:ef:ba:be"),
    ("show arp", "show ip arp"),
    ("show arp", "show ip arp e0"),
    ("set urpf ip4", "set interface ip source-check GigabitEthernet2/0/0 strict"),
    ("set urpf ip4", "set interface ip source-check GigabitEthernet2/0/0 del"),
    ("set urpf ip4", "set urpf ip4 rx loose e0"),
    ("set ip6 link-local address", "set ip6 link-local address e0 fe80::d0ca"),
    ("enable ip6 interface", "enable ip6 interface e0"),
    ("show ip fib", "show fib memory"),
    ("show ip fib", "show ip fib table 7 summary"),
    ("show ip6 fib", "show ip6 fib 2001:db8::/32"),
    ("show adj", "show adj nbr"),
    ("show adj", "show adj nbr e0"),
    ("show adj", "show adj 3"),
    ("clear interfaces", "clear hardware-interfaces"),
    ("clear interfaces", "clear hardware-interfaces e0"),
    ("clear interfaces", "clear interfaces"),
    ("show version", "show version verbose cmdline"),
    ("show version", "show version cmdline"),
    ("show clock", "show clock verbose"),
    ("show hardware-interfaces", "show hardware-interfaces brief"),
    ("show interface", "show interface e0 features"),
    ("show node", "show node ip4-lookup"),
    ("ping", "ping 172.16.1.2 source GigabitEthernet2/0/0 repeat 2"),
    ("ping", "ping ipv6 2001:db8::2 size 100 interval 0.1 verbose"),
    ("ping", "ping 10.0.0.2 table-id 7 repeat 1 burst 1"),
    ("arping", "arping 100.1.1.10 VirtualEthernet0/0/0"),
    ("arping", "arping 100.1.1.10 VirtualEthernet0/0/0 repeat 3 interval 5"),
    ("arping gratuitous", "arping gratuitous 100.1.1.100 VirtualEthernet0/0/0 repeat 2"),
    ("arping gratuitous", "arping gratuitous 100.1.1.100 VirtualEthernet0/0/0"),
    ("set dhcp client", "set dhcp client intfc GigabitEthernet2/0/0 hostname vpp"),
    ("trace add", "trace add dpdk-input 100"),
    ("pcap trace", "pcap trace rx tx max 35 intfc GigabitEthernet2/0/0 file vppTest.pcap"),
    ("set interface span", "set interface span e0 destination e1 both"),
    ("create memif socket", "create memif socket id 1 filename /run/vpp/memif2.sock"),
    ("set logging size", "set logging size 1024"),
];

/// Lines that are refused, with words of the reason.
const REFUSED: &[(&str, &str)] = &[
    ("nat44 add interface address GigabitEthernet2/0/0", "nat44: not in this version; 'ip punt redirect' gives"),
    ("set int nat44 in e0 out e1", "not in this version; 'ip punt redirect'"),
    ("create bond mode lacp load-balance l34", "create bond: not in this version; let the kernel bond"),
    ("bond add BondEthernet0 e0", "not in this version"),
    ("bfd udp session add interface e0 local-addr 10.0.0.1", "bfd: not in this version"),
    ("set interface l2 bridge e0 200", "not in this version; let the kernel bridge"),
    ("create bridge-domain 10", "not in this version"),
    ("create vxlan tunnel src 10.0.0.1 dst 10.0.0.2 vni 13", "not in this version"),
    ("ipsec sa add 10 spi 1000 esp", "not in this version"),
    ("set acl-plugin acl permit", "not in this version; 'set urpf'"),
    ("policer add name x", "not in this version"),
    ("lcp create e0 host-if e0", "not in this version"),
    ("show event-logger all", "not in this version; 'show logging'"),
    ("create interface rdma host-if enp1s0f0 name rdma0", "not in this version; 'create host-interface'"),
    ("show bond details", "not in this version"),
];

#[test]
fn documented_spellings_are_read() {
    let commands = quiver_router::commands();
    for (name, line) in READ {
        let parsed = commands.parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(parsed.command.name(), *name, "{line}");
    }
}

#[test]
fn what_is_not_here_is_refused_with_a_reason() {
    let commands = quiver_router::commands();
    for (line, reason) in REFUSED {
        let said = commands.parse(line).err().unwrap_or_else(|| panic!("{line} is read")).to_string();
        assert!(said.contains(reason), "{line}: {said}");
    }
    // What is merely misspelled is said as ever.
    let said = commands.parse("create bnod").err().unwrap().to_string();
    assert!(said.starts_with("create: unknown input `bnod'"), "{said}");
}
