//! Commands in the spellings that VPP documents, for every command that is here: each is read, or refused with a reason
//! that says more than that the word is unknown. Written from the facts of its help texts and examples.

/// Lines that are read, by the command that they are one of.
const READ: &[(&str, &str)] = &[
    ("lcp create", "lcp create e0 host-if xe0"),
    ("lcp create", "lcp create e0 host-if xe0 netns dataplane"),
    ("lcp create", "lcp create sw_if_index 1 host-if xe0"),
    ("lcp delete", "lcp delete e0"),
    ("lcp default netns", "lcp default netns dataplane"),
    ("lcp default netns", "lcp default clear netns"),
    ("lcp lcp-sync", "lcp lcp-sync on"),
    ("lcp lcp-sync", "lcp lcp-sync disable"),
    ("lcp lcp-auto-subint", "lcp lcp-auto-subint on"),
    ("lcp lcp-auto-subint", "lcp lcp-auto-subint disable"),
    ("lcp param", "lcp param route-no-paths on"),
    ("lcp param", "lcp param del-static-on-link-down enable del-dynamic-on-link-down off"),
    ("lcp lcp-sync-unnumbered", "lcp lcp-sync-unnumbered enable"),
    ("lcp ethertype enable", "lcp ethertype enable 0x88cc"),
    ("lcp ethertype enable", "lcp ethertype enable ARP"),
    ("show lcp ethertype", "show lcp ethertype"),
    ("show lcp", "show lcp"),
    ("show lcp", "show lcp phy e0"),
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
    ("create host-interface", "create host-interface name vpp1 qdisc-bypass-disable cksum-gso-disable"),
    (
        "create interface af_xdp",
        "create interface af_xdp host-if enp2s0 name x0 rx-queue-size 1024 tx-queue-size 1024 num-rx-queues all \
         zero-copy",
    ),
    (
        "create interface af_xdp",
        "create interface af_xdp host-if enp2s0 prog extern.o netns blue no-zero-copy no-syscall-lock mac-reuse",
    ),
    (
        "create interface memif",
        "create interface memif id 0 socket-id 1 ring-size 1024 buffer-size 2048 hw-addr 02:fe:00:00:00:01 master \
         rx-queues 2 tx-queues 2 secret abc",
    ),
    ("create interface memif", "create interface memif id 0 slave mode ethernet"),
    ("create memif socket", "create memif socket id 2 filename /run/vpp/memif2.sock"),
    ("create packet-generator interface", "create packet-generator interface pg0"),
    ("create sub-interfaces", "create sub-interfaces e0 100"),
    ("create sub-interfaces", "create sub-interfaces e0 100 default"),
    ("create sub-interfaces", "create sub-interfaces e0 100 untagged"),
    ("create sub-interfaces", "create sub-interfaces e0 100-102"),
    ("create sub-interfaces", "create sub-interfaces e0 100 dot1ad 100 inner-dot1q any"),
    ("create sub-interfaces", "create sub-interfaces e0 100 dot1q any"),
    ("create tap", "create tap id 0 if-name tap0 host-ns n"),
    ("create tap", "create tap id 0 num-tx-queues 2 consistent-qp"),
    ("delete host-interface name", "delete host-interface name vpp1"),
    ("delete interface af_xdp", "delete interface af_xdp e0"),
    ("delete interface af_xdp", "delete interface af_xdp sw_if_index 2"),
    ("delete interface memif", "delete interface memif sw_if_index 2"),
    ("delete interface memif", "delete interface memif memif1/0"),
    ("delete tap", "delete tap tap0"),
    ("delete tap", "delete tap sw_if_index 2"),
    ("delete memif socket id", "delete memif socket id 1"),
    ("delete sub-interface", "delete sub-interface e0.100"),
    ("disable ip6 interface", "disable ip6 interface e0"),
    ("echo", "echo a b c"),
    ("ip neighbor", "ip neighbor flush e0"),
    ("ip neighbor", "ip neighbor e0 10.0.0.2 02:fe:00:00:00:01 static no-fib-entry"),
    ("set ip neighbor", "set ip neighbor del e0 10.0.0.2 02:fe:00:00:00:01"),
    ("ip punt redirect add rx", "ip punt redirect add rx all via 10.0.0.2 e0"),
    ("ip punt redirect add rx", "ip punt redirect rx e1 via 10.0.0.2 e0"),
    ("ip punt redirect del rx", "ip punt redirect del rx e1 via 10.0.0.2 e0"),
    ("ip punt redirect del rx", "ip punt redirect del rx all"),
    ("ip6 punt redirect add rx", "ip6 punt redirect add rx all via 2001:db8::2 e0"),
    ("ip6 punt redirect del rx", "ip6 punt redirect del rx all"),
    ("ip route add", "ip route 10.0.0.0/8 via 10.0.0.2 e0 preference 2 via local"),
    ("ip route add", "ip route add 10.0.0.0/8 via null-send-unreach"),
    ("ip route add", "ip route add 10.0.0.0/8 via null-send-prohibit"),
    ("ip route add", "ip route add 10.0.0.0/8 via drop"),
    ("ip route add", "ip route add 10.0.0.0/8 via punt"),
    ("ip route add", "ip route add 10.0.0.0/8 via e0"),
    ("ip6 table del", "ip6 table del 8"),
    ("ip6 nd", "ip6 nd e0 ra-interval 30 20"),
    ("ip6 nd", "ip6 nd e0 no ra-suppress"),
    ("ip6 nd", "ip6 nd e0 ra-managed-config-flag"),
    ("ip6 nd", "ip6 nd e0 prefix 2001:db8::/64 infinite"),
    ("ip6 nd", "ip6 nd e0 prefix 2001:db8::/64 2592000 604800 off-link"),
    ("mpls local-label add", "mpls local-label add 33 eos via 10.0.0.2 e0 out-labels 34"),
    ("mpls local-label add", "mpls local-label 33 eos via 10.0.0.2 e0 out-labels 34"),
    ("mpls local-label add", "mpls local-label add 33 non-eos via 10.0.0.2 e0 weight 2 preference 1"),
    ("mpls local-label del", "mpls local-label del 33 eos"),
    ("mpls local-label add", "mpls local-label add 33 eos ip4-lookup-in-table 0"),
    ("mpls local-label add", "mpls local-label add 33 eos via ip4-lookup-in-table 0"),
    ("mpls table del", "mpls table del 1"),
    ("mpls tunnel add", "mpls tunnel via 10.0.0.2 e0 out-labels 33"),
    ("mpls tunnel add", "mpls tunnel add via 10.0.0.2 e0 out-labels 33"),
    ("mpls tunnel del", "mpls tunnel del mpls-tunnel0"),
    ("packet-generator delete", "packet-generator delete s0"),
    ("packet-generator disable-stream", "packet-generator disable-stream s0"),
    ("packet-generator disable-stream", "packet-generator disable-stream"),
    ("packet-generator enable-stream", "packet-generator enable-stream s0"),
    ("packet-generator enable-stream", "packet-generator enable-stream"),
    (
        "packet-generator new",
        "packet-generator new { name s0 limit 100 size 64-64 interface pg0 node ethernet-input data { IP4: 1.2.3 -> \
         4.5.6 UDP: 10.0.0.1 -> 10.0.0.2 UDP: 1234 -> 2345 incrementing 8 } }",
    ),
    ("pcap trace", "pcap trace rx tx drop max 1000 intfc any file all.pcap max-bytes-per-pkt 64"),
    ("pcap trace off", "pcap trace off"),
    ("pcap trace status", "pcap trace status"),
    ("pcap trace", "pcap trace rx preallocate-data free-data"),
    ("ping", "ping 10.0.0.2"),
    ("ping", "ping ipv4 10.0.0.2 source e0 repeat 3 verbose"),
    ("ping", "ping 2001:db8::2 interval 0.5"),
    ("set arp proxy", "set arp proxy table-id 0 start 10.0.0.2 end 10.0.0.9"),
    ("set arp proxy", "set arp proxy del table-id 0 start 10.0.0.2 end 10.0.0.9"),
    ("set arp proxy", "set arp proxy start 10.0.0.2 end 10.0.0.9"),
    ("set dhcp client", "set dhcp client del intfc e0"),
    ("set interface handoff", "set interface handoff e0 workers 0-1"),
    ("set interface handoff", "set interface handoff e0 workers 0,1 symmetrical"),
    ("set interface handoff", "set interface handoff e0 disable"),
    ("set interface ip directed-broadcast", "set interface ip directed-broadcast e0 enable"),
    ("set interface ip table", "set interface ip table e0 8"),
    ("set interface ip6 table", "set interface ip6 table e0 8"),
    ("set interface mac address", "set interface mac address e0 02:fe:00:00:00:01"),
    ("set interface mpls", "set interface mpls e0 enable"),
    ("set interface mpls", "set interface mpls e0 disable"),
    ("set interface mtu", "set interface mtu 1500 e0"),
    ("set interface mtu", "set interface mtu packet 1500 e0"),
    ("set interface mtu", "set interface mtu ip4 1500 e0"),
    ("set interface name", "set interface name e0 wan"),
    ("set interface promiscuous", "set interface promiscuous off e0"),
    ("set interface proxy-arp", "set interface proxy-arp e0 enable"),
    ("set interface rx-mode", "set interface rx-mode e0 polling"),
    ("set interface rx-mode", "set interface rx-mode e0 queue 0 adaptive"),
    ("set interface rx-placement", "set interface rx-placement e0 worker 1"),
    ("set interface secondary-mac-address", "set interface secondary-mac-address e0 02:fe:00:00:00:01"),
    ("set interface secondary-mac-address", "set interface secondary-mac-address e0 02:fe:00:00:00:01 add"),
    ("set interface secondary-mac-address", "set interface secondary-mac-address e0 02:fe:00:00:00:01 del"),
    ("set interface span", "set interface span e0 disable"),
    ("set interface state", "set interface state e0 down"),
    ("set interface unnumbered", "set interface unnumbered del e0"),
    ("set ip neighbor-config ip4", "set ip neighbor-config ip4 limit 1000 age 300 recycle"),
    ("set ip neighbor-config ip6", "set ip neighbor-config ip6 norecycle"),
    ("set ip6 dad", "set ip6 dad enable transmits 1 delay 1"),
    ("set ip6 dad", "set ip6 dad disable"),
    ("set ip6 nd proxy", "set ip6 nd proxy e0 2001:db8::2"),
    ("set ip6 nd proxy", "set ip6 nd proxy e0 del 2001:db8::2"),
    ("set logging class", "set logging class ip rate-limit 50 level debug syslog-level warn"),
    ("set logging size", "set logging size 512"),
    ("set logging unthrottle-time", "set logging unthrottle-time 5"),
    ("set urpf ip4", "set urpf e0 strict"),
    ("set urpf ip6", "set urpf ip6 rx loose e0"),
    ("set urpf ip4", "set urpf ip4 off e0"),
    ("show adj", "show adj summary"),
    ("show adj", "show adj nbr 3"),
    ("show adj", "show adj e0"),
    ("show arp proxy", "show arp proxy"),
    ("show buffers", "show buffers"),
    ("show buffers", "show buffers detail"),
    ("show cpu", "show cpu"),
    ("show dhcp client", "show dhcp client"),
    ("show dhcp client", "show dhcp client intfc e0 verbose"),
    ("show errors", "show errors"),
    ("show errors", "show errors verbose"),
    ("show features", "show features"),
    ("show features", "show features verbose"),
    ("show fib entry", "show fib entry 10.0.0.0/8"),
    ("show fib path-lists", "show fib path-lists"),
    ("show fib paths", "show fib paths"),
    ("show hardware-interfaces", "show hardware-interfaces e0 e1"),
    ("show hardware-interfaces", "show hardware-interfaces verbose"),
    ("show hardware-interfaces", "show hardware-interfaces detail"),
    ("show hardware-interfaces", "show hardware-interfaces 1"),
    ("show interface address", "show interface address"),
    ("show interface address", "show interface addr"),
    ("show interface address", "show interface addr e0"),
    ("show interface", "show interface e0 e1"),
    ("show interface features", "show interface features e0"),
    ("show interface features", "show interface feat e0"),
    ("show interface", "show interface tag"),
    ("show interface", "show interface vtr"),
    ("show interface", "show interface e0 verbose"),
    ("show interface", "show interface e0 address"),
    ("show interface", "show interface default rx-mode"),
    ("show interface", "show interface link-speed-capa e0"),
    ("show interface rx-placement", "show interface rx-placement"),
    ("show interface", "show interface secondary-mac-address"),
    ("show interface span", "show interface span"),
    ("show interface", "show interface transceiver"),
    ("show ip fib", "show ip fib summary"),
    ("show ip fib", "show ip fib 10.0.0.0/8 detail"),
    ("show ip fib", "show ip fib 10.0.0.1"),
    ("show ip fib", "show ip fib memory"),
    ("show ip fib", "show ip fib table 7 10.0.0.1"),
    ("show ip local", "show ip local"),
    ("show ip neighbor", "show ip neighbor e0"),
    ("show ip neighbor-config", "show ip neighbor-config"),
    ("show ip neighbors", "show ip neighbors"),
    ("show ip punt redirect", "show ip punt redirect"),
    ("show ip table", "show ip table"),
    ("show ip table", "show ip table 7"),
    ("show ip6 table", "show ip6 table 7"),
    ("show ip4 neighbor", "show ip4 neighbor"),
    ("show ip4 neighbor-sorted", "show ip4 neighbor-sorted"),
    ("show ip4 neighbors", "show ip4 neighbors e0"),
    ("show ip4-full-reassembly", "show ip4-full-reassembly details"),
    ("show ip6 fib", "show ip6 fib 2001:db8::1 detail"),
    ("show ip6 fib", "show ip6 fib summary"),
    ("show ip6 interface", "show ip6 interface e0"),
    ("show ip6 local", "show ip6 local"),
    ("show ip6 neighbor", "show ip6 neighbor e0"),
    ("show ip6 neighbor-sorted", "show ip6 neighbor-sorted"),
    ("show ip6 neighbors", "show ip6 neighbors"),
    ("show ip6 punt redirect", "show ip6 punt redirect"),
    ("show ip6-full-reassembly", "show ip6-full-reassembly"),
    ("show load-balance", "show load-balance 3"),
    ("show logging", "show logging"),
    ("show logging configuration", "show logging configuration"),
    ("show memif", "show memif memif0/0 descriptors"),
    ("show memory", "show memory"),
    ("show memory", "show memory main-heap"),
    ("show memory", "show memory main-heap verbose"),
    ("show mpls fib", "show mpls fib"),
    ("show mpls fib", "show mpls fib table 0"),
    ("show mpls fib", "show mpls fib 33"),
    ("show mpls interface", "show mpls interface"),
    ("show mpls tunnel", "show mpls tunnel"),
    ("show node", "show node index 3"),
    ("show node counters", "show node counters"),
    ("show packet-generator", "show packet-generator"),
    ("show packet-generator", "show packet-generator verbose"),
    ("show plugins", "show plugins"),
    ("show runtime", "show runtime"),
    ("show runtime", "show runtime time"),
    ("show runtime", "show runtime verbose max"),
    ("show runtime", "show runtime summary"),
    ("show threads", "show threads"),
    ("show trace", "show trace"),
    ("show trace", "show trace max 10"),
    ("show trace filter", "show trace filter"),
    ("show udp ports", "show udp ports"),
    ("show udp ports", "show udp ports ip4"),
    ("show udp ports", "show udp ports ip4 all"),
    ("show unix files", "show unix files"),
    ("show vlib graph", "show vlib graph"),
    ("show vlib graph", "show vlib graph ip4-lookup"),
    ("show vlib graph dot", "show vlib graphviz"),
    ("show uptime", "show uptime"),
    ("trace add", "trace add dpdk-input 10"),
    ("trace add", "trace add virtio-input 10 filter"),
    ("trace add", "trace add af-packet-input 10 verbose"),
    ("trace filter none", "trace filter none"),
    ("trace filter include", "trace filter include ip4-lookup 10"),
    ("trace filter exclude", "trace filter exclude ip4-lookup 10"),
    ("clear trace", "clear trace"),
    ("clear errors", "clear errors"),
    ("clear runtime", "clear runtime"),
    ("clear logging", "clear logging"),
    ("clear ip neighbors", "clear ip neighbors"),
    ("clear errors", "clear node counters"),
    ("comment", "comment { a remark }"),
    ("show run", "show run"),
    ("show errors", "show err"),
    ("show interface", "show int"),
    ("show interface address", "show int addr"),
    ("show version", "sh ver"),
    ("show logging", "show log"),
    ("set urpf ip4", "set urpf rx strict e0"),
    ("set urpf ip4", "set urpf e0 off"),
    (
        "create host-interface",
        "create host-interface name vpp1 rx-size 10240 tx-size 10240 rx-per-block 1024 tx-per-block 1024 \
         num-tx-queues 1 hw-addr 02:fe:00:00:00:01",
    ),
    ("show interface", "show interface e0 e1 e2"),
    ("set ip6 dad", "set ip6 dad enable transmits 2 delay 1.5"),
    ("delete tap", "delete tap sw_if_index 2"),
    ("create tap", "create tap id 0 if-name tap0 csum-enabled gso-enabled num-tx-queues 2 host-ns n"),
    ("show node", "show node index 3"),
    ("show hardware-interfaces", "show hardware-interfaces verbose e0 e1"),
    ("show ip neighbor", "show ip neighbor"),
    ("show ip6 neighbors", "show ip6 neighbors e0"),
];

