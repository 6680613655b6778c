//! Packet sockets: an existing interface of the host, one end of a veth pair perhaps,
//! whose frames we receive and send (packet(7), Linux
//! `Documentation/networking/packet_mmap.rst`).
//!
//! Frames that fit one buffer come through a ring shared with the kernel. This takes no system call: an idle poll is
//! one load. The ring is TPACKET_V2's, where a frame can be seen as soon as it is written; V3's frames wait for their
//! block to fill or a millisecond to pass. Longer frames, up to 64 KiB when the host leaves segmentation to us, would
//! need slots of that size: tens of megabytes. For these the kernel queues the frame itself on the socket
//! (`PACKET_COPY_THRESH`) and notes that in the frame's slot; one read brings it into a chain of buffers. The ring
//! decides the order.
//!
//! Sending takes one system call for up to [`BATCH`] packets.
//!
//! Several queues are several sockets, among which the kernel distributes flows (`PACKET_FANOUT_HASH`; fragments by
//! their addresses). Any thread may send by any of them, so each worker sends by itself.
#![allow(unsafe_code)]

use crate::chain::{Chain, Frame, Fresh};
use crate::host::{self, Interface};
use crate::stations::Stations;
use crate::{
    Carries, DROPPED, Device, FULL, Link, OpenError, REFUSED, Receive, ReceiveCounts, Speed, StationFilter, TOO_LONG,
    Transmit, TxOffloads, borrowed, socket_option, vnet,
};
use graph::buffer::{DATA_SIZE, HEADROOM, MAX_SEGMENTS};
use graph::{Buffers, EdgeIndex, Row, Vector, edge};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::mm;
use rustix::net::RecvFlags;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use wire::MacAddress;
use wire::ethernet::EtherType;

/// The driver's name.
pub const DRIVER: &str = "af_packet";
/// The node by which its packets arrive.
pub const INPUT: &str = "af-packet-input";

/// Bytes of a slot ahead of the frame: `tpacket2_hdr` and `sockaddr_ll`, the virtio-net
/// header, and alignment of the network header to 16.
const SLOT_HEAD: usize = 96;
/// Bytes of a slot: whole cache lines that take a frame of one buffer.
const SLOT_SIZE: usize = (SLOT_HEAD + DATA_SIZE).next_multiple_of(64);
/// The kernel allocates the ring in physically contiguous blocks.
const BLOCK_SIZE: usize = 64 << 10;
const SLOTS_PER_BLOCK: usize = BLOCK_SIZE / SLOT_SIZE;
/// 2 MiB, all of it resident: 960 slots, which a veth at two million packets a second fills in half a millisecond.
const BLOCKS: usize = 32;
const SLOTS: usize = SLOTS_PER_BLOCK * BLOCKS;

/// Bytes that the kernel may queue for us besides the ring (two hundred of the longest frames), and bytes that we may
/// have queued to send.
const SOCKET_BUFFER: i32 = 8 << 20;
/// Packets sent by one system call, and pieces of memory that they may occupy.
const BATCH: usize = 32;
const PIECES: usize = 4 * (MAX_SEGMENTS + 1);
/// Most reads to get a slot's frame off the queue.
const READS_PER_FRAME: usize = 4;
/// Polls between two checks of the socket's error and drop count. A socket in error wakes its worker until it is
/// checked.
const POLLS_PER_CHECK: u32 = 64;
/// Most queues of an interface (the kernel's `PACKET_FANOUT_MAX` is larger); each takes 2 MiB.
pub const MAX_QUEUES: u16 = 64;

/// The option that makes a socket one of a group, and its kinds (linux/if_packet.h): the group's number
/// is the lower half, the kind the upper.
const PACKET_FANOUT: i32 = 18;
const PACKET_FANOUT_HASH: u32 = 0;
const PACKET_FANOUT_FLAG_UNIQUEID: u32 = 0x2000 << 16;
/// The option `PACKET_IGNORE_OUTGOING` for a group; the option on a member has no effect. Kernels before 6.2 do not
/// know it.
const PACKET_FANOUT_FLAG_IGNORE_OUTGOING: u32 = 0x4000 << 16;

