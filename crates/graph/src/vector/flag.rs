//! Bits of [`crate::Row::flags`]. The lower 16 are [`wire::batch::check`]'s, the upper ten belong to capabilities.

/// The packet lies in several buffers; `length` counts them all.
pub const CHAINED: u32 = wire::batch::check::CHAINED;
/// Marked for the trace; its segment holds the trace's number.
pub const TRACED: u32 = 1 << 17;
/// The transport checksum is unfinished; its segment's offload says where it is.
pub const PARTIAL_CHECKSUM: u32 = 1 << 18;
/// Longer than the wire allows; its segment's offload says how to segment it.
pub const SEGMENTED: u32 = 1 << 19;
/// Made by this router (ICMP, ARP), not received: never answered by an error.
pub const ORIGINATED: u32 = 1 << 20;
/// Arrived without a link header.
pub const BARE: u32 = 1 << 21;
/// The bits that capabilities share out among themselves ([`crate::Graph::claim_flags`]).
pub const CLAIMABLE: u32 = 0xffc0_0000;
/// The claimable bit of a number from 0 to 9.
pub const fn claimable(number: u32) -> u32 {
    assert!(number < CLAIMABLE.count_ones());
    1 << (CLAIMABLE.trailing_zeros() + number)
}
/// A packet cannot be freed as one plain buffer.
pub const NOT_PLAIN: u32 = CHAINED;
/// The device, or `interface-output` in its place, has work left to do.
pub const OFFLOAD: u32 = PARTIAL_CHECKSUM | SEGMENTED;