/// Lines that are refused, with words of the reason.
const REFUSED: &[(&str, &str)] = &[
    ("nat44 add interface address GigabitEthernet2/0/0", "nat44: not in this version; 'ip punt redirect' gives"),
    ("set int nat44 in e0 out e1", "not in this version; 'ip punt redirect'"),
    ("create bond mode lacp load-balance l34", "create bond: not in this version; let the kernel bond"),
    ("bond add BondEthernet0 e0", "not in this version"),
    ("bfd udp session add interface e0 local-addr 10.0.0.1", "bfd: not in this version"),
    ("show statistics segment", "show statistics segment: not in this version; every command answers as JSON"),
    ("set interface l2 bridge e0 200", "not in this version; let the kernel bridge"),
    ("create bridge-domain 10", "not in this version"),
    ("create vxlan tunnel src 10.0.0.1 dst 10.0.0.2 vni 13", "not in this version"),
    ("ipsec sa add 10 spi 1000 esp", "not in this version"),
    ("set acl-plugin acl permit", "not in this version; 'set urpf'"),
    ("policer add name x", "not in this version"),
    ("show event-logger all", "not in this version; 'show logging'"),
    ("create interface rdma host-if enp1s0f0 name rdma0", "not in this version; 'create host-interface'"),
    ("show bond details", "not in this version"),
    ("create host-interface name vpp1 mode ip", "create host-interface: mode: not in this version; devices ha"),
    ("create interface memif id 0 slave mode ip", "create interface memif: mode: not in this version; a memif c"),
    (
        "create packet-generator interface pg0 hw-addr 02:fe:00:00:00:01",
        "create packet-generator interface: hw-addr: not in this vers",
    ),
    (
        "create packet-generator interface pg0 gso-enabled gso-size 1460",
        "create packet-generator interface: gso-enabled: not in this ",
    ),
    ("create packet-generator interface pg0 mode ip4", "create packet-generator interface: mode: not in this version"),
    (
        "create tap id 0 csum-enabled gso-enabled gro-coalesce persist attach packed in-order",
        "create tap: persist: not in this version; a TAP goes with th",
    ),
    (
        "ip neighbor e0 10.0.0.2 02:fe:00:00:00:01 count 10",
        "ip neighbor: count: not in this version; one line states one",
    ),
    ("ip punt redirect add rx e1 via e0", "ip punt redirect add rx: bad value 'e0' (word 8): expected I"),
    (
        "ip route add 10.0.0.0/8 via 10.0.0.2 e0 udp-encap 1",
        "ip route add: udp-encap: not in this version; let the kernel",
    ),
    ("ip6 nd address autoconfig e0 default-route", "ip6 nd: autoconfig: not in this version; 'set interface ip a"),
    ("mpls tunnel multicast via 10.0.0.2 e0 out-labels 33", "mpls tunnel multicast: not in this version"),
    ("mpls tunnel l2-only via 10.0.0.2 e0 out-labels 33", "mpls tunnel l2-only: not in this version"),
    (
        "packet-generator new { name s0 limit 1 rate 1e4 node ip4-input source e0 size 64-64 no-recycle data { UDP: \
         10.0.0.1 -> 10.0.0.2 UDP: 1234 -> 2345 incrementing 8 } }",
        "packet-generator new: source: not in this version; 'interfac",
    ),
    ("pcap trace tx intfc e0 filter", "pcap trace: expected text after 'filter'"),
    ("set interface default rx-mode polling", "set interface default: not in this version; use 'set interface r"),
    (
        "set interface feature e0 span-input arc device-input",
        "set interface feature: not in this version; features follow ",
    ),
    ("set interface handoff e0 workers 0-1 l4", "set interface handoff: l4: not in this version; addresses a"),
    ("set interface hw-class e0 x", "set interface hw-class: not in this version"),
    ("set interface ip6-nd proxy e0 enable", "set interface ip6-nd: not in this version; 'set ip6 nd proxy"),
    ("set interface link-speed e0 1000000", "set interface link-speed: not in this version; the router uses the d"),
    ("set interface reassembly e0 on", "set interface reassembly: not in this version; what is for t"),
    ("set interface rss queues e0 list 0-1", "set interface rss: not in this version; each worker sends to"),
    ("set interface rx-placement e0 main", "set interface rx-placement: main: not in this version; the c"),
    ("set interface span e0 l2 destination e1 both", "set interface span: l2: not in this version; an interface's "),
    ("set interface state e0 punt", "set interface state: punt: not in this version; 'ip punt red"),
    ("set interface tx-queue e0 queue 0 threads 1", "set interface tx-queue: not in this version; each worker sen"),
    ("set ip reassembly extended ip4 on", "set ip reassembly: not in this version; what is for the rout"),
    ("set ip6 address e0 2001:db8::1", "set ip6 address: not in this version; 'set interface ip addr"),
    ("set logging class ip kmsg-level warn", "set logging class: kmsg-level: not in this version; 'syslog-"),
    ("set urpf ip4 tx strict e0", "set urpf ip4: tx: not in this version; sources are checked w"),
    ("set urpf ip4 strict e0 table 7", "set urpf ip4: table: not in this version; the table of the i"),
    ("show fib source prio", "show fib source: not in this version; 'show fib entry' shows"),
    ("show fib uRPF", "show fib uRPF: not in this version; 'show interface features"),
    ("show fib walk", "show fib walk: not in this version; 'show control' shows the"),
    ("show ip fib index 0", "show ip fib: index: not in this version; 'table N' names a t"),
    ("show ip fib mtrie", "show ip fib: mtrie: not in this version; 'show ip fib memory"),
    ("show ip mfib", "show ip mfib: not in this version"),
    ("show ip neighbor-stats", "show ip neighbor-stats: not in this version; 'show errors' c"),
    ("show ip neighbor-watcher", "show ip neighbor-watcher: not in this version; 'show ip neig"),
    ("show ip pmtu", "show ip pmtu: not in this version; 'show interface' has the "),
    ("show ip6 addresses", "show ip6 addresses: not in this version; 'show interface add"),
    ("show ip6 dad", "show ip6 dad: not in this version; 'show ip6 interface' mark"),
    ("show ip6 hbh", "show ip6 hbh: not in this version"),
    ("show ip6 mfib", "show ip6 mfib: not in this version"),
    ("show ip6 prefixes", "show ip6 prefixes: not in this version; 'show ip6 interface'"),
    ("show memory map", "show memory: map: not in this version; there is one heap ('s"),
    ("show memory api-segment stats-segment", "show memory: api-segment: not in this version; there is one "),
    ("show mpls fib summary", "show mpls fib: summary: not in this version; 'show mpls tabl"),
    ("show packet-generator interface pg0", "show packet-generator: interface: not in this version; 'show"),
    ("show trace filter function", "show trace filter: function: not in this version; 'trace fil"),
    ("show udp punt", "show udp punt: not in this version; 'show udp ports' lists the"),
    ("show unix errors", "show unix errors: not in this version; 'show logging' has th"),
    ("show vlib frame-allocation", "show vlib frame-allocation: not in this version; 'show runti"),
    ("show api clients", "show api: not in this version; every command answers as JSON"),
    ("show pci", "show pci: not in this version; 'create host-interface' and '"),
    ("set interface rx-placement e0 queue 0 main", "set interface rx-placement: main: not in this version; the c"),
];

