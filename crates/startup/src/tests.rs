//! Files as operators have them, files with mistakes, and files that no operator would write.

use super::*;
use crate::reader::Key;
use std::iter;
use std::time::Duration;

fn parse(text: &str) -> StartupConfig {
    StartupConfig::parse("test.conf", text, &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> String {
    StartupConfig::parse("test.conf", text, &[]).expect_err(text).to_string()
}

/// The suggestion is the nearest of all names that VPP has, though the message lists only those that are read.
const UNKNOWN_MPSL: &str = "1:1: unknown section 'mpsl': expected one of unix, cpu, buffers, logging, dpdk, plugins, \
                            statseg, api-segment, socksvr, memory, heapsize; did you mean 'mpls'?";

/// As a distribution installs it for VPP, with an operator's changes.
const VPP_FILE: &str = "
unix {
  nodaemon
  log /var/log/vpp/vpp.log
  full-coredump
  cli-listen /run/vpp/cli.sock
  gid vpp
  ## run these at start
  exec /etc/vpp/bootstrap.vpp
}
api-trace { on }
api-segment { gid vpp }
socksvr { default }
memory { main-heap-size 1536M main-heap-page-size default-hugepage }
cpu { main-core 0 corelist-workers 1-3,5 }
buffers { buffers-per-numa 128k default data-size 2048 page-size default-hugepage }
dpdk { dev default { num-rx-desc 512 } dev 0000:10:00.0 { name e0 } uio-driver vfio-pci }
plugins { plugin default { disable } plugin linux_cp_plugin.so { enable } }
logging { default-log-level info default-syslog-log-level crit class linux-cp/nl { level debug } class a { } }
statseg { size 1.5G page-size default-hugepage per-node-counters off }
";

#[test]
fn a_file_written_for_vpp_is_read_with_warnings() {
    let config = parse(VPP_FILE);
    assert!(config.unix.nodaemon && !config.unix.interactive && config.unix.full_coredump);
    assert_eq!(config.unix.cli_listen, PathBuf::from("/run/vpp/cli.sock"));
    assert_eq!(config.unix.gid.as_deref(), Some("vpp"));
    assert_eq!(config.unix.exec, Some(PathBuf::from("/etc/vpp/bootstrap.vpp")));
    assert_eq!(config.cpu.corelist_workers, [1, 2, 3, 5]);
    assert_eq!((config.cpu.workers, config.cpu.main_core), (4, Some(0)));
    assert_eq!(config.buffers.buffers_per_numa, 128 << 10);
    assert_eq!(config.logging.default_log_level, LogLevel::Info);
    assert_eq!(config.logging.default_syslog_log_level, Some(LogLevel::Critical));
    assert_eq!(config.logging.classes[0].level, Some(LogLevel::Debug));
    assert_eq!(config.sections["statseg"].get("size").unwrap().value().bytes().unwrap(), 3 << 29);
    assert_eq!(config.sections["memory"].text("main-heap-size"), Some("1536M"));
    let plugin = config.sections["plugins"].all("plugin").nth(1).unwrap();
    assert_eq!((plugin.text.as_str(), plugin.inside.has("enable")), ("linux_cp_plugin.so", true));
    assert_eq!(
        config.warnings,
        [
            "api-trace: this version has no such section; it is passed over",
            "api-segment has no effect: there is no binary API in this version",
            "socksvr has no effect: there is no binary API in this version",
            "memory has no effect: there is no heap of a fixed size; memory is taken as needed",
            "dpdk: this version has no DPDK driver: 0000:10:00.0 (e0) will not exist; leave the device to the kernel \
             and use 'create host-interface HOST-INTERFACE name e0' instead",
            "plugins: no plugins are loaded (linux_cp_plugin.so too): what this version can do is built in, and '?' in \
             a session lists it",
            "statseg has no effect: there is no stats segment in this version; 'show' commands answer as JSON too",
        ]
    );
}

/// What the operator of a small router wrote for two NICs.
#[test]
fn the_dpdk_section_of_a_two_port_router_starts() {
    let config = parse(
        "dpdk {\n  dev 0000:02:00.0 { name e0 }\n  dev 0000:03:00.0 { name e1 }\n  no-multi-seg\n  \
         decimal-interface-names\n  uio-driver vfio-pci\n}\n",
    );
    let dpdk = &config.sections["dpdk"];
    let names: Vec<_> = dpdk.all("dev").map(|device| (device.text.as_str(), device.inside.text("name"))).collect();
    assert_eq!(names, [("0000:02:00.0", Some("e0")), ("0000:03:00.0", Some("e1"))]);
    assert!(dpdk.has("no-multi-seg") && dpdk.has("decimal-interface-names"));
    assert_eq!(config.warnings.len(), 1);
    assert!(
        config.warnings[0].contains("0000:02:00.0 (e0), 0000:03:00.0 (e1) will not exist"),
        "{:?}",
        config.warnings
    );
}

#[test]
fn devices_are_read_to_the_last_key() {
    let config = parse(
        "dpdk { dev default { num-rx-queues 3 tso on } dev 02:00.1 { num-rx-queues 2 num-tx-queues 2 num-rx-desc 1k \
         num-tx-desc 512 workers 1-2 rss-queues 0-1 rss { ipv4 ipv6-tcp } devargs a=1,b=2 tso off \
         vlan-strip-offload on \
         max-lro-pkt-size 9000 tag t no-rx-interrupts enable-lro } dev 0000:04:00.0 socket-mem 1024,512 telemetry \
         log-level debug vdev net_null0 vdev net_null1 blacklist 8086:10fb max-simd-bitwidth 512 }",
    );
    let dpdk = &config.sections["dpdk"];
    let devices: Vec<&Entry> = dpdk.all("dev").collect();
    let number = |of: &Entry, key| of.inside.get(key).map(|entry| entry.value().number(0, 9000).unwrap());
    assert_eq!((number(devices[0], "num-rx-queues"), devices[0].inside.text("tso")), (Some(3), Some("on")));
    let rss: Vec<&str> = devices[1].inside.get("rss").unwrap().inside.all("rss").map(|word| &word.text[..]).collect();
    assert_eq!((number(devices[1], "num-rx-desc"), rss), (Some(1024), vec!["ipv4", "ipv6-tcp"]));
    assert_eq!(devices[1].inside.get("workers").unwrap().value().cores().unwrap(), [1, 2]);
    assert_eq!(
        (devices[1].inside.text("devargs"), number(devices[1], "max-lro-pkt-size")),
        (Some("a=1,b=2"), Some(9000))
    );
    assert!(devices[2].inside.is_empty());
    assert_eq!((dpdk.text("socket-mem"), dpdk.has("telemetry")), (Some("1024,512"), true));
    let virtual_devices: Vec<&str> = dpdk.all("vdev").map(|device| device.text.as_str()).collect();
    assert_eq!(virtual_devices, ["net_null0", "net_null1"]);
    assert_eq!(dpdk.text("max-simd-bitwidth"), Some("512"));
}

/// What a capability has for a section.
#[test]
fn a_section_of_a_capability_is_read_by_its_table() {
    const KEYS: &[Key] = &[
        Key::value("default netns", "the name of a namespace"),
        Key::flag("lcp-sync"),
        Key::named("pair", "a name").with(&[Key::size("size").of(|value| value.number(1, 9).map(drop))]),
    ];
    static SECTION: Section = Section::new("linux-cp", KEYS).check(|settings, warnings| {
        warnings.extend(settings.has("lcp-sync").then(|| "it is not synchronous".to_string()));
        let second = settings.all("pair").nth(1);
        second.map_or(Ok(()), |second| Err(second.complain("one pair is enough")))
    });
    let parse = |text| StartupConfig::parse("test.conf", text, &[&SECTION]);
    let config = parse("linux-cp { default netns dataplane lcp-sync pair a { size 7 } }").unwrap();
    let settings = &config.sections["linux-cp"];
    assert_eq!((settings.text("default netns"), settings.has("lcp-sync")), (Some("dataplane"), true));
    assert_eq!(settings.get("pair").unwrap().inside.text("size"), Some("7"));
    let shown = config.settings().into_iter().filter(|setting| setting.section == "linux-cp");
    let shown: Vec<String> =
        shown.map(|setting| format!("{} {} {:?}", setting.key, setting.value, setting.line)).collect();
    assert_eq!(shown, ["default netns dataplane Some(1)", "lcp-sync on Some(1)", "pair a size 7 Some(1)"]);
    assert_eq!(config.warnings, ["it is not synchronous"], "VPP's section is not passed over");
    for (text, complaint) in [
        (
            "linux-cp { lcp-snyc }",
            "1:12: unknown key 'lcp-snyc' in 'linux-cp': expected one of default netns, lcp-sync, pair; \
          did you mean 'lcp-sync'?",
        ),
        ("linux-cp { pair a { size 10 } }", "1:26: '10' is no value for 'size': expected a number 1..9"),
        ("linux-cp { pair a pair b }", "1:19: one pair is enough"),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), format!("test.conf:{complaint}"), "{text}");
    }
}

