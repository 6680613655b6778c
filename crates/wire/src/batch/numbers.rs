//! Numbers of the IPv4 checks ([`super::pass`]), which are operands in memory. Of numbers in the code, the compiler
//! puts each into a register anew in each step, because there are more than registers: 0.7 of 10.1 clocks a packet
//! (AVX2, Zen 3). The checks of IPv6 have fewer, and gain nothing.

use super::{check, scalar};

/// A number for all packets of the largest register.
#[repr(align(32))]
pub(super) struct Wide(pub [u32; 8]);

pub(super) struct Numbers {
    pub version_bits: Wide,
    pub version: Wide,
    pub length_bits: Wide,
    pub words: Wide,
    pub bytes: Wide,
    pub least_ttl: Wide,
    pub octet: Wide,
    pub fragment_bits: Wide,
    pub loopback: Wide,
    pub last_class: Wide,
    pub no_hosts: Wide,
    pub bad_version: Wide,
    pub bad_header_length: Wide,
    pub bad_total: Wide,
    pub bad_sum: Wide,
    pub expired: Wide,
    pub fragment: Wide,
    pub no_host: Wide,
    pub examined: Wide,
    pub not_trimmed: Wide,
    pub chained: Wide,
}

pub(super) static NUMBERS: Numbers = Numbers {
    version_bits: wide(0xf0),
    version: wide(0x40),
    length_bits: wide(0x0f),
    words: wide(5),
    bytes: wide(20),
    least_ttl: wide(2),
    octet: wide(0xff),
    fragment_bits: wide(0xff3f_0000),
    loopback: wide(127 << 16 | 127),
    last_class: wide(223 << 16 | 223),
    no_hosts: wide(check::MARTIAN_SOURCE | check::SPECIAL_DESTINATION << 16),
    bad_version: wide(check::VERSION),
    bad_header_length: wide(check::HEADER_LENGTH),
    bad_total: wide(check::TOTAL_LENGTH),
    bad_sum: wide(check::CHECKSUM),
    expired: wide(check::TTL),
    fragment: wide(check::FRAGMENT),
    no_host: wide(check::MARTIAN_SOURCE | check::SPECIAL_DESTINATION),
    examined: wide(check::EXAMINED),
    not_trimmed: wide(scalar::NOT_TRIMMED),
    chained: wide(check::CHAINED),
};

const fn wide(value: u32) -> Wide {
    Wide([value; 8])
}