/// Commands that VPP does not have.
const OURS: &[&str] = &[
    "create null interface",
    "delete interface",
    "ip route load",
    "ip route replace",
    "clear ip route counters",
    "set ip route counters",
    "set ip table max-routes",
    "set ip6 route counters",
    "set ip6 table max-routes",
    "show ip route counters",
    "mpls local-label replace",
    "mpls tunnel replace",
    "show mpls table",
    "set ip punt rate",
    "set ip6 punt rate",
    "clear arp conflicts",
    "ip6 neighbor",
    "set arp accept",
    "set arp rate",
    "set ip6 nd rate",
    "set ip6 neighbor",
    "show arp conflicts",
    "show ip6 nd proxy",
    "show ip6 ra",
    "set ip6 mld querier",
    "show ip6 mld",
    "set ip4-full-reassembly",
    "set ip6-full-reassembly",
    "set interface ip redirects",
    "set interface ip6 redirects",
    "set ip icmp error-rate",
    "show ip icmp",
    "packet-generator stall",
    "confirm",
    "load",
    "rollback",
    "save",
    "show running-config",
    "show pcap trace",
    "clear control",
    "show control",
    "show ledger",
    "show config",
    "show lcp netlink",
    "show lcp audit",
    "lcp audit repair",
    "lcp resync",
    "lcp ethertype disable",
    "show fpm",
];

