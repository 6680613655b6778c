//! A tunnel, to measure what a header in front of packets costs: 50 bytes, as VXLAN over IPv4 has, with what differs
//! from packet to packet.

use graph::{Context, Vector};
use protocols::midchain::Encapsulation;
use router::Router;
use router::ip::control::{Path, PathAction, Source, TableIndex};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use wire::{Prefix, Prefix4, ipv4};

pub const NAME: &str = "ip4-midchain";

const END: Ipv4Addr = Ipv4Addr::new(44, 0, 0, 1);
const UDP: usize = ipv4::HEADER_LEN;
const SIZE: usize = UDP + 8 + 8 + 14;

/// Writes both lengths, and the IPv4 checksum from that of a header of length 0.
fn complete(cx: &mut Context<'_>, vector: &mut Vector, run: Range<usize>) {
    let columns = vector.columns();
    for ((packet, l3), length) in
        columns.packets[run.clone()].iter().zip(&columns.l3[run.clone()]).zip(&columns.length[run])
    {
        let Some(header) = cx.buffers.bytes_mut(*packet)[usize::from(*l3)..].first_chunk_mut::<SIZE>() else {
            continue;
        };
        let sum = u32::from(!u16::from_be_bytes([header[10], header[11]])) + u32::from(*length);
        let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
        header[2..4].copy_from_slice(&length.to_be_bytes());
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header[UDP + 4..UDP + 6].copy_from_slice(&(length - UDP as u16).to_be_bytes());
    }
}

/// Has a prefix lead into a tunnel, whose end is behind a next hop.
///
/// # Errors
/// As of [`Router`].
pub fn install(router: &mut Router, prefix: Prefix, hop: IpAddr) -> Result<(), router::Error> {
    let tunnel = router.create_interface("tunnel0", drivers::null::open(9))?;
    router.set_admin(tunnel, true)?;
    let mut header = vec![0; SIZE];
    header[..UDP].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 255, 0, 1, 44, 0, 0, 1]);
    header[UDP..UDP + 4].copy_from_slice(&[0xc0, 0, 0x12, 0xb5]);
    header[UDP + 8] = 8;
    let fix_up = Some(router.register_fix_up("lengths", complete)?);
    router.encapsulate(tunnel, Encapsulation { header, fix_up, table: TableIndex::DEFAULT })?;
    let end: Prefix = Prefix4::new(END, 32).expect("32 is a length").into();
    let way = PathAction::Via { next_hop: hop, interface: None };
    router.add_route(end, Source::Api, vec![Path::new(way)], true)?;
    router.add_route(prefix, Source::Api, vec![Path::new(PathAction::Attached(tunnel))], true)
}