#[test]
fn an_empty_file_is_the_defaults() {
    let config = parse("# nothing\n");
    assert_eq!(config, StartupConfig::default());
    assert_eq!(config.unix.cli_listen, Unix::default().runtime_dir.join("cli.sock"));
    assert_eq!(config.buffers.buffers_per_numa, 16_384);
    assert_eq!((config.cpu.workers, config.unix.cli_socket_mode), (0, 0o660));
}

#[test]
fn several_statements_share_a_line_and_sections_may_return() {
    let config = parse("unix { nodaemon exec a } cpu { workers 2 skip-cores 1 } unix {interactive}");
    assert!(config.unix.nodaemon && config.unix.interactive);
    assert_eq!((config.cpu.workers, config.cpu.skip_cores), (2, 1));
}

#[test]
fn commands_and_configuration_to_load_are_two_things() {
    let config = parse("unix { exec /a startup-config /b cli-file-root /c }");
    let unix = &config.unix;
    assert_eq!((unix.exec.as_deref(), unix.startup_config.as_deref()), (Some(Path::new("/a")), Some(Path::new("/b"))));
    assert_eq!(unix.cli_file_root.as_deref(), Some(Path::new("/c")));
}

#[test]
fn the_process_is_described() {
    let config = parse(
        "unix { interactive pidfile /run/q.pid crash-dir /var/c coredump-size 1.5G cli-socket-mode 0600 gid 77 \
         cli-prompt q# cli-history-limit 50 cli-idle-timeout 60 cli-pager-buffer-limit 10k cli-no-pager \
         cli-no-banner }",
    );
    let unix = &config.unix;
    assert!(unix.nodaemon, "whoever wants a CLI here stays here");
    assert_eq!((unix.coredump_size, unix.cli_socket_mode), (Some(CoredumpSize::Bytes(3 << 29)), 0o600));
    assert_eq!(unix.cli_idle_timeout, Some(60));
    assert_eq!((unix.cli_history_limit, unix.cli_pager_buffer_limit), (Some(50), Some(10_240)));
    assert!(unix.cli_no_pager && unix.cli_no_banner);
    assert_eq!(parse("unix { coredump-size unlimited }").unix.coredump_size, Some(CoredumpSize::Unlimited));
}

