//! Section `dpdk`: the NICs that DPDK would drive. This version has no DPDK driver: one warning names the devices and
//! what to use instead.

use crate::PciAddress;
use crate::reader::Key;
use crate::section::{Entry, Section, Settings};
use crate::tree::Complaint;
use crate::value::Value;

/// Most queues of a device, and descriptors of a queue, that can be asked for.
const MAXIMUM_QUEUES: u64 = 1024;
const MAXIMUM_DESCRIPTORS: u64 = 65_536;
/// Longest name of an interface.
const MAXIMUM_NAME: usize = 63;

const SOCKET_MEMORY: &str = "megabytes for each socket, like 1024,1024";

pub(super) const SECTION: Section = Section::new("dpdk", KEYS).check(check);

const KEYS: &[Key] = &[
    Key::named("dev", "a PCI address or 'default'").of(device).with(DEVICE),
    Key::named("vdev", "a virtual device"),
    Key::values("blacklist", "a PCI address or vendor:device"),
    Key::value("uio-driver", "a driver, like vfio-pci"),
    Key::flag("no-multi-seg"),
    Key::flag("no-tx-checksum-offload"),
    Key::flag("enable-tcp-udp-checksum"),
    Key::flag("enable-outer-checksum-offload"),
    Key::flag("decimal-interface-names"),
    Key::flag("no-hugetlb"),
    Key::flag("no-pci"),
    Key::flag("no-dsa"),
    Key::flag("interrupt-mode"),
    Key::flag("enable-telemetry"),
    Key::flag("telemetry"),
    Key::value("max-simd-bitwidth", "256 or 512"),
    Key::value("socket-mem", SOCKET_MEMORY).of(socket_memory),
    Key::value("log-level", "a level"),
    Key::value("huge-dir", "a directory"),
    Key::value("file-prefix", "a name"),
    Key::value("iova-mode", "pa or va"),
    Key::value("num-mbufs", "a number"),
    Key::value("num-crypto-mbufs", "a number"),
    Key::value("coremask", "a mask"),
    Key::value("nchannels", "a number"),
    Key::value("base-virtaddr", "an address"),
    Key::flag("uio-bind-force"),
    Key::flag("enable-mbuf-fast-free"),
    Key::value("link-state-poll-interval", "seconds"),
    Key::value("stats-poll-interval", "seconds"),
    Key::flag("no-vmbus"),
    Key::value("trace-dir", "a directory"),
    Key::value("trace-bufsz", "a size"),
    Key::values("trace", "an expression"),
    Key::flag("no-shconf"),
    Key::flag("no-hpet"),
    Key::flag("no-huge"),
    Key::flag("vmware-tsc-map"),
    Key::value("mem-alloc-request", "megabytes"),
    Key::value("force-ranks", "a number"),
    Key::value("proc-type", "primary or secondary"),
    Key::values("block", "a PCI address"),
];

const DEVICE: &[Key] = &[
    Key::value("name", "a name for the interface").of(name),
    Key::value("num-rx-queues", "a number of queues").of(queues),
    Key::value("num-tx-queues", "a number of queues").of(queues),
    Key::value("num-rx-desc", "a number of descriptors").of(descriptors),
    Key::value("num-tx-desc", "a number of descriptors").of(descriptors),
    Key::value("workers", "workers, like 0-1").of(|value| value.cores().map(drop)),
    Key::value("rss-queues", "queues, like 0-3").of(|value| value.list(MAXIMUM_QUEUES - 1, "queues").map(drop)),
    Key::words("rss", "the names of header fields"),
    Key::on_off("tso"),
    Key::on_off("vlan-strip-offload"),
    Key::flag("enable-lro"),
    Key::flag("no-rx-interrupts"),
    Key::value("max-lro-pkt-size", "a number of bytes").of(|value| value.number(1, 65_535).map(drop)),
    Key::value("devargs", "arguments for the device"),
    Key::value("tag", "a word"),
    // Of VPP before 20.09: neither VPP nor Quiver has such a scheduler today.
    Key::block("hqos"),
];

fn device(value: &Value<'_>) -> Result<(), Complaint> {
    if value.text == "default" || is_vmbus(value.text) { Ok(()) } else { value.pci_address().map(drop) }
}

fn name(value: &Value<'_>) -> Result<(), Complaint> {
    match value.text.len() {
        0..=MAXIMUM_NAME => Ok(()),
        _ => Err(value.complain(&format!("a name of at most {MAXIMUM_NAME} bytes"))),
    }
}

fn queues(value: &Value<'_>) -> Result<(), Complaint> {
    value.number(1, MAXIMUM_QUEUES).map(drop)
}

fn descriptors(value: &Value<'_>) -> Result<(), Complaint> {
    value.number(1, MAXIMUM_DESCRIPTORS).map(drop)
}

fn socket_memory(value: &Value<'_>) -> Result<(), Complaint> {
    let is_size = |text| Value { text, ..*value }.number(0, 1 << 20).is_ok();
    if value.text.split(',').all(is_size) { Ok(()) } else { Err(value.complain(SOCKET_MEMORY)) }
}

/// Checks that keys agree with each other, and warns that no driver serves the devices.
fn check(settings: &Settings, warnings: &mut Vec<String>) -> Result<(), Complaint> {
    let mut devices: Vec<(PciAddress, &Entry)> = Vec::new();
    for given in settings.all("dev") {
        if is_vmbus(&given.text) {
            let message = format!("dpdk: this version has no driver for VMBus: {} will not exist", given.text);
            warnings.push(message);
        } else if let Ok(address) = given.text.parse() {
            if devices.iter().any(|(device, _)| *device == address) {
                return Err(Complaint::new(given.value().place, format!("device {address} is given twice in 'dpdk'")));
            }
            devices.push((address, given));
        }
    }
    for barred in settings.all("blacklist") {
        if let Some((device, _)) = devices.iter().find(|(device, _)| barred.text.parse() == Ok(*device)) {
            return Err(barred.complain(format!("'blacklist {}' contradicts 'dev {device}'", barred.text)));
        }
    }
    if !devices.is_empty() {
        warnings.push(without_driver(&devices));
    }
    Ok(())
}

fn without_driver(devices: &[(PciAddress, &Entry)]) -> String {
    let name = |given: &Entry| given.inside.text("name").map(str::to_string);
    let named = |(address, given): &(PciAddress, &Entry)| match name(given) {
        Some(name) => format!("{address} ({name})"),
        None => address.to_string(),
    };
    let all: Vec<String> = devices.iter().map(named).collect();
    let name = devices.iter().find_map(|(_, given)| name(given)).unwrap_or_else(|| "e0".into());
    format!(
        "dpdk: this version has no DPDK driver: {} will not exist; leave the device to the kernel and use \
         'create host-interface HOST-INTERFACE name {name}' instead",
        all.join(", ")
    )
}

/// Whether a word is the address of a device on Hyper-V's VMBus: a UUID.
fn is_vmbus(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let hex = |part: &&str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(hex)
}
