//! Sections of VPP that have no effect here. They are read and checked, so that an operator finds out at once whether
//! the file is valid; one warning for each says so.

mod dpdk;
mod plugins;

use super::reader::Key;
use super::section::{Section, Settings};
use super::tree::Complaint;

const NO_API: &str = "there is no binary API in this version";
const NO_HEAP: &str = "there is no heap of a fixed size; memory is taken as needed";

pub(crate) const SECTIONS: &[Section] = &[
    dpdk::SECTION,
    plugins::SECTION,
    Section::new("statseg", STATSEG)
        .idle("there is no stats segment in this version; 'show' commands answer as JSON too")
        .check(|settings, _| one_name(settings, "statseg")),
    Section::new("api-segment", API_SEGMENT).idle(NO_API),
    Section::new("socksvr", SOCKSVR).idle(NO_API).check(|settings, _| one_name(settings, "socksvr")),
    Section::new("memory", MEMORY).idle(NO_HEAP),
    Section { word: Some(Key::size("heapsize")), ..Section::new("heapsize", &[]).idle(NO_HEAP) },
];

const STATSEG: &[Key] = &[
    Key::size("size"),
    Key::page_size("page-size"),
    Key::on_off("per-node-counters"),
    Key::value("socket-name", "the path of a Unix socket"),
    Key::flag("default"),
    Key::seconds("update-interval"),
];

const API_SEGMENT: &[Key] = &[
    Key::value("prefix", "a name"),
    Key::value("uid", "a user"),
    Key::value("gid", "a group"),
    Key::value("baseva", "an address"),
    Key::size("global-size"),
    Key::size("global-pvt-heap-size"),
    Key::size("api-pvt-heap-size"),
    // VPP wants the word more where the number has no unit.
    Key::size("global-pvt-heap-size size"),
    Key::size("api-pvt-heap-size size"),
    Key::size("api-size"),
];

const SOCKSVR: &[Key] = &[Key::flag("default"), Key::value("socket-name", "the path of a Unix socket")];

const MEMORY: &[Key] =
    &[Key::size("main-heap-size"), Key::page_size("main-heap-page-size"), Key::page_size("default-hugepage-size")];

/// `default` is a name for the socket: there cannot be another.
fn one_name(settings: &Settings, section: &str) -> Result<(), Complaint> {
    match settings.get("socket-name").filter(|_| settings.has("default")) {
        Some(named) => Err(named.complain(format!("'socket-name' contradicts 'default' in '{section}'"))),
        None => Ok(()),
    }
}