/// Which interface to use, and with which address.
#[derive(Debug, Clone)]
pub struct AfPacketOptions {
    pub host_interface: String,
    /// Our own address; none: a random one, because the host keeps its own.
    pub hw_address: Option<MacAddress>,
    /// Receive queues, 1 to [`MAX_QUEUES`].
    pub queues: u16,
}

/// Opens a packet socket on an interface of the host.
///
/// # Errors
/// When there is no such interface, it does not carry Ethernet frames, or the system refuses (it requires
/// `CAP_NET_RAW`).
pub fn open(options: AfPacketOptions) -> Result<Device, OpenError> {
    let name = &options.host_interface;
    let interface = Interface::find(name)?;
    let about = |what: &str, error| OpenError::system(format!("{what} of host interface '{name}'"), error);
    if !interface.is_ethernet().map_err(|error| about("the type", error))? {
        return Err(OpenError::Refused(format!("host interface '{name}' does not carry Ethernet frames")));
    }
    let mtu = interface.mtu().map_err(|error| about("the MTU", error))?;
    let sockets = sockets(name, &interface, options.queues)?;
    let fds: Arc<[Arc<OwnedFd>]> = sockets.iter().map(|receive| receive.fd.clone()).collect();
    let mac = options.hw_address.unwrap_or_else(host::random_mac);
    let stations = Stations::new(fds[0].clone(), interface.index);
    let mut link = PacketLink { interface, stations };
    link.set_filter(&StationFilter { stations: vec![mac], promiscuous: false })
        .map_err(|error| OpenError::system(format!("asking host interface '{name}' for frames"), error))?;
    Ok(Device {
        driver: DRIVER,
        carries: Carries::LINK,
        input_node: INPUT,
        description: format!("host interface {name}"),
        host: Some(name.to_string()),
        mac,
        mtu: mtu.try_into().unwrap_or(u16::MAX),
        finishes: TxOffloads { checksum: true, segmentation: true },
        receive: sockets.into_iter().map(|receive| Box::new(receive) as Box<dyn Receive>).collect(),
        transmit: Box::new(PacketTransmit { fds, own: 0 }),
        link: Box::new(link),
    })
}

/// Opens this many sockets on an interface, each with its share of the flows.
fn sockets(name: &str, interface: &Interface, count: u16) -> Result<Vec<PacketReceive>, OpenError> {
    let mut sockets: Vec<PacketReceive> = Vec::new();
    // The kernel chooses the first one's group; the others join it.
    let mut group = PACKET_FANOUT_HASH | PACKET_FANOUT_FLAG_UNIQUEID;
    let mut flags = PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
    for _ in 0..count {
        let fd = socket()?;
        let ring = Ring::map(&fd).map_err(|error| OpenError::system("mapping a packet ring", error))?;
        bind(&fd, interface)
            .map_err(|error| OpenError::system(format!("binding to host interface '{name}'"), error))?;
        if count > 1 {
            let hint = if interface.is_running() { "" } else { " (it is down; some kernels want it up)" };
            let what = format!("sharing flows of host interface '{name}' out among sockets{hint}");
            let failed = |error| OpenError::system(what.clone(), error);
            let join = |flags: u32| socket_option::set(&fd, libc::SOL_PACKET, PACKET_FANOUT, &(group | flags));
            if join(flags).is_err() {
                flags = 0;
                join(flags).map_err(failed)?;
            }
            let [joined]: [u32; 1] = socket_option::get(&fd, libc::SOL_PACKET, PACKET_FANOUT).map_err(failed)?;
            group = joined & 0xffff | PACKET_FANOUT_HASH;
        }
        sockets.push(PacketReceive { fd: Arc::new(fd), ring, polls: 0 });
    }
    // Before it joined the group, each socket received frames of all flows.
    sockets.iter_mut().for_each(PacketReceive::discard);
    Ok(sockets)
}

