//! Section `buffers`: packet memory.

use super::PageSize;
use super::reader::{Key, Reading};
use super::tree::{Block, Complaint};
use super::value::Value;

/// Fewest and most packet buffers per NUMA node: a few vectors, and 32-bit indices.
const BUFFERS_PER_NUMA: (u64, u64) = (1024, 1 << 24);
/// Least and most bytes of a buffer's data: a small frame, and an offset of 16 bits.
const DATA_SIZE: (u64, u64) = (256, 65_024);

/// NUMA nodes have lower numbers than this, on any machine.
const MAXIMUM_NODE: u64 = 255;

const DEFAULT_BUFFERS_PER_NUMA: u32 = 16_384;
const DEFAULT_DATA_SIZE: u32 = 2048;

pub(super) const KEYS: &[Key] = &[
    Key::value("buffers-per-numa", "a number of buffers"),
    Key::value("default data-size", "a number of bytes"),
    Key::value("page-size", "one of default, default-hugepage, 4k, 2m, 1g"),
    Key::named("numa", "a number of a NUMA node"),
    Key::value("layout", "natural or packed").idle("there is one layout"),
    // Of Calico's and older files.
    Key::flag("no-hugetlb").idle("'page-size 4k' asks for plain pages"),
];

pub(super) const NUMA_KEYS: &[Key] = &[Key::value("buffers", "a number of buffers")];

/// Packet memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffers {
    pub buffers_per_numa: u32,
    /// Bytes of packet data that one buffer holds.
    pub default_data_size: u32,
    pub page_size: PageSize,
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            buffers_per_numa: DEFAULT_BUFFERS_PER_NUMA,
            default_data_size: DEFAULT_DATA_SIZE,
            page_size: PageSize::Default,
        }
    }
}

impl Buffers {
    pub(super) fn read(&mut self, block: &Block<'_>, reading: &mut Reading) -> Result<(), Complaint> {
        let mut named = Vec::new();
        for given in reading.keys("buffers", block, KEYS)? {
            let value = &given.value;
            match given.key {
                "buffers-per-numa" => self.buffers_per_numa = value.number(BUFFERS_PER_NUMA.0, BUFFERS_PER_NUMA.1)?,
                "default data-size" => self.default_data_size = value.number(DATA_SIZE.0, DATA_SIZE.1)?,
                "page-size" => self.page_size = value.page_size()?,
                "numa" => named.extend(of_node(value, given.block, reading)?),
                key => unreachable!("key {key} is listed"),
            }
        }
        if let Some(most) = named.iter().map(|(_, buffers)| *buffers).max() {
            let stated = reading.place("buffers buffers-per-numa").map_or(0, |_| self.buffers_per_numa);
            self.buffers_per_numa = most.max(stated);
            let nodes: Vec<String> = named.iter().map(|(node, buffers)| format!("numa {node}: {buffers}")).collect();
            reading.warnings.push(format!(
                "buffers: this version has one pool for all NUMA nodes: it takes {}, the most that is asked for ({})",
                self.buffers_per_numa,
                nodes.join(", ")
            ));
        }
        Ok(())
    }
}

/// A NUMA node with its buffers, when its block says how many.
fn of_node(
    node: &Value<'_>,
    block: Option<&Block<'_>>,
    reading: &mut Reading,
) -> Result<Option<(u32, u32)>, Complaint> {
    let number = node.number(0, MAXIMUM_NODE)?;
    let Some(block) = block else {
        return Err(node.complain("a number and a block: numa 0 { buffers 16384 }"));
    };
    let mut buffers = None;
    for given in reading.keys(&format!("buffers numa {number}"), block, NUMA_KEYS)? {
        buffers = Some((number, given.value.number(BUFFERS_PER_NUMA.0, BUFFERS_PER_NUMA.1)?));
    }
    Ok(buffers)
}
