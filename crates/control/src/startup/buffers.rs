//! Section `buffers`: packet memory.

use super::PageSize;
use super::reader::{Key, Reading};
use super::tree::{Block, Complaint};

/// Fewest and most packet buffers per NUMA node: a few vectors, and 32-bit indices.
const BUFFERS_PER_NUMA: (u64, u64) = (1024, 1 << 24);
/// Least and most bytes of a buffer's data: a small frame, and an offset of 16 bits.
const DATA_SIZE: (u64, u64) = (256, 65_024);

const DEFAULT_BUFFERS_PER_NUMA: u32 = 16_384;
const DEFAULT_DATA_SIZE: u32 = 2048;

pub(super) const KEYS: &[Key] = &[
    Key::value("buffers-per-numa", "a number of buffers"),
    Key::value("default data-size", "a number of bytes"),
    Key::value("page-size", "one of default, default-hugepage, 4k, 2m, 1g"),
];

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
        for given in reading.keys("buffers", block, KEYS)? {
            let value = &given.value;
            match given.key {
                "buffers-per-numa" => self.buffers_per_numa = value.number(BUFFERS_PER_NUMA.0, BUFFERS_PER_NUMA.1)?,
                "default data-size" => self.default_data_size = value.number(DATA_SIZE.0, DATA_SIZE.1)?,
                "page-size" => self.page_size = value.page_size()?,
                key => unreachable!("key {key} is listed"),
            }
        }
        Ok(())
    }
}