/// A socket with all options set that does not receive yet.
fn socket() -> Result<OwnedFd, OpenError> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(OpenError::system("opening a packet socket", io::Error::last_os_error()));
    }
    // SAFETY: just opened, and nothing else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let ring = libc::tpacket_req {
        tp_block_size: BLOCK_SIZE as u32,
        tp_block_nr: BLOCKS as u32,
        tp_frame_size: SLOT_SIZE as u32,
        tp_frame_nr: SLOTS as u32,
    };
    let version = libc::tpacket_versions::TPACKET_V2 as i32;
    let packet = libc::SOL_PACKET;
    // The version and the virtio-net header decide the layout of the ring: they come first.
    let options = [
        ("PACKET_VERSION", socket_option::set(&fd, packet, libc::PACKET_VERSION, &version)),
        ("PACKET_VNET_HDR", socket_option::set(&fd, packet, libc::PACKET_VNET_HDR, &1i32)),
        ("PACKET_COPY_THRESH", socket_option::set(&fd, packet, libc::PACKET_COPY_THRESH, &1i32)),
        ("PACKET_IGNORE_OUTGOING", socket_option::set(&fd, packet, libc::PACKET_IGNORE_OUTGOING, &1i32)),
        ("PACKET_RX_RING", socket_option::set(&fd, packet, libc::PACKET_RX_RING, &ring)),
    ];
    for (name, result) in options {
        result.map_err(|error| OpenError::system(format!("setting {name} of a packet socket"), error))?;
    }
    // Above the system's limit when we may, else up to it.
    for (forced, limited) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
        if socket_option::set(&fd, libc::SOL_SOCKET, forced, &SOCKET_BUFFER).is_err() {
            let _ = socket_option::set(&fd, libc::SOL_SOCKET, limited, &SOCKET_BUFFER);
        }
    }
    Ok(fd)
}

/// Starts to receive frames of all protocols.
fn bind(fd: &OwnedFd, interface: &Interface) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: interface.index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: an address of that length.
    let result = unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), length) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

struct PacketLink {
    interface: Interface,
    stations: Stations,
}

impl Link for PacketLink {
    fn is_up(&self) -> bool {
        self.interface.is_running()
    }

    fn speed(&self) -> Option<Speed> {
        self.interface.speed()
    }

    fn set_filter(&mut self, filter: &StationFilter) -> io::Result<()> {
        self.stations.set(filter)
    }

    fn mtu(&self) -> Option<u16> {
        self.interface.mtu().ok().map(|mtu| mtu.try_into().unwrap_or(u16::MAX))
    }

    fn set_mtu(&mut self, mtu: u16) -> io::Result<()> {
        self.interface.set_mtu(mtu.into())
    }

    /// Sets the host's interface up with ours, but never down: it is the host's, which may
    /// use it without us.
    fn set_admin(&mut self, up: bool) -> io::Result<()> {
        if up { self.interface.set_up() } else { Ok(()) }
    }
}

/// The ring of received frames, shared with the kernel.
struct Ring {
    base: NonNull<u8>,
    /// The slot that is filled next.
    next: usize,
}

// SAFETY: only this value has the mapping, which may be used from any thread.
unsafe impl Send for Ring {}

/// What a slot says of the frame in it, after checks.
struct Slot {
    /// The frame's start in the slot, and how much of it is there.
    offset: usize,
    captured: usize,
    /// The frame's whole length.
    length: usize,
    /// The VLAN tag that the kernel took out of the frame: its four bytes.
    tag: Option<[u8; 4]>,
    /// The whole frame is queued on the socket.
    queued: bool,
    header: [u8; vnet::SIZE],
}

impl Ring {
    fn map(fd: &OwnedFd) -> io::Result<Ring> {
        let access = mm::ProtFlags::READ | mm::ProtFlags::WRITE;
        let length = BLOCK_SIZE * BLOCKS;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { mm::mmap(std::ptr::null_mut(), length, access, mm::MapFlags::SHARED, fd, 0)? };
        Ok(Ring { base: NonNull::new(base.cast()).expect("mmap gives no null"), next: 0 })
    }

