//! The queues that workers own. Frames stay where they are: the kernel writes to our buffers, and reads from them.
#![forbid(unsafe_code)]

use super::checksum::{Begun, Watch, begun};
use super::ring::{Consumer, Producer};
use super::socket::{Rings, Socket, address, place};
use crate::chain::Chain;
use crate::{FULL, REFUSED, Receive, ReceiveCounts, TOO_LONG, Transmit, borrowed};
use graph::buffer::{DATA_SIZE, HEADROOM, MAX_SEGMENTS, STRIDE};
use graph::vector::VECTOR_SIZE;
use graph::{Buffers, EdgeIndex, Lent, PacketIndex, Pool, Row, Vector, edge, flag};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use wire::ethernet;

/// Where a buffer's data ends.
const DATA_END: usize = HEADROOM + DATA_SIZE;
/// A program may have prepended bytes to a frame; this much headroom must be left for our own headers.
const LEAST_HEADROOM: usize = 128;
/// Polls between two looks at the kernel's counts.
const POLLS_PER_CHECK: u32 = 1024;
/// Most frames that are looked at before they go into the vector.
const AT_ONCE: usize = 32;
/// Most buffers of a frame that is sent: what a packet of the kernel has room for (`MAX_SKB_FRAGS`).
const MAX_PARTS: usize = 17;
/// Without huge pages beneath it, a device cannot use a buffer that spans two pages.
const HUGE_PAGE: u64 = 2 << 20;

/// What the queues of an interface and control share.
#[derive(Default)]
pub struct Facts {
    /// Frames arrived with unfinished checksums.
    pub unfinished: AtomicBool,
    /// How many of them were finished here.
    pub finished: AtomicU64,
    /// The longest frame that the device accepts, its link header included.
    pub longest: AtomicU32,
}

/// How the interface is served.
#[derive(Debug, Clone, Copy)]
pub struct Service {
    /// The device itself reads and writes our buffers.
    pub zero_copy: bool,
    /// We make the device poll.
    pub busy_poll: bool,
}

impl Service {
    /// Whether the device can use a buffer.
    #[inline]
    fn takes(self, number: u32) -> bool {
        let start = u64::from(number) * STRIDE as u64;
        !self.zero_copy || start / HUGE_PAGE == (start + DATA_END as u64 - 1) / HUGE_PAGE
    }
}

/// Both ends of a queue.
pub fn split(
    socket: Socket,
    rings: Rings,
    sizes: (u32, u32),
    pool: &Arc<Pool>,
    facts: &Arc<Facts>,
    service: Service,
) -> (XdpReceive, XdpTransmit) {
    let socket = Arc::new(socket);
    let receive = XdpReceive {
        ring: rings.receive,
        fill: rings.fill,
        most: sizes.0 as usize,
        lent: Some(Lent::new(pool)),
        useless: service.zero_copy.then(|| Lent::new(pool)),
        watch: Watch::new(),
        polls: 0,
        missed: 0,
        facts: facts.clone(),
        service,
        socket: socket.clone(),
    };
    let transmit = XdpTransmit {
        ring: rings.transmit,
        completion: rings.completion,
        most: sizes.1 as usize,
        lent: Some(Lent::new(pool)),
        linked: 0,
        is_stuck: false,
        facts: facts.clone(),
        service,
        socket,
    };
    (receive, transmit)
}

/// A receive queue.
pub struct XdpReceive {
    ring: Consumer<libc::xdp_desc>,
    fill: Producer<u64>,
    /// Most buffers that the kernel is given.
    most: usize,
    /// The buffers that it has.
    lent: Option<Lent>,
    /// Buffers that the device cannot use. They are kept, or the pool would give them again and again.
    useless: Option<Lent>,
    watch: Watch,
    polls: u32,
    /// The kernel's count of lost frames, as far as we have counted it.
    missed: u64,
    facts: Arc<Facts>,
    service: Service,
    /// Dropped after the rings, which would keep the socket open.
    socket: Arc<Socket>,
}

impl XdpReceive {
    pub fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// Gives the kernel new buffers for those that it has used.
    #[inline]
    fn refill(&mut self, buffers: &mut Buffers, counts: &mut ReceiveCounts) {
        let Some(lent) = &mut self.lent else { return };
        let wanted = (self.most - lent.count()).min(VECTOR_SIZE);
        let wanted = wanted.min(self.fill.room(wanted as u32) as usize);
        if wanted == 0 {
            return;
        }
        let mut written = 0;
        let got = buffers.each_fresh(wanted, |packet| {
            if !self.service.takes(packet.as_u32()) {
                return self.useless.as_mut().expect("there is with zero-copy").lend(packet);
            }
            lent.lend(packet);
            self.fill.write(written, address(packet.as_u32(), 0));
            written += 1;
        });
        counts.no_buffer += u64::from(got < wanted);
        self.fill.publish(written);
        self.socket.lent[0].store(lent.count() as u32, Ordering::Relaxed);
    }