#[test]
fn every_command_is_tried() {
    for command in quiver_capabilities::commands().commands() {
        let (read, ours) = (READ.iter().any(|(name, _)| *name == command.name()), OURS.contains(&command.name()));
        assert!(read != ours, "{}: in one of the two lists", command.name());
    }
}

#[test]
fn documented_spellings_are_read() {
    let commands = quiver_capabilities::commands();
    for (name, line) in READ {
        let parsed = commands.parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(parsed.command.name(), *name, "{line}");
    }
}

/// `v2` is a version of the packet socket's ring, and no device; a device of that name is meant by `name v2`.
#[test]
fn a_word_before_name_is_no_device() {
    let commands = quiver_capabilities::commands();
    let device_of = |line: &str| {
        let args = commands.parse(line).unwrap_or_else(|error| panic!("{line}: {error}")).args;
        args.optional_text("host").or(args.optional_text("device")).map(str::to_string)
    };
    let lines = [
        ("create host-interface v2 name eth0", "eth0"),
        ("create host-interface name v2", "v2"),
        ("create host-interface v3 name e0", "v3"),
    ];
    for (line, device) in lines {
        assert_eq!(device_of(line).as_deref(), Some(device), "{line}");
    }
}

/// A word of another spelling is not taken for a value of the listed one.
#[test]
fn words_of_a_spelling_are_no_names() {
    let commands = quiver_capabilities::commands();
    let which_of = |line: &str| commands.parse(line).unwrap().args.optional_text("interface").map(str::to_string);
    assert_eq!(which_of("show adj nbr"), None);
    assert_eq!(which_of("show adj nbr e0").as_deref(), Some("e0"));
    assert_eq!(which_of("show adj e0").as_deref(), Some("e0"));
}