#[test]
fn logging_is_read_by_class() {
    let logging = parse(
        "logging { size 1k nthrottle-time 0.5 class neighbor { level debug rate-limit 100 syslog-level err } class \
         cli }",
    )
    .logging;
    assert_eq!((logging.size, logging.throttle_time), (Some(1024), Some(Duration::from_millis(500))));
    let neighbor = LogClass {
        name: "neighbor".into(),
        level: Some(LogLevel::Debug),
        syslog_level: Some(LogLevel::Error),
        rate_limit: Some(100),
    };
    assert_eq!(logging.classes[0], neighbor);
    assert_eq!(logging.classes[1].level, None);
}

#[test]
fn the_socket_follows_the_runtime_directory() {
    let config = parse("unix { runtime-dir /tmp/q }");
    assert_eq!(config.unix.cli_listen, PathBuf::from("/tmp/q/cli.sock"));
}

#[test]
fn what_has_no_effect_is_a_warning_by_name() {
    let warnings = parse("unix { nobanner nocolor } cpu { thread-prefix vpp }").warnings;
    assert_eq!(warnings.len(), 3);
    assert!(warnings[0].starts_with("unix: nobanner has no effect: "), "{warnings:?}");
    assert!(warnings[2].starts_with("cpu: thread-prefix has no effect: "), "{warnings:?}");
}

#[test]
fn a_key_can_be_complained_about_later() {
    let config = parse("unix {\n  gid nobodys\n}");
    let complaint = config.complaint("unix gid", "no group 'nobodys'");
    assert_eq!(complaint.to_string(), "test.conf:2:3: no group 'nobodys'");
}