    #[cold]
    fn check(&mut self, counts: &mut ReceiveCounts) {
        self.polls = 0;
        let told = self.socket.statistics();
        let missed = told.rx_dropped + told.rx_ring_full;
        counts.missed += missed.saturating_sub(self.missed);
        self.missed = missed;
    }

    /// Checks whether frames that just arrived have unfinished checksums.
    #[inline]
    fn watch_checksums(&mut self, buffers: &mut Buffers, out: &mut Vector, from: usize) {
        let due = self.watch.due(out.len() - from);
        if due == 0 {
            return;
        }
        let mut found = 0;
        for i in from..from + due {
            let row = out.row(i);
            let (l2, length) = (usize::from(row.l2), usize::from(row.length));
            let head = &buffers.bytes(row.packet)[l2..l2 + length.min(DATA_END - l2)];
            let Some(begun) = begun(head) else { continue };
            if self.watch != Watch::Finishing && is_right(&begun, buffers, &row) {
                continue;
            }
            self.watch = Watch::Finishing;
            buffers.segment_mut(row.packet).offload = begun.offload;
            out.columns().flags[i] |= flag::PARTIAL_CHECKSUM;
            found += 1;
        }
        if found > 0 {
            self.facts.unfinished.store(true, Ordering::Relaxed);
            self.facts.finished.fetch_add(found, Ordering::Relaxed);
        }
    }
}