#[test]
fn what_is_not_here_is_refused_with_a_reason() {
    let commands = quiver_capabilities::commands();
    let faults: Vec<String> = REFUSED
        .iter()
        .filter_map(|(line, reason)| match commands.parse(line) {
            Ok(_) => Some(format!("{line}: is read")),
            Err(said) if said.to_string().contains(reason) => None,
            Err(said) => Some(format!("{line}: '{reason}' is not in: {said}")),
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // A line with many options that have no effect is refused, and not read for ever.
    let many = format!("create tap {}", "gso-enabled ".repeat(4000));
    assert!(commands.parse(&many).is_err());
    // What is merely misspelled is said as ever.
    let said = commands.parse("create bnod").err().unwrap().to_string();
    assert!(said.starts_with("create: unknown input 'bnod'"), "{said}");
}

/// Pairs of a spelling of VPP's and ours: after either the configuration is the same.
#[test]
fn other_spellings_do_the_same() {
    let pairs = [
        ("set ip6 dad enable transmits 3 delay 1", "set ip6 dad transmits 3"),
        ("set ip6 dad disable", "set ip6 dad transmits 0"),
        ("set ip6 nd proxy e1 2001:db8:1::9", "set ip6 nd proxy 2001:db8:1::9 e1"),
        ("set urpf e0 strict", "set urpf ip4 rx strict e0"),
        ("set urpf rx loose e0", "set urpf ip4 rx loose e0"),
        ("ip punt redirect rx all via 10.0.0.2 e0", "ip punt redirect add rx all via 10.0.0.2 e0"),
        (
            "mpls local-label 33 eos via 10.0.0.2 e0 out-labels 34",
            "mpls local-label add 33 eos via 10.0.0.2 e0 out-labels 34",
        ),
        ("mpls tunnel via 10.0.0.2 e0 out-labels 33", "mpls tunnel add via 10.0.0.2 e0 out-labels 33"),
        ("delete tap sw_if_index 1", ""),
    ];
    for (other, own) in pairs {
        let after = |line: &str| {
            let (mut bed, _) = crate::mpls::bed();
            if !line.is_empty() {
                let done = bed.command(line);
                // The ports are of no TAP.
                let refused = done.as_ref().is_err_and(|error| error.contains("e0 is no TAP"));
                assert!(done.is_ok() || (refused && line.starts_with("delete tap")), "{line}: {done:?}");
            }
            bed.command("show running-config").unwrap()
        };
        assert_eq!(after(other), after(own), "{other}");
    }
}

#[test]
fn several_interfaces_and_one_table_are_shown() {
    let (mut bed, _) = crate::bed::Bed::with_three_ports();
    for command in ["show interface", "show hardware-interfaces"] {
        let shown = bed.command(&format!("{command} e2 e0")).unwrap();
        let has = |name: &str| shown.lines().any(|line| line.split_whitespace().next() == Some(name));
        assert!(has("e0") && has("e2") && !has("e1"), "{shown}");
    }
    bed.command("ip table add 7").unwrap();
    assert_eq!(bed.json("show ip table 7")["tables"].as_array().unwrap().len(), 1);
    assert_eq!(bed.command("show ip table 8").unwrap_err(), "show ip table: there is no ip table 8");
    assert!(bed.command("show node index 0").unwrap().lines().count() > 1);
    assert!(bed.command("show node index 9999").unwrap_err().contains("no such node"));
}