    /// The next slot's memory.
    #[inline]
    fn slot(&self) -> *mut u8 {
        let (block, slot) = (self.next / SLOTS_PER_BLOCK, self.next % SLOTS_PER_BLOCK);
        // SAFETY: `next` is below SLOTS: the slot lies in the mapping.
        unsafe { self.base.as_ptr().add(block * BLOCK_SIZE + slot * SLOT_SIZE) }
    }

    #[inline]
    fn status(&self) -> &AtomicU32 {
        // SAFETY: a slot starts with the status, which is aligned because slots are; both sides access it as one word.
        unsafe { AtomicU32::from_ptr(self.slot().cast()) }
    }

    /// Whether the next slot holds a frame.
    #[inline]
    fn is_ready(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Reads the next slot's description, once; none if it is invalid.
    #[inline]
    fn read(&self) -> Option<Slot> {
        // SAFETY: the slot is larger and aligned, and any bytes are a valid header.
        let about = unsafe { self.slot().cast::<libc::tpacket2_hdr>().read_volatile() };
        let offset = about.tp_mac as usize;
        let captured = about.tp_snaplen as usize;
        let header_at = offset.checked_sub(vnet::SIZE)?;
        let head = size_of::<libc::tpacket2_hdr>();
        if header_at < head || offset + captured > SLOT_SIZE || captured > about.tp_len as usize {
            return None;
        }
        // SAFETY: within the slot, as just checked.
        let header = unsafe { self.slot().add(header_at).cast::<[u8; vnet::SIZE]>().read_volatile() };
        let has = |flag| about.tp_status & flag != 0;
        let tpid = if has(libc::TP_STATUS_VLAN_TPID_VALID) { about.tp_vlan_tpid } else { EtherType::VLAN.0 };
        let tag = (u32::from(tpid) << 16 | u32::from(about.tp_vlan_tci)).to_be_bytes();
        Some(Slot {
            offset,
            captured,
            length: about.tp_len as usize,
            tag: has(libc::TP_STATUS_VLAN_VALID).then_some(tag),
            queued: has(libc::TP_STATUS_COPY),
            header,
        })
    }

    /// Gives the slot back to the kernel and goes on to the next.
    #[inline]
    fn release(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % SLOTS;
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no pointer into it is left.
        let _ = unsafe { mm::munmap(self.base.as_ptr().cast(), BLOCK_SIZE * BLOCKS) };
    }
}

struct PacketReceive {
    fd: Arc<OwnedFd>,
    ring: Ring,
    polls: u32,
}

impl Receive for PacketReceive {
    fn receive(&mut self, buffers: &mut Buffers, out: &mut Vector, counts: &mut ReceiveCounts) {
        self.polls += 1;
        if self.polls == POLLS_PER_CHECK {
            self.polls = 0;
            self.check(counts);
        }
        if !self.ring.is_ready() {
            return;
        }
        let mut fresh = Fresh::new();
        for _ in 0..out.room() {
            if !self.ring.is_ready() {
                break;
            }
            if !fresh.fill(buffers) {
                counts.no_buffer += 1;
                break;
            }
            self.take(&mut fresh, buffers, out, counts);
            self.ring.release();
        }
        fresh.give_back(buffers);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        borrowed(&self.fd)
    }
}

impl PacketReceive {
    /// Discards all frames that have arrived.
    fn discard(&mut self) {
        while self.ring.is_ready() {
            if self.ring.status().load(Ordering::Acquire) & libc::TP_STATUS_COPY != 0 {
                self.skip_queued();
            }
            self.ring.release();
        }
    }

    /// Takes a frame off the socket's queue when its slot will not be read. Otherwise it would be taken for a later
    /// slot's frame, and the socket would stay readable for ever.
    #[cold]
    fn skip_queued(&self) {
        let mut head = [0u8; 64];
        let _ = rustix::net::recv(&*self.fd, &mut head[..], RecvFlags::DONTWAIT | RecvFlags::TRUNC);
    }