impl Receive for XdpReceive {
    fn receive(&mut self, buffers: &mut Buffers, out: &mut Vector, counts: &mut ReceiveCounts) {
        self.polls += 1;
        if self.polls == POLLS_PER_CHECK {
            self.check(counts);
        }
        let there = self.ring.available();
        if there > 0 {
            let from = out.len();
            let done = take(&self.ring, there, self.lent.as_mut().expect("until it is dropped"), buffers, out, counts);
            self.ring.release(done);
            self.watch_checksums(buffers, out, from);
        }
        self.refill(buffers, counts);
        if self.socket.has_unsent() {
            self.socket.send_rest();
        }
        if self.fill.needs_wakeup() || self.service.busy_poll && there == 0 {
            self.socket.kick_receive();
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        borrowed(&*self.socket)
    }

    fn begin_wait(&mut self) -> bool {
        let is_full = self.lent.as_ref().is_some_and(|lent| lent.count() >= self.most);
        self.ring.available() == 0 && is_full && !self.socket.has_unsent()
    }
}

impl Drop for XdpReceive {
    fn drop(&mut self) {
        self.lent.take().into_iter().for_each(|lent| self.socket.leave(lent));
    }
}

/// Whether a checksum that may be unfinished is right already.
#[cold]
fn is_right(begun: &Begun, buffers: &Buffers, row: &Row) -> bool {
    Chain::of(buffers, row).is_some_and(|chain| begun.is_right(chain.slices(buffers)))
}

/// Takes frames out of a ring that holds `there` entries; returns how many entries it has finished.
#[inline]
fn take(
    ring: &Consumer<libc::xdp_desc>,
    there: u32,
    lent: &mut Lent,
    buffers: &mut Buffers,
    out: &mut Vector,
    counts: &mut ReceiveCounts,
) -> u32 {
    let alike = Row { l2: HEADROOM as u16, l3: HEADROOM as u16, ..Row::default() };
    let mut done = 0;
    while done < there && out.room() > 0 {
        // As many frames as lie whole in one buffer each.
        let most = out.room().min((there - done) as usize).min(AT_ONCE);
        let (mut packets, mut lengths) = ([PacketIndex::NONE; AT_ONCE], [0; AT_ONCE]);
        let mut plain = 0;
        while plain < most {
            let said = ring.read(done + plain as u32);
            let is_usual = said.options & libc::XDP_PKT_CONTD == 0 && said.len as usize <= DATA_SIZE;
            let number = match place(said.addr) {
                Some((number, offset)) if is_usual && usize::from(offset) == HEADROOM && said.len > 0 => number,
                _ => break,
            };
            let Some(packet) = lent.regain(number) else { break };
            (packets[plain], lengths[plain]) = (packet, said.len as u16);
            plain += 1;
        }
        let first = out.len();
        out.extend_alike(&packets[..plain], alike, 0);
        out.columns().length[first..].copy_from_slice(&lengths[..plain]);
        done += plain as u32;
        if plain < most {
            match odd(ring, done, there, lent, buffers, out, counts) {
                0 => break,
                used => done += used,
            }
        }
    }
    done
}

/// A frame that is not plain: in several buffers, elsewhere in its buffer, or invalid. Returns how many entries it
/// took; 0: its last part has not arrived yet.
#[cold]
fn odd(
    ring: &Consumer<libc::xdp_desc>,
    first: u32,
    there: u32,
    lent: &mut Lent,
    buffers: &mut Buffers,
    out: &mut Vector,
    counts: &mut ReceiveCounts,
) -> u32 {
    let goes_on = |entry: u32| ring.read(entry).options & libc::XDP_PKT_CONTD != 0;
    let Some(last) = (first..there).find(|entry| !goes_on(*entry)) else { return 0 };
    let mut parts = Vec::with_capacity((last - first) as usize + 1);
    let (mut total, mut is_sound) = (0usize, true);
    for entry in first..=last {
        let said = ring.read(entry);
        let regained = place(said.addr).and_then(|(number, offset)| Some((lent.regain(number)?, offset)));
        let Some((packet, offset)) = regained else {
            is_sound = false;
            continue;
        };
        let place = usize::from(offset);
        is_sound &= said.len > 0 && place >= LEAST_HEADROOM && place + said.len as usize <= DATA_END;
        total += said.len as usize;
        parts.push((packet, offset, said.len as u16));
    }
    let fits = total <= usize::from(u16::MAX) && parts.len() <= MAX_SEGMENTS;
    if !is_sound || !fits {
        parts.iter().for_each(|(packet, ..)| buffers.free(&[*packet]));
        *(if is_sound { &mut counts.too_long } else { &mut counts.malformed }) += 1;
        return last + 1 - first;
    }
    for (i, &(packet, offset, length)) in parts.iter().enumerate() {
        let segment = buffers.segment_mut(packet);
        (segment.offset, segment.length) = (offset, length);
        segment.set_next(parts.get(i + 1).map(|next| next.0));
    }
    let (packet, l2, _) = parts[0];
    let flags = if parts.len() > 1 { flag::CHAINED } else { 0 };
    out.push(Row { packet, l2, l3: l2, length: total as u16, flags, ..Row::default() }, 0);
    last + 1 - first
}

/// A transmit queue.
pub struct XdpTransmit {
    ring: Producer<libc::xdp_desc>,
    completion: Consumer<u64>,
    /// The size of the completion ring: no more buffers may be pending.
    most: usize,
    /// Buffers that the kernel has.
    lent: Option<Lent>,
    /// How many of them are followed by another buffer of the same packet.
    linked: usize,
    /// The kernel refused to send what is in the ring when it was last asked.
    is_stuck: bool,
    facts: Arc<Facts>,
    service: Service,
    /// Dropped after the rings, which would keep the socket open.
    socket: Arc<Socket>,
}

impl XdpTransmit {
    /// Frees buffers that were sent.
    #[inline]
    fn reap(&mut self, buffers: &mut Buffers) {
        let Some(lent) = &mut self.lent else { return };
        let there = self.completion.available();
        for entry in 0..there {
            let sent = place(self.completion.read(entry)).and_then(|(number, _)| lent.regain(number));
            if let Some(packet) = sent {
                if self.linked > 0 && buffers.segment(packet).next().is_some() {
                    buffers.segment_mut(packet).set_next(None);
                    self.linked -= 1;
                }
                buffers.free(&[packet]);
            }
        }
        if there > 0 {
            self.completion.release(there);
        }
    }

    /// Writes a packet's descriptors after `written` earlier ones; returns its edge, and how many are written then.
    #[inline]
    fn write(&mut self, written: u32, buffers: &mut Buffers, row: &Row, longest: u32) -> (EdgeIndex, u32) {
        let Some(lent) = &mut self.lent else { return (REFUSED, written) };
        let length = u32::from(row.length);
        if length > longest {
            return (TOO_LONG, written);
        }
        if row.flags & flag::CHAINED != 0 || self.service.zero_copy {
            return self.write_odd(written, buffers, row);
        }
        if (row.length as usize) < ethernet::HEADER_LEN || usize::from(row.l2) + row.length as usize > DATA_END {
            return (REFUSED, written);
        }
        if self.ring.room(written + 1) <= written || lent.count() >= self.most {
            return (FULL, written);
        }
        let number = row.packet.as_u32();
        self.ring.write(written, libc::xdp_desc { addr: address(number, row.l2), len: length, options: 0 });
        lent.lend(row.packet);
        (edge::LENT, written + 1)
    }

