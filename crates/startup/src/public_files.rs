//! Files of the kinds that VPP's packages, documentation and users have, written from what they hold: each starts the
//! router, and what has no effect is named.

use super::*;

/// The text of a file, and words of the warnings that it must bring, in order of their sections; every warning is one
/// of those.
const FILES: [(&str, &str, &[&str]); 8] = [
    (
        "the file of VPP's package, as it is installed",
        "unix {\n nodaemon\n log /var/log/vpp/vpp.log\n full-coredump\n cli-listen /run/vpp/cli.sock\n gid vpp\n \
         ## run in the interactive mode\n # interactive\n}\napi-trace {\n## keep it on\n  on\n## nitems <nnn>\n}\n\
         api-segment {\n  gid vpp\n}\nsocksvr {\n  default\n}\n# memory {\n  # main-heap-size 2G\n#}\ncpu {\n  \
         # main-core 1\n}\n",
        &["api-trace: ", "api-segment has no effect", "socksvr has no effect"],
    ),
    (
        "the same with every remark made a setting",
        "memory { main-heap-size 2G main-heap-page-size 1G default-hugepage-size 1G }\n\
         cpu { main-core 1 corelist-workers 2-3,18-19 scheduler-policy fifo scheduler-priority 50 }\n\
         buffers { buffers-per-numa 128000 default data-size 2048 page-size default-hugepage layout packed }\n\
         dsa { dev wq0.0 dev wq0.1 }\n\
         dpdk { dev default { num-rx-queues 3 num-tx-queues 3 num-rx-desc 512 num-tx-desc 512 tso on rss-queues \
         0,2,5-7 \
         devargs safe-mode-support=1,pipeline-mode-support=1 } dev 0000:02:00.0 blacklist 8086:10fb \
         dev 0000:02:00.1 { name eth0 num-rx-queues 2 no-rx-interrupts } uio-driver vfio-pci no-multi-seg \
         socket-mem 2048,2048 no-tx-checksum-offload enable-tcp-udp-checksum max-simd-bitwidth 256 }\n\
         node { default { variant avx512 } ip4-rewrite { variant avx2 } }\n\
         plugins { path /ws/lib/vpp_plugins add-path /tmp/vpp_plugins plugin default { disable } \
         plugin dpdk_plugin.so { enable } }\n\
         statseg { socket-name /run/vpp/stats.sock size 32M page-size 2m per-node-counters on update-interval 10 }\n\
         l3fib { load-balance-pool-size 1M fib-entry-pool-size 1M ip4-mtrie-pool-size 1K }\n",
        &[
            "buffers: layout",
            "dsa: ",
            "node: ",
            "l3fib: ",
            "memory has no effect",
            "statseg has no effect",
            "0000:02:00.0, 0000:02:00.1 (eth0) will not exist",
            "dpdk_plugin.so",
        ],
    ),
    (
        "buffers by NUMA node",
        "buffers { buffers-per-numa 16384 numa 0 { buffers 32768 } numa 1 { buffers 65536 } page-size 2m }",
        &["takes 65536, the most that is asked for (numa 0: 32768, numa 1: 65536)"],
    ),
    (
        "what the reference documents besides",
        "ethernet { default-mtu 9000 }\nvlib { memory-trace elog-events 4096 elog-post-mortem-dump }\n\
         ip { heap-size 4G }\nip6 { heap-size 32M hash-buckets 131072 }\nl2learn { limit 8388608 }\n\
         mactime { lookup-table-buckets 128 timezone_offset -5 }\n\
         tcp { preallocated-connections 5 buffer-fail-fraction 0.0 }\ntls { use-test-cert-in-ca }\n\
         vhost-user { coalesce-frames 64 coalesce-time 0.002 dont-dump-memory }\n\
         acl-plugin { connection hash buckets 65536 use tuple merge 1 }\nphysmem { base-addr 0xfffe00000000 }\n\
         tuntap { enable ethernet have-normal-interface name vpp1 }\n\
         logging { size 512 unthrottle-time 3 default-log-level notice add-to-elog class dpdk/cryptodev { \
         rate-limit 100 \
         kmsg-level err } }\nplugins { plugin default disable plugin acl_plugin.so enable }\n\
         api-segment { uid root global-size 2G global-pvt-heap-size size 262144 baseva 0x20000000 }",
        &[
            "ethernet: ",
            "vlib: ",
            "ip: ",
            "ip6: ",
            "l2learn: ",
            "mactime: ",
            "tcp: ",
            "tls: ",
            "vhost-user: ",
            "acl-plugin: ",
            "physmem: ",
            "tuntap: ",
            "logging: add-to-elog",
            "logging class dpdk/cryptodev: kmsg-level",
            "api-segment has no effect",
            "acl_plugin.so",
        ],
    ),
    (
        "a container's",
        "unix { nodaemon cli-listen /var/run/vpp/cli.sock pidfile /run/vpp/vpp.pid exec /etc/vpp/startup.exec \
         coredump-size unlimited }\ncpu { workers 0 }\nsocksvr { socket-name /var/run/vpp/vpp-api.sock }\n\
         dpdk { iova-mode va no-hugetlb }\nbuffers { no-hugetlb buffers-per-numa 16384 }\n\
         session { enable use-app-socket-api }\ncnat { session-db-buckets 1024 }\nnpol-plugin { }\nip6 { }\n",
        &["buffers: no-hugetlb", "session: ", "cnat: ", "npol-plugin: ", "ip6: ", "socksvr has no effect"],
    ),
    (
        "a virtual machine's on Hyper-V",
        "dpdk { dev 3d5c6e80-2a7e-4b4b-9f0a-7d1c0e5a91b1 { name wan } blacklist 15b3:1014 }",
        &["VMBus: 3d5c6e80-2a7e-4b4b-9f0a-7d1c0e5a91b1 will not exist"],
    ),
    (
        "a home gateway's",
        "unix { nodaemon log /var/log/vpp/vpp.log startup-config /setup.gate poll-sleep-usec 100 gid vpp }\n\
         api-segment { gid vpp }\ndpdk { dev 0000:03:00.0 dev 0000:14:00.0 }\nplugins { plugin default { disable } \
         plugin dpdk_plugin.so { enable } plugin nat_plugin.so { enable } plugin dhcp_plugin.so { enable } }\n",
        &["api-segment has no effect", "0000:03:00.0, 0000:14:00.0 will not exist", "nat_plugin.so"],
    ),
    (
        "of years ago",
        "unix { use-current-dir nobanner }\nheapsize 512M\nplugin_path /usr/lib/vpp_plugins\ntapcli { mtu 1500 \
         disable }\n\
         snat { }\nsctp { }\ncpu { skip-cores 4 workers 2 numa-heap-size 1G }\n\
         dpdk { uio-bind-force num-mbufs 128000 dev 0000:02:00.0 { hqos { hqos-thread 3 } } }\n",
        &[
            "nobanner",
            "plugin_path: ",
            "tapcli: ",
            "snat: ",
            "sctp: ",
            "numa-heap-size",
            "heapsize has no effect",
            "0000:02:00.0 will not exist",
        ],
    ),
];