#[test]
fn complaints_name_the_place_the_word_and_what_was_expected() {
    for (text, message) in [
        (
            "unixx { }",
            "1:1: unknown section 'unixx': expected one of unix, cpu, buffers, logging, dpdk, plugins, statseg, \
             api-segment, socksvr, memory, heapsize; did you mean 'unix'?",
        ),
        (
            "buffers {\n  page-zise 2m\n}",
            "2:3: unknown key 'page-zise' in 'buffers': expected one of buffers-per-numa, default data-size, \
             page-size, numa, layout, no-hugetlb; did you mean 'page-size'?",
        ),
        (
            "buffers { default size }",
            "1:11: unknown key 'default' in 'buffers': expected one of buffers-per-numa, default data-size, page-size, \
             numa, layout, no-hugetlb",
        ),
        ("unix { exec }", "1:13: 'exec' needs a value: expected a file name, found the end"),
        ("unix { exec { } }", "1:13: 'exec' needs a value: expected a file name, found '{'"),
        ("unix nodaemon", "1:6: expected '{' after 'unix', found 'nodaemon'"),
        ("unix", "1:5: expected '{' after 'unix', found the end"),
        ("unix { { } }", "1:8: '{' without a name before it: expected a word or '}'"),
        ("unix {", "1:6: '{' is never closed"),
        ("unix { } }", "1:10: '}' without '{'"),
        ("heapsize", "1:9: 'heapsize' needs a value: expected a number of bytes, found the end"),
        (
            "heapsize lots",
            "1:10: 'lots' is no value for 'heapsize': expected a number of bytes, like 512k, 96M or 1.5G",
        ),
        ("cpu { main-core 1024 }", "1:17: '1024' is no value for 'main-core': expected a number 0..1023"),
        (
            "cpu { corelist-workers 3-1 }",
            "1:24: '3-1' is no value for 'corelist-workers': expected cores below 1024 and ranges of them, like 1-3,5",
        ),
        (
            "cpu { corelist-workers 1-3,2 }",
            "1:24: '1-3,2' is no value for 'corelist-workers': expected each number once, 2 is there twice",
        ),
        (
            "cpu { workers 1 corelist-workers 1-3 }",
            "1:7: 'workers 1' contradicts 'corelist-workers', which lists 3 cores",
        ),
        ("cpu { main-core 2 corelist-workers 1-3 }", "1:19: core 2 of 'corelist-workers' is the 'main-core' already"),
        (
            "cpu { skip-cores 1 corelist-workers 1-3 }",
            "1:7: 'skip-cores' contradicts 'corelist-workers': the list says which cores",
        ),
        ("cpu { scheduler-priority 9 }", "1:7: 'scheduler-priority' needs 'scheduler-policy' fifo or rr"),
        (
            "cpu { scheduler-policy bacth }",
            "1:24: 'bacth' is no value for 'scheduler-policy': expected one of other, batch, idle, fifo, rr; did you \
             mean 'batch'?",
        ),
        (
            "buffers { default data-size 12 }",
            "1:29: '12' is no value for 'default data-size': expected a number 256..65024",
        ),
        (
            "buffers { page-size 3k }",
            "1:21: '3k' is no value for 'page-size': expected one of default, default-hugepage, 4k, 2m, 1g",
        ),
        ("unix { log a\n log b }", "2:2: 'log' is given twice in 'unix' (first at 1:8)"),
        ("unix { log a }\nunix { log b }", "2:8: 'log' is given twice in 'unix' (first at 1:8)"),
        (
            "logging { class a { level info } class a { } }",
            "1:34: 'class a' is given twice in 'logging' (first at 1:11)",
        ),
        (
            "logging { class a { level info level err } }",
            "1:32: 'level' is given twice in 'logging class a' (first at 1:21)",
        ),
        (
            "logging { nthrottle-time 1 unthrottle-time 2 }",
            "1:44: 'nthrottle-time' and 'unthrottle-time' are one setting, given twice",
        ),
        ("dpdk { dev 0000:02:00.0 dev 02:00.0 }", "1:29: device 0000:02:00.0 is given twice in 'dpdk'"),
        (
            "dpdk { dev eth0 }",
            "1:12: 'eth0' is no value for 'dev': expected a PCI address, like 0000:02:00.0 ('lspci -D' lists them)",
        ),
        (
            "dpdk { dev 0000:02:00.0 { num-rx-desc 0 } }",
            "1:39: '0' is no value for 'num-rx-desc': expected a number 1..65536",
        ),
        ("dpdk { blacklist 02:00.0 dev 0000:02:00.0 }", "1:8: 'blacklist 02:00.0' contradicts 'dev 0000:02:00.0'"),
        ("plugins { plugin x enable disable }", "1:27: plugin 'x' cannot be both enabled and disabled"),
        ("mpsl { }", UNKNOWN_MPSL),
        (
            "buffers { numa 0 }",
            "1:16: '0' is no value for 'numa': expected a number and a block: numa 0 { buffers 16384 }",
        ),
        ("buffers { numa x { } }", "1:16: 'x' is no value for 'numa': expected a number 0..255"),
        ("buffers { numa 1 { buffers 32k } numa 1 { } }", "1:34: 'numa 1' is given twice in 'buffers' (first at 1:11)"),
        ("plugins { plugin x { enable disable } }", "1:29: plugin 'x' cannot be both enabled and disabled"),
        ("statseg { default socket-name /s }", "1:19: 'socket-name' contradicts 'default' in 'statseg'"),
        (
            "statseg { update-interval soon }",
            "1:27: 'soon' is no value for 'update-interval': expected seconds up to a day, like 10, 0.5 or 500ms",
        ),
        ("unix { full-coredump coredump-size 0 }", "1:22: 'coredump-size 0' contradicts 'full-coredump'"),
        (
            "unix { cli-socket-mode 0460 }",
            "1:24: '0460' is no value for 'cli-socket-mode': expected an octal mode from 0600 to 0777 that lets the \
             owner read and write, like 0660",
        ),
        (
            "unix { cli-listen 127.0.0.1:5002 }",
            "1:19: '127.0.0.1:5002' is no value for 'cli-listen': expected the path of a Unix socket, like \
             /run/quiver/cli.sock. The CLI is not served over TCP: whoever reached the port could reconfigure the \
             router, \
             for it asks for no password; from afar use `ssh HOST quiver cli`",
        ),
    ] {
        assert_eq!(refused(text), format!("test.conf:{message}"), "{text}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = StartupConfig::load(Path::new("/nonexistent/x.conf"), &[]).unwrap_err();
    assert!(error.to_string().starts_with("/nonexistent/x.conf: "));
    assert!(StartupConfig::load(Path::new("/dev/zero"), &[]).is_err());
}

/// The tables here and in the guide are what operators go by.
#[test]
fn every_key_is_documented() {
    let guide = include_str!("../../../docs/guide/configuration.md");
    let own = include_str!("lib.rs");
    let keys = [unix::KEYS, cpu::KEYS, buffers::KEYS, buffers::NUMA_KEYS, logging::KEYS, logging::CLASS_KEYS];
    let of_data = idle::SECTIONS.iter().flat_map(|section| section.keys);
    let all = keys.into_iter().flatten().chain(of_data).flat_map(|key: &Key| iter::once(key).chain(key.keys));
    let missing: Vec<&str> = all.map(|key| key.name).filter(|name| !guide.contains(name)).collect();
    assert!(missing.is_empty(), "not in docs/guide/configuration.md: {missing:?}");
    for section in sections::UNREAD_SECTIONS {
        assert!(guide.contains(&format!("`{section}`")), "{section}");
    }
    for section in sections::OWN.into_iter().chain(idle::SECTIONS.iter().map(|section| section.name)) {
        assert!(guide.contains(section) && own.contains(section), "{section}");
    }
    let with_effect = [unix::KEYS, cpu::KEYS, buffers::KEYS, logging::KEYS, logging::CLASS_KEYS];
    let effective = with_effect.into_iter().flatten().filter(|key| key.idle.is_none());
    let missing: Vec<&str> = effective.map(|key| key.name).filter(|name| !own.contains(name)).collect();
    assert!(missing.is_empty(), "not in the table of lib.rs: {missing:?}");
}

#[test]
fn mutated_files_are_answered_and_never_panic() {
    let mut random = 0x1234_5678_9abc_def1_u64;
    let mut next = |bound: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % bound as u64) as usize
    };
    let pieces =
        ["{", "}", "#", "\n", " ", "-", ",", ".", ":", "é", "\0", "99999999999999999999", "k", "default", "dev"];
    let (mut refused, mut read) = (0, 0);
    for _ in 0..10_000 {
        let mut text: Vec<char> = VPP_FILE.chars().collect();
        for _ in 0..=next(4) {
            let at = next(text.len() + 1);
            match next(3) {
                0 => drop(text.drain(at..(at + next(20)).min(text.len()))),
                1 => drop(text.splice(at..at, pieces[next(pieces.len())].chars())),
                _ => text.truncate(at.max(1)),
            }
        }
        let text: String = text.into_iter().collect();
        match StartupConfig::parse("x", &text, &[]) {
            Ok(_) => read += 1,
            Err(error) => {
                let lines = text.lines().count().max(1);
                let (line, column) = error.place.expect("a place");
                assert!(line <= lines && column > 0 && !error.message.is_empty(), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 2000 && read > 100, "{refused} refused, {read} read");
}