    /// The same for a packet in several buffers, or for a device that cannot use every buffer.
    #[cold]
    fn write_odd(&mut self, written: u32, buffers: &mut Buffers, row: &Row) -> (EdgeIndex, u32) {
        let Some(lent) = &mut self.lent else { return (REFUSED, written) };
        let Some(chain) = Chain::of(buffers, row) else { return (REFUSED, written) };
        if (row.length as usize) < ethernet::HEADER_LEN {
            return (REFUSED, written);
        }
        // The kernel refuses an empty part.
        let parts: Vec<_> = chain.parts().iter().filter(|part| part.length > 0).copied().collect();
        let count = parts.len() as u32;
        let is_usable = parts.len() <= if self.socket.multi_buffer { MAX_PARTS } else { 1 };
        let takes_all = parts.iter().all(|part| self.service.takes(part.packet.as_u32()));
        if !is_usable || !takes_all || parts.len() < chain.parts().len() {
            return self.write_copy(written, buffers, row, &chain);
        }
        if self.ring.room(written + count) < written + count || lent.count() + parts.len() > self.most {
            return (FULL, written);
        }
        for (part, i) in parts.iter().zip(0..) {
            let options = if i + 1 < count { libc::XDP_PKT_CONTD } else { 0 };
            let addr = address(part.packet.as_u32(), part.offset);
            self.ring.write(written + i, libc::xdp_desc { addr, len: part.length.into(), options });
            lent.lend(part.packet);
        }
        self.linked += count as usize - 1;
        (edge::LENT, written + count)
    }

    /// The same with a copy in buffers that the device can use.
    fn write_copy(&mut self, written: u32, buffers: &mut Buffers, row: &Row, chain: &Chain) -> (EdgeIndex, u32) {
        let Some(lent) = &mut self.lent else { return (REFUSED, written) };
        let length = usize::from(row.length);
        let count = length.div_ceil(DATA_SIZE) as u32;
        if count as usize > if self.socket.multi_buffer { MAX_PARTS } else { 1 } {
            return (TOO_LONG, written);
        }
        let mut copies = Vec::new();
        let mut useless = Vec::new();
        while copies.len() < count as usize {
            match buffers.allocate_one() {
                Some(packet) if self.service.takes(packet.as_u32()) => copies.push(packet),
                Some(packet) => useless.push(packet),
                None => break,
            }
        }
        buffers.free(&useless);
        let is_full = self.ring.room(written + count) < written + count || lent.count() + copies.len() > self.most;
        if copies.len() < count as usize || is_full {
            buffers.free(&copies);
            return (FULL, written);
        }
        for (&packet, i) in copies.iter().zip(0..) {
            let from = i as usize * DATA_SIZE;
            let n = DATA_SIZE.min(length - from);
            chain.copy(buffers, from, n, packet, HEADROOM);
            let options = if i + 1 < count { libc::XDP_PKT_CONTD } else { 0 };
            let addr = address(packet.as_u32(), HEADROOM as u16);
            self.ring.write(written + i, libc::xdp_desc { addr, len: n as u32, options });
            lent.lend(packet);
        }
        // The copy is sent; the packet itself can be freed.
        (edge::SENT, written + count)
    }

    /// Makes the kernel send. Without zero-copy it sends some packets at each call.
    fn kick(&mut self) {
        self.is_stuck = false;
        let mut left = self.ring.pending();
        while left > 0 && self.ring.needs_wakeup() {
            let outcome = self.socket.kick_transmit();
            let before = std::mem::replace(&mut left, self.ring.pending());
            match outcome {
                Ok(()) | Err(Errno::AGAIN) if left < before => {}
                Ok(()) => break,
                Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS) => {
                    self.socket.set_unsent();
                    break;
                }
                Err(_) => {
                    self.is_stuck = true;
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
impl XdpTransmit {
    pub fn is_idle(&self) -> bool {
        self.lent.as_ref().is_some_and(|lent| lent.count() == 0) && self.linked == 0
    }
}

impl Transmit for XdpTransmit {
    fn transmit(&mut self, buffers: &mut Buffers, vector: &mut Vector) {
        self.reap(buffers);
        if self.is_stuck {
            // The link was down, or the device is gone: first send what is in the ring.
            self.kick();
            if self.is_stuck {
                return vector.set_edges(REFUSED);
            }
        }
        let longest = self.facts.longest.load(Ordering::Relaxed);
        let mut written = 0;
        for i in 0..vector.len() {
            let row = vector.row(i);
            let (to, now) = self.write(written, buffers, &row, longest);
            vector.set_edge(i, to);
            written = now;
        }
        self.ring.publish(written);
        self.kick();
        let count = self.lent.as_ref().map_or(0, Lent::count);
        self.socket.lent[1].store(count as u32, Ordering::Relaxed);
    }
}

impl Drop for XdpTransmit {
    fn drop(&mut self) {
        self.lent.take().into_iter().for_each(|lent| self.socket.leave(lent));
    }
}
