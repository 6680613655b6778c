//! Section `dpdk`: the NICs that DPDK would drive.
//!
//! The section is read and checked completely, so that an operator finds out at once whether the file is valid. This
//! version has no DPDK driver: one warning names the devices and what to use instead.

use super::pci::PciAddress;
use super::reader::{Key, Reading};
use super::tree::{Block, Complaint, NodeKind};

/// Most queues of a device, and descriptors of a queue, that can be asked for.
const MAXIMUM_QUEUES: u64 = 1024;
const MAXIMUM_DESCRIPTORS: u64 = 65_536;
/// Longest name of an interface.
const MAXIMUM_NAME: usize = 63;

pub(super) const KEYS: &[Key] = &[
    Key::named("dev", "a PCI address or 'default'"),
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
    Key::value("socket-mem", "megabytes for each socket, like 1024,1024"),
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

pub(super) const DEVICE_KEYS: &[Key] = &[
    Key::value("name", "a name for the interface"),
    Key::value("num-rx-queues", "a number of queues"),
    Key::value("num-tx-queues", "a number of queues"),
    Key::value("num-rx-desc", "a number of descriptors"),
    Key::value("num-tx-desc", "a number of descriptors"),
    Key::value("workers", "workers, like 0-1"),
    Key::value("rss-queues", "queues, like 0-3"),
    Key::block("rss"),
    Key::value("tso", "on or off"),
    Key::value("vlan-strip-offload", "on or off"),
    Key::flag("enable-lro"),
    Key::flag("no-rx-interrupts"),
    Key::value("max-lro-pkt-size", "a number of bytes"),
    Key::value("devargs", "arguments for the device"),
    Key::value("tag", "a word"),
    Key::block("hqos"),
];

/// The NICs that DPDK would drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dpdk {
    pub devices: Vec<DpdkDevice>,
    /// The options of each device that does not set its own (`dev default`).
    pub default: DeviceOptions,
    /// Virtual devices, as the EAL takes them.
    pub virtual_devices: Vec<String>,
    /// PCI addresses, or vendor and device, that are not used.
    pub blacklist: Vec<String>,
    pub uio_driver: Option<String>,
    pub no_multi_seg: bool,
    pub no_tx_checksum_offload: bool,
    pub enable_tcp_udp_checksum: bool,
    pub decimal_interface_names: bool,
    pub no_hugetlb: bool,
    pub telemetry: bool,
    /// Megabytes for each socket.
    pub socket_mem: Vec<u32>,
    pub log_level: Option<String>,
    /// Further keys with their values, for the EAL.
    pub others: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DpdkDevice {
    pub address: PciAddress,
    pub options: DeviceOptions,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceOptions {
    pub name: Option<String>,
    pub num_rx_queues: Option<u32>,
    pub num_tx_queues: Option<u32>,
    pub num_rx_desc: Option<u32>,
    pub num_tx_desc: Option<u32>,
    /// Workers that poll the device, by number.
    pub workers: Vec<u32>,
    pub rss_queues: Vec<u32>,
    /// Header fields to hash, as DPDK names them.
    pub rss: Vec<String>,
    pub tso: Option<bool>,
    pub vlan_strip_offload: Option<bool>,
    pub enable_lro: bool,
    pub no_rx_interrupts: bool,
    pub max_lro_pkt_size: Option<u32>,
    pub devargs: Option<String>,
    pub tag: Option<String>,
}

impl Dpdk {
    pub(super) fn read(&mut self, block: &Block<'_>, reading: &mut Reading) -> Result<(), Complaint> {
        for given in reading.keys("dpdk", block, KEYS)? {
            let value = &given.value;
            match given.key {
                "dev" if value.text == "default" => {
                    self.default = DeviceOptions::read("default", given.block, reading)?
                }
                "dev" if is_vmbus(value.text) => {
                    DeviceOptions::read(value.text, given.block, reading)?;
                    let message = format!("dpdk: this version has no driver for VMBus: {} will not exist", value.text);
                    reading.warnings.push(message);
                }
                "dev" => {
                    let address = value.pci_address()?;
                    if self.devices.iter().any(|device| device.address == address) {
                        return Err(Complaint::new(value.place, format!("device {address} is given twice in 'dpdk'")));
                    }
                    let options = DeviceOptions::read(value.text, given.block, reading)?;
                    self.devices.push(DpdkDevice { address, options });
                }
                "vdev" => self.virtual_devices.push(value.string()),
                "blacklist" => self.blacklist.push(value.string()),
                "uio-driver" => self.uio_driver = Some(value.string()),
                "no-multi-seg" => self.no_multi_seg = true,
                "no-tx-checksum-offload" => self.no_tx_checksum_offload = true,
                "enable-tcp-udp-checksum" => self.enable_tcp_udp_checksum = true,
                "decimal-interface-names" => self.decimal_interface_names = true,
                "no-hugetlb" => self.no_hugetlb = true,
                "telemetry" | "enable-telemetry" => self.telemetry = true,
                "socket-mem" => {
                    let of_socket = |text| super::value::Value { text, ..*value }.number(0, 1 << 20);
                    let sizes = value.text.split(',').map(of_socket).collect::<Result<_, _>>();
                    self.socket_mem = sizes.map_err(|_| value.complain("megabytes for each socket, like 1024,1024"))?;
                }
                "log-level" => self.log_level = Some(value.string()),
                key => self.others.push((key.into(), value.string())),
            }
        }
        Ok(())
    }

    /// Checks that keys agree with each other, and warns that no driver serves the devices.
    pub(super) fn finish(&self, reading: &mut Reading) -> Result<(), Complaint> {
        for device in &self.devices {
            let barred = |text: &String| text.parse() == Ok(device.address);
            if let Some(text) = self.blacklist.iter().find(|text| barred(text)) {
                let message = format!("'blacklist {text}' contradicts 'dev {}'", device.address);
                let place = reading.place(&format!("dpdk blacklist {text}"));
                return place.map_or(Ok(()), |place| Err(Complaint::new(place, message)));
            }
        }
        if !self.devices.is_empty() {
            reading.warnings.push(self.without_driver());
        }
        Ok(())
    }

    fn without_driver(&self) -> String {
        let named = |device: &DpdkDevice| match &device.options.name {
            Some(name) => format!("{} ({name})", device.address),
            None => device.address.to_string(),
        };
        let devices: Vec<String> = self.devices.iter().map(named).collect();
        let name = self.devices.iter().find_map(|device| device.options.name.as_deref()).unwrap_or("e0");
        format!(
            "dpdk: this version has no DPDK driver: {} will not exist; leave the device to the kernel and use \
             'create host-interface HOST-INTERFACE name {name}' instead",
            devices.join(", ")
        )
    }
}

impl DeviceOptions {
    fn read(device: &str, block: Option<&Block<'_>>, reading: &mut Reading) -> Result<Self, Complaint> {
        let mut options = Self::default();
        let Some(block) = block else { return Ok(options) };
        for given in reading.keys(&format!("dpdk dev {device}"), block, DEVICE_KEYS)? {
            let value = &given.value;
            let queues = || value.number(1, MAXIMUM_QUEUES).map(Some);
            let descriptors = || value.number(1, MAXIMUM_DESCRIPTORS).map(Some);
            match given.key {
                "name" if value.text.len() > MAXIMUM_NAME => {
                    return Err(value.complain(&format!("a name of at most {MAXIMUM_NAME} bytes")));
                }
                "name" => options.name = Some(value.string()),
                "num-rx-queues" => options.num_rx_queues = queues()?,
                "num-tx-queues" => options.num_tx_queues = queues()?,
                "num-rx-desc" => options.num_rx_desc = descriptors()?,
                "num-tx-desc" => options.num_tx_desc = descriptors()?,
                "workers" => options.workers = value.cores()?,
                "rss-queues" => options.rss_queues = value.list(MAXIMUM_QUEUES - 1, "queues")?,
                "rss" => options.rss = words(given.block)?,
                "tso" => options.tso = Some(value.on_or_off()?),
                "vlan-strip-offload" => options.vlan_strip_offload = Some(value.on_or_off()?),
                "enable-lro" => options.enable_lro = true,
                "no-rx-interrupts" => options.no_rx_interrupts = true,
                "max-lro-pkt-size" => options.max_lro_pkt_size = Some(value.number(1, 65_535)?),
                "devargs" => options.devargs = Some(value.string()),
                "tag" => options.tag = Some(value.string()),
                "hqos" => {} // of VPP before 20.09: neither VPP nor Quiver has such a scheduler today
                key => unreachable!("key {key} is listed"),
            }
        }
        Ok(options)
    }
}

/// Whether a word is the address of a device on Hyper-V's VMBus: a UUID.
fn is_vmbus(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let hex = |part: &&str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(hex)
}

/// A block that holds only words.
fn words(block: Option<&Block<'_>>) -> Result<Vec<String>, Complaint> {
    let nodes = block.map_or(&[][..], |block| &block.nodes);
    let word = |node: &super::tree::Node<'_>| match node.kind {
        NodeKind::Word(word) => Ok(word.to_string()),
        NodeKind::Block(_) => Err(Complaint::new(node.place, "'{' in 'rss': expected the names of header fields")),
    };
    nodes.iter().map(word).collect()
}