    /// Fetches the kernel's count of lost frames, and clears the error that remains after the interface goes down.
    #[cold]
    fn check(&self, counts: &mut ReceiveCounts) {
        let told: io::Result<[u32; 2]> = socket_option::get(&self.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS);
        counts.missed += told.map_or(0, |[_packets, drops]| u64::from(drops));
        let _: io::Result<[u32; 1]> = socket_option::get(&self.fd, libc::SOL_SOCKET, libc::SO_ERROR);
    }

    /// Reads the whole frame of a slot from the socket's queue. The kernel queued it before it marked the slot.
    fn read_queued(&self, fresh: &mut Fresh, buffers: &mut Buffers, length: usize) -> Option<Frame> {
        for _ in 0..READS_PER_FRAME {
            match fresh.read(buffers, self.fd.as_fd(), &mut [0; vnet::SIZE]) {
                Ok(frame) if frame.length == length.min(Fresh::CAPACITY) => return Some(frame),
                // The frame of an earlier, invalid slot.
                Ok(frame) => buffers.free_chain(frame.packet),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                // The socket reports an error, such as that the link went down, once and before any frame.
                Err(_) => {}
            }
            if !fresh.fill(buffers) {
                self.skip_queued();
                return None;
            }
        }
        None
    }

    /// Appends the next slot's frame.
    #[inline]
    fn take(&mut self, fresh: &mut Fresh, buffers: &mut Buffers, out: &mut Vector, counts: &mut ReceiveCounts) {
        let Some(slot) = self.ring.read() else {
            if self.ring.status().load(Ordering::Relaxed) & libc::TP_STATUS_COPY != 0 {
                self.skip_queued();
            }
            counts.malformed += 1;
            return;
        };
        let frame = if slot.queued {
            self.read_queued(fresh, buffers, slot.length)
        } else if slot.captured == slot.length {
            // SAFETY: `read` has checked that the frame lies in the slot.
            Some(unsafe { fresh.copy(buffers, self.ring.slot().add(slot.offset), slot.length) })
        } else {
            None
        };
        let Some(frame) = frame else {
            counts.missed += 1;
            return;
        };
        match vnet::receive(&slot.header, &frame, buffers, counts).and_then(|row| restore_tag(buffers, row, slot.tag)) {
            Some(row) => out.push(row, 0),
            None => buffers.free_chain(frame.packet),
        }
    }
}

/// Puts a VLAN tag back after the addresses, which move into the headroom.
#[inline]
fn restore_tag(buffers: &mut Buffers, row: Row, tag: Option<[u8; 4]>) -> Option<Row> {
    const ADDRESSES: usize = 12;
    let Some(tag) = tag else { return Some(row) };
    let length = row.length.checked_add(tag.len() as u16)?;
    let from = HEADROOM - tag.len();
    let bytes = buffers.bytes_mut(row.packet);
    bytes.copy_within(HEADROOM..HEADROOM + ADDRESSES, from);
    bytes[from + ADDRESSES..][..tag.len()].copy_from_slice(&tag);
    Some(Row { l2: from as u16, l3: from as u16, length, ..row })
}

struct PacketTransmit {
    fds: Arc<[Arc<OwnedFd>]>,
    /// The socket that this queue sends by.
    own: usize,
}

impl Transmit for PacketTransmit {
    fn transmit(&mut self, buffers: &mut Buffers, vector: &mut Vector) {
        let mut next = 0;
        while next < vector.len() {
            let mut batch = Batch::new();
            next = batch.gather(buffers, vector, next);
            batch.send(&self.fds[self.own], vector);
        }
    }

    fn queues(&self) -> usize {
        self.fds.len()
    }

