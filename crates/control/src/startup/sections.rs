//! The sections of a file, and those of VPP that have no effect here.

use std::collections::BTreeMap;

use super::StartupConfig;
use super::reader::{Cursor, Reading};
use super::tree::{Block, Complaint};
use super::value::Value;
use super::value::did_you_mean;

/// Sections that are read.
pub(super) const SECTIONS: [&str; 11] =
    ["unix", "cpu", "buffers", "logging", "dpdk", "plugins", "statseg", "api-segment", "socksvr", "memory", "heapsize"];

/// Sections of VPP that are passed over whole: those that its sources register (master of August 2026), and those that
/// it had before.
pub(super) const UNREAD_SECTIONS: [&str; 61] = [
    "acl-plugin",
    "api-fuzz",
    "api-queue",
    "api-trace",
    "cj",
    "cnat",
    "crypto",
    "crypto-engines",
    "crypto_sw_scheduler",
    "ct6",
    "devices",
    "dns",
    "dsa",
    "dslite",
    "ethernet",
    "fateshare",
    "hicn",
    "http",
    "interface",
    "ip",
    "ip6",
    "ipsec",
    "l2fib",
    "l2learn",
    "l2tp",
    "l3fib",
    "linux-cp",
    "linux-nl",
    "mactime",
    "map",
    "mc",
    "mpls",
    "nat",
    "node",
    "npol-plugin",
    "nsim",
    "oam",
    "physmem",
    "plugin_path",
    "prom",
    "punt",
    "pvti",
    "quic",
    "sctp",
    "selog",
    "session",
    "sfdp",
    "snat",
    "ssvm_eth",
    "tap-inject",
    "tapcli",
    "tcp",
    "test-proxy",
    "test_plugin_path",
    "tls",
    "trace",
    "tuntap",
    "udp",
    "unix-cli",
    "vhost-user",
    "vlib",
];

/// What stands in the place of sections that are passed over, where something does.
const INSTEAD: [(&str, &str); 11] = [
    ("devices", "a device is taken with 'create host-interface' or 'create interface af_xdp'"),
    ("ethernet", "'set interface mtu' sets an MTU"),
    ("interface", "an interface is made by a command, in the file of 'unix { exec FILE }'"),
    ("ip", "tables grow as needed"),
    ("ip6", "tables grow as needed"),
    ("l3fib", "tables grow as needed"),
    ("mpls", "tables grow as needed"),
    ("node", "each node takes the best of what the processor can do"),
    ("linux-cp", "'ip punt redirect' gives the host its packets"),
    ("tuntap", "'create tap' makes the host's end"),
    ("unix-cli", "sessions are set by 'cli-' keys of 'unix'"),
];

/// Sections that are about parts of VPP, with what there is here instead.
const ELSEWHERE: [(&str, &str); 5] = [
    ("statseg", "there is no stats segment in this version; 'show' commands answer as JSON too"),
    ("api-segment", "there is no binary API in this version"),
    ("socksvr", "there is no binary API in this version"),
    ("memory", "there is no heap of a fixed size; memory is taken as needed"),
    ("heapsize", "there is no heap of a fixed size; memory is taken as needed"),
];

/// Where keys were given.
type Places = BTreeMap<String, (usize, usize)>;

/// Reads a whole file.
pub(super) fn read(file: &Block<'_>) -> Result<(StartupConfig, Places), Complaint> {
    let mut config = StartupConfig::default();
    let mut reading = Reading::default();
    let mut idle = Vec::new();
    let mut cursor = Cursor::new(file);
    while let Some((name, place)) = cursor.name()? {
        if UNREAD_SECTIONS.contains(&name) {
            if matches!(name, "plugin_path" | "test_plugin_path") {
                cursor.skip_word();
            }
            cursor.optional_block();
            let instead = INSTEAD.iter().find(|(section, _)| *section == name);
            let instead = instead.map_or(String::new(), |(_, instead)| format!(": {instead}"));
            reading.warnings.push(format!("{name}: this version has no such section; it is passed over{instead}"));
            continue;
        }
        if name == "heapsize" {
            let size = cursor.value("heapsize", "a number of bytes")?;
            heap_size(&mut config, &size)?;
        } else if SECTIONS.contains(&name) {
            section(&mut config, name, cursor.block(name)?, &mut reading)?;
        } else {
            let known = SECTIONS.into_iter().chain(UNREAD_SECTIONS);
            let meant = did_you_mean(name, known);
            let message = format!("unknown section '{name}': expected one of {}{meant}", SECTIONS.join(", "));
            return Err(Complaint::new(place, message));
        }
        if let Some(section) = ELSEWHERE.iter().find(|(section, _)| *section == name)
            && !idle.contains(section)
        {
            idle.push(*section);
        }
    }
    let warned = idle.into_iter().map(|(name, why)| format!("{name} has no effect: {why}"));
    reading.warnings.extend(warned);
    config.unix.finish(&reading)?;
    config.cpu.finish(&mut reading)?;
    config.dpdk.finish(&mut reading)?;
    config.plugins.finish(&mut reading);
    config.warnings = std::mem::take(&mut reading.warnings);
    Ok((config, reading.into_places()))
}

fn section(config: &mut StartupConfig, name: &str, block: &Block<'_>, reading: &mut Reading) -> Result<(), Complaint> {
    match name {
        "unix" => config.unix.read(block, reading),
        "cpu" => config.cpu.read(block, reading),
        "buffers" => config.buffers.read(block, reading),
        "logging" => config.logging.read(block, reading),
        "dpdk" => config.dpdk.read(block, reading),
        "plugins" => config.plugins.read(block, reading),
        "statseg" => config.statseg.read(block, reading),
        "api-segment" => config.api_segment.read(block, reading),
        "socksvr" => config.socksvr.read(block, reading),
        "memory" => config.memory.read(block, reading),
        _ => unreachable!("section {name} is listed"),
    }
}

/// `heapsize` is an older name of `memory { main-heap-size }`.
fn heap_size(config: &mut StartupConfig, size: &Value<'_>) -> Result<(), Complaint> {
    match config.memory.main_heap_size.replace(size.bytes()?) {
        Some(_) => {
            Err(Complaint::new(size.place, "the size of the heap is given twice ('heapsize', 'main-heap-size')"))
        }
        None => Ok(()),
    }
}
