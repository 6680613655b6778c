//! The sections of a file, and those of VPP that are passed over.

use std::collections::BTreeMap;

use super::StartupConfig;
use super::idle;
use super::reader::{Cursor, Reading};
use super::section::Section;
use super::tree::{Block, Complaint};
use super::value::did_you_mean;

/// Sections that this crate gives a meaning.
pub(super) const OWN: [&str; 4] = ["unix", "cpu", "buffers", "logging"];

/// Sections of VPP that are passed over whole: those that its sources register (master of August 2026), and those that
/// it had before.
pub(super) const UNREAD_SECTIONS: [&str; 60] = [
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
    ("linux-cp", "'lcp create' makes pairs"),
    ("tuntap", "'create tap' makes the host's end"),
    ("unix-cli", "sessions are set by 'cli-' keys of 'unix'"),
];

/// Where keys were given.
type Places = BTreeMap<String, (usize, usize)>;

/// Reads a whole file. Capabilities have sections beside those of this crate.
pub(super) fn read(file: &Block<'_>, sections: &[&'static Section]) -> Result<(StartupConfig, Places), Complaint> {
    let mut config = StartupConfig::default();
    let mut reading = Reading::default();
    let mut cursor = Cursor::new(file);
    let mut given = Vec::new();
    let data = || sections.iter().copied().chain(idle::SECTIONS);
    while let Some((name, place)) = cursor.name()? {
        if OWN.contains(&name) {
            let block = cursor.block(name)?;
            match name {
                "unix" => config.unix.read(block, &mut reading)?,
                "cpu" => config.cpu.read(block, &mut reading)?,
                "buffers" => config.buffers.read(block, &mut reading)?,
                _ => config.logging.read(block, &mut reading)?,
            }
        } else if let Some(section) = data().find(|section| section.name == name) {
            if !config.sections.contains_key(section.name) {
                given.push(section);
            }
            let settings = config.sections.entry(section.name).or_default();
            match &section.word {
                Some(key) => reading.word(key, place, &mut cursor, settings)?,
                None => reading.settings(name, cursor.block(name)?, section.keys, settings)?,
            }
        } else if UNREAD_SECTIONS.contains(&name) {
            if matches!(name, "plugin_path" | "test_plugin_path") {
                cursor.skip_word();
            }
            cursor.optional_block();
            let instead = INSTEAD.iter().find(|(section, _)| *section == name);
            let instead = instead.map_or(String::new(), |(_, instead)| format!(": {instead}"));
            reading.warnings.push(format!("{name}: this version has no such section; it is passed over{instead}"));
        } else {
            let read: Vec<&str> = OWN.into_iter().chain(data().map(|section| section.name)).collect();
            let meant = did_you_mean(name, read.iter().copied().chain(UNREAD_SECTIONS));
            let message = format!("unknown section '{name}': expected one of {}{meant}", read.join(", "));
            return Err(Complaint::new(place, message));
        }
    }
    config.unix.finish(&reading)?;
    config.cpu.finish(&mut reading)?;
    for section in given {
        let why = section.idle.map(|why| format!("{} has no effect: {why}", section.name));
        reading.warnings.extend(why);
        (section.check)(&config.sections[section.name], &mut reading.warnings)?;
    }
    config.warnings = std::mem::take(&mut reading.warnings);
    Ok((config, reading.into_places()))
}