    fn another(&self, worker: usize, _workers: usize) -> Option<Box<dyn Transmit>> {
        Some(Box::new(PacketTransmit { fds: self.fds.clone(), own: worker % self.fds.len() }))
    }
}

/// Packets that one system call sends.
struct Batch {
    count: usize,
    /// Each packet's place in the vector, virtio-net header, and range of pieces.
    places: [usize; BATCH],
    headers: [[u8; vnet::SIZE]; BATCH],
    ends: [usize; BATCH],
    pieces: [libc::iovec; PIECES],
}

impl Batch {
    #[inline]
    fn new() -> Batch {
        Batch {
            count: 0,
            places: [0; BATCH],
            headers: [[0; vnet::SIZE]; BATCH],
            ends: [0; BATCH],
            pieces: [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PIECES],
        }
    }

    /// Takes packets from `from` on while there is room; returns where the next batch starts.
    #[inline]
    fn gather(&mut self, buffers: &Buffers, vector: &mut Vector, from: usize) -> usize {
        let mut used = 0;
        for i in from..vector.len() {
            if self.count == BATCH || used + MAX_SEGMENTS + 1 > PIECES {
                return i;
            }
            let row = vector.row(i);
            let header = vnet::emit(&row, || buffers.segment(row.packet).offload);
            let (Ok(header), Some(chain)) = (header, Chain::of(buffers, &row)) else {
                vector.set_edge(i, REFUSED);
                continue;
            };
            self.headers[self.count] = header;
            used += 1; // the header's piece, whose address is set when all are in place
            for slice in chain.slices(buffers) {
                self.pieces[used] = libc::iovec { iov_base: slice.as_ptr().cast_mut().cast(), iov_len: slice.len() };
                used += 1;
            }
            self.places[self.count] = i;
            self.ends[self.count] = used;
            self.count += 1;
        }
        vector.len()
    }

    /// Sends the packets and writes their edges. Each system call finishes at least one packet.
    #[inline]
    fn send(&mut self, fd: &OwnedFd, vector: &mut Vector) {
        // SAFETY: all-zero bytes are a valid message: no name, no control data.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        let mut start = 0;
        for (i, message) in messages[..self.count].iter_mut().enumerate() {
            let end = self.ends[i];
            let pieces = &mut self.pieces[start..end];
            pieces[0] = libc::iovec { iov_base: self.headers[i].as_mut_ptr().cast(), iov_len: vnet::SIZE };
            message.msg_hdr.msg_iov = pieces.as_mut_ptr();
            message.msg_hdr.msg_iovlen = pieces.len();
            start = end;
        }
        let mut done = 0;
        while done < self.count {
            let rest = &mut messages[done..self.count];
            // SAFETY: the messages' pieces point to the headers here and to buffers of
            // packets in the vector, which are ours; the kernel only reads them.
            let n = unsafe { libc::sendmmsg(fd.as_raw_fd(), rest.as_mut_ptr(), rest.len() as u32, libc::MSG_DONTWAIT) };
            let (ended, to) = match usize::try_from(n) {
                Ok(sent) => (sent, edge::SENT),
                Err(_) => self.failed(done),
            };
            for &place in &self.places[done..done + ended] {
                vector.set_edge(place, to);
            }
            done += ended;
        }
    }

    /// The error of the packet at `done`: how many packets it concerns, and their edge.
    #[cold]
    fn failed(&self, done: usize) -> (usize, EdgeIndex) {
        let error = io::Error::last_os_error();
        match Errno::from_io_error(&error) {
            // The socket's buffer is full: the remaining packets would fail, too.
            Some(Errno::AGAIN) => (self.count - done, FULL),
            // The device or its queueing discipline discarded this packet. A veth reports that, too, when its other end
            // has a smaller MTU, is down or is overloaded.
            Some(Errno::NOBUFS) => (1, DROPPED),
            Some(Errno::NOMEM) => (1, FULL),
            Some(Errno::MSGSIZE) => (1, TOO_LONG),
            Some(Errno::NETDOWN | Errno::NXIO | Errno::NODEV) => (self.count - done, REFUSED),
            _ => (1, REFUSED),
        }
    }
}
