//! Sections about parts of VPP that this program does not have: the stats segment, the binary
//! API, VPP's heap. They are read and checked, so that a VPP file is known to be well written,
//! and have no effect; one warning for each says so.

use std::path::PathBuf;
use std::time::Duration;

use super::PageSize;
use super::reader::{Key, Reading};
use super::tree::{Block, Complaint};

pub(super) const STATSEG_KEYS: &[Key] = &[
    Key::value("size", "a number of bytes"),
    Key::value("page-size", "one of default, default-hugepage, 4k, 2m, 1g"),
    Key::value("per-node-counters", "on or off"),
    Key::value("socket-name", "the path of a Unix socket"),
    Key::flag("default"),
    Key::value("update-interval", "seconds"),
];

pub(super) const API_SEGMENT_KEYS: &[Key] = &[
    Key::value("prefix", "a name"),
    Key::value("uid", "a user"),
    Key::value("gid", "a group"),
    Key::value("baseva", "an address"),
    Key::value("global-size", "a number of bytes"),
    Key::value("global-pvt-heap-size", "a number of bytes"),
    Key::value("api-pvt-heap-size", "a number of bytes"),
    // VPP wants the word more where the number has no unit.
    Key::value("global-pvt-heap-size size", "a number of bytes"),
    Key::value("api-pvt-heap-size size", "a number of bytes"),
    Key::value("api-size", "a number of bytes"),
];

pub(super) const SOCKSVR_KEYS: &[Key] = &[Key::flag("default"), Key::value("socket-name", "the path of a Unix socket")];

pub(super) const MEMORY_KEYS: &[Key] = &[
    Key::value("main-heap-size", "a number of bytes"),
    Key::value("main-heap-page-size", "one of default, default-hugepage, 4k, 2m, 1g"),
    Key::value("default-hugepage-size", "one of default, default-hugepage, 4k, 2m, 1g"),
];

/// Section `statseg`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statseg {
    pub size: Option<u64>,
    pub page_size: Option<PageSize>,
    pub per_node_counters: Option<bool>,
    pub socket_name: Option<PathBuf>,
    /// The socket has its usual name.
    pub default: bool,
    pub update_interval: Option<Duration>,
}

/// Section `api-segment`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiSegment {
    pub prefix: Option<String>,
    pub uid: Option<String>,
    pub gid: Option<String>,
}

/// Section `socksvr`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Socksvr {
    /// The socket has its usual name.
    pub default: bool,
    pub socket_name: Option<PathBuf>,
}

/// Section `memory`, and `heapsize`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub main_heap_size: Option<u64>,
    pub main_heap_page_size: Option<PageSize>,
    pub default_hugepage_size: Option<PageSize>,
}

impl Statseg {
    pub(super) fn read(&mut self, block: &Block<'_>, reading: &mut Reading) -> Result<(), Complaint> {
        for given in reading.keys("statseg", block, STATSEG_KEYS)? {
            let value = &given.value;
            match given.key {
                "size" => self.size = Some(value.bytes()?),
                "page-size" => self.page_size = Some(value.page_size()?),
                "per-node-counters" => self.per_node_counters = Some(value.on_or_off()?),
                "socket-name" => self.socket_name = Some(value.path()),
                "default" => self.default = true,
                "update-interval" => self.update_interval = Some(value.seconds()?),
                key => unreachable!("key {key} is listed"),
            }
        }
        let named = reading.place("statseg socket-name").filter(|_| self.default);
        both_names(named, "statseg")
    }
}

impl ApiSegment {
    pub(super) fn read(&mut self, block: &Block<'_>, reading: &mut Reading) -> Result<(), Complaint> {
        for given in reading.keys("api-segment", block, API_SEGMENT_KEYS)? {
            let value = &given.value;
            match given.key {
                "prefix" => self.prefix = Some(value.string()),
                "uid" => self.uid = Some(value.string()),
                "gid" => self.gid = Some(value.string()),
                "baseva" => {}
                _ => {
                    value.bytes()?;
                }
            }
        }
        Ok(())
    }
}

impl Socksvr {
    pub(super) fn read(&mut self, block: &Block<'_>, reading: &mut Reading) -> Result<(), Complaint> {
        for given in reading.keys("socksvr", block, SOCKSVR_KEYS)? {
            match given.key {
                "default" => self.default = true,
                _ => self.socket_name = Some(given.value.path()),
            }
        }
        let named = reading.place("socksvr socket-name").filter(|_| self.default);
        both_names(named, "socksvr")
    }
}

/// `default` is a name for the socket: there cannot be another.
fn both_names(named: Option<super::tree::Place>, section: &str) -> Result<(), Complaint> {
    match named {
        Some(place) => Err(Complaint::new(place, format!("'socket-name' contradicts 'default' in '{section}'"))),
        None => Ok(()),
    }
}

impl Memory {
    pub(super) fn read(&mut self, block: &Block<'_>, reading: &mut Reading) -> Result<(), Complaint> {
        for given in reading.keys("memory", block, MEMORY_KEYS)? {
            let value = &given.value;
            match given.key {
                "main-heap-size" => self.main_heap_size = Some(value.bytes()?),
                "main-heap-page-size" => self.main_heap_page_size = Some(value.page_size()?),
                "default-hugepage-size" => self.default_hugepage_size = Some(value.page_size()?),
                key => unreachable!("key {key} is listed"),
            }
        }
        Ok(())
    }
}