#[test]
fn public_kinds_of_files_start_the_router_and_name_what_has_no_effect() {
    for (kind, text, named) in FILES {
        let config = StartupConfig::parse("x.conf", text, &[]).unwrap_or_else(|error| panic!("{kind}: {error}"));
        let warnings = &config.warnings;
        assert_eq!(warnings.len(), named.len(), "{kind}: {warnings:#?}");
        for words in named {
            let found = warnings.iter().filter(|warning| warning.contains(words)).count();
            assert_eq!(found, 1, "{kind}: '{words}' in {warnings:#?}");
        }
    }
}

#[test]
fn the_pool_has_what_the_largest_node_asks_for() {
    let buffers = |text: &str| StartupConfig::parse("x.conf", text, &[]).unwrap().buffers.buffers_per_numa;
    assert_eq!(buffers("buffers { numa 0 { buffers 8192 } }"), 8192, "not the default, which nobody asked for");
    assert_eq!(buffers("buffers { buffers-per-numa 64k numa 0 { buffers 8192 } }"), 65_536);
    assert_eq!(buffers("buffers { numa 1 { buffers 32k } numa 0 { } }"), 32_768);
}

/// Each section that VPP's sources register is known, in either spelling of its block.
#[test]
fn every_section_of_vpp_is_known() {
    for section in sections::UNREAD_SECTIONS {
        for block in ["{ }", "{ a b { c } d 1 }"] {
            let word = if section.ends_with("plugin_path") { "/usr/lib" } else { "" };
            let text = format!("{section} {word} {block} unix {{ nodaemon }}");
            let config = StartupConfig::parse("x.conf", &text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!(config.unix.nodaemon, "{text}");
            assert!(config.warnings[0].starts_with(&format!("{section}: ")), "{:?}", config.warnings);
        }
    }
}
