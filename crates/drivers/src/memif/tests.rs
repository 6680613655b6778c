//! Both sides in one process, over real sockets and shared memory; and sides that lie.
#![allow(unsafe_code)]

use super::channel::Slave;
use super::message::{AddRegion, AddRing, Message};
use super::peerless::Peerless;
use super::ring::{Descriptor, Ring};
use super::slot::Bell;
use super::socket::{self, Received};
use super::*;
use crate::test_frames::{buffers, bytes, packet, plain};
use crate::{FULL, REFUSED, ReceiveCounts, TOO_LONG, Transmit};
use graph::{Buffers, EdgeIndex, Row, Vector, edge, flag};
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

fn options(role: Role) -> Options {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    Options {
        name: format!("memif-{number}"),
        id: 7,
        socket_id: 1,
        socket: format!("@quiver-memif-{}-{number}", std::process::id()),
        role,
        secret: None,
        log2_ring_size: 4,
        buffer_size: 2048,
        rx_queues: 1,
        tx_queues: 1,
        hw_address: None,
        zero_copy: false,
    }
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < end, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn opened(keeper: &Keeper, options: Options) -> Result<Device, OpenError> {
    open(keeper, options, &graph::Pool::new(1024, false).unwrap())
}

/// A master and a slave that are connected, with the keeper of both.
struct Pair {
    keeper: Keeper,
    master: Device,
    slave: Device,
}

impl Pair {
    fn new(master: Options, slave: Options) -> Pair {
        let keeper = Keeper::start().unwrap();
        let master = opened(&keeper, master).unwrap();
        let slave = opened(&keeper, slave).unwrap();
        wait_for("both sides", || master.link.is_up() && slave.link.is_up());
        Pair { keeper, master, slave }
    }

    fn plain() -> Pair {
        let slave = options(Role::Slave);
        Pair::new(Options { role: Role::Master, ..slave.clone() }, slave)
    }

    fn sides(&mut self) -> [&mut Device; 2] {
        [&mut self.master, &mut self.slave]
    }

    fn status(&self, device: &Device) -> MemifStatus {
        connection(device).status(&self.keeper, false)
    }
}

fn connection(device: &Device) -> &ConnectionHandle {
    let link: &dyn Any = &*device.link;
    link.downcast_ref().expect("a memif")
}

/// Sends frames as one vector; their edges.
fn send(transmit: &mut dyn Transmit, buffers: &mut Buffers, rows: &[Row]) -> Vec<EdgeIndex> {
    let mut vector = Vector::new();
    rows.iter().for_each(|row| vector.push(*row, FULL));
    transmit.transmit(buffers, &mut vector);
    rows.iter().for_each(|row| buffers.free_chain(row.packet));
    vector.edges().to_vec()
}

fn send_frames(device: &mut Device, buffers: &mut Buffers, frames: &[Vec<u8>]) -> Vec<EdgeIndex> {
    let rows: Vec<Row> = frames.iter().map(|frame| plain(buffers, frame)).collect();
    send(&mut *device.transmit, buffers, &rows)
}

/// All that a queue brings.
fn receive(queue: &mut dyn Receive, buffers: &mut Buffers, counts: &mut ReceiveCounts) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let mut vector = Vector::new();
        queue.receive(buffers, &mut vector, counts);
        if vector.is_empty() {
            return all;
        }
        for i in 0..vector.len() {
            let row = vector.row(i);
            all.push(bytes(buffers, &row));
            buffers.free_chain(row.packet);
        }
    }
}

fn received(device: &mut Device, buffers: &mut Buffers) -> Vec<Vec<u8>> {
    let mut counts = ReceiveCounts::default();
    let all = receive(&mut *device.receive[0], buffers, &mut counts);
    assert_eq!(counts, ReceiveCounts::default());
    all
}

fn frame(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + seed * 31 + i / 256) as u8).collect()
}

#[test]
fn packets_of_all_lengths_pass_both_ways_many_times_round() {
    let mut pair = Pair::plain();
    let mut buffers = buffers();
    let lengths = [1, 14, 59, 60, 61, 64, 127, 128, 1500, 1514, 2047, 2048, 2049, 4096, 4097, 9000, 9018];
    for round in 0..20 {
        for side in 0..2 {
            let frames: Vec<Vec<u8>> = (0..3).map(|n| frame(lengths[(round * 3 + n) % lengths.len()], round)).collect();
            let [one, other] = pair.sides();
            let (from, to) = if side == 0 { (one, other) } else { (other, one) };
            assert_eq!(send_frames(from, &mut buffers, &frames), [edge::SENT; 3], "{round} {side}");
            assert_eq!(received(to, &mut buffers), frames, "{round} {side}");
        }
    }
    assert_eq!(buffers.in_use(), 0);
}

#[test]
fn chains_of_any_cut_fill_buffers_of_any_size() {
    for (role, size) in [(Role::Slave, 64), (Role::Master, 100), (Role::Slave, 3000), (Role::Master, 65536)] {
        let slave = Options { buffer_size: size, log2_ring_size: 8, ..options(Role::Slave) };
        let mut pair = Pair::new(Options { role: Role::Master, ..slave.clone() }, slave);
        let mut buffers = buffers();
        for (length, first) in [(200, 10), (5000, 34), (6000, 2048), (3000, 1)] {
            let content = frame(length, first);
            let row = packet(&mut buffers, &content, first, &[1, 700, 2000]);
            let [master, slave] = pair.sides();
            let (from, to) = if role == Role::Slave { (slave, master) } else { (master, slave) };
            assert_eq!(send(&mut *from.transmit, &mut buffers, &[row]), [edge::SENT]);
            assert_eq!(received(to, &mut buffers), [content]);
        }
        assert_eq!(buffers.in_use(), 0);
    }
}

#[test]
fn a_full_ring_takes_no_more_and_too_long_is_told_apart() {
    let mut pair = Pair::plain();
    let mut buffers = buffers();
    for side in 0..2 {
        let frames: Vec<Vec<u8>> = (0..20).map(|n| frame(60 + n, n)).collect();
        let [one, other] = pair.sides();
        let (from, to) = if side == 0 { (one, other) } else { (other, one) };
        let expected = [vec![edge::SENT; 16], vec![FULL; 4]].concat();
        assert_eq!(send_frames(from, &mut buffers, &frames), expected);
        assert_eq!(received(to, &mut buffers), frames[..16]);
        // 16 buffers of 2048 are all there are; a packet that wants more of what is free has to wait.
        assert_eq!(send_frames(from, &mut buffers, &[frame(16 * 2048 + 1, 1)]), [TOO_LONG]);
        let rest = [frame(60, 1), frame(16 * 2048, 2), frame(61, 3)];
        assert_eq!(send_frames(from, &mut buffers, &rest), [edge::SENT, FULL, edge::SENT]);
        assert_eq!(received(to, &mut buffers), [frame(60, 1), frame(61, 3)]);
        assert_eq!(send_frames(from, &mut buffers, &[frame(16 * 2048, 2)]), [edge::SENT]);
        assert_eq!(received(to, &mut buffers), [frame(16 * 2048, 2)]);
    }
}

/// A slave that lends the buffers of a pool, and a master that does not know.
struct Lending {
    pair: Pair,
    pool: Arc<graph::Pool>,
    buffers: Buffers,
    theirs: Buffers,
}

impl Lending {
    fn new() -> Lending {
        let pool = graph::Pool::new(4096, false).unwrap();
        let keeper = Keeper::start().unwrap();
        let options = Options { zero_copy: true, ..options(Role::Slave) };
        let master = opened(&keeper, Options { role: Role::Master, zero_copy: false, ..options.clone() }).unwrap();
        let slave = open(&keeper, options, &pool).unwrap();
        wait_for("both sides", || master.link.is_up() && slave.link.is_up());
        let (own, theirs) = (Buffers::new(&pool, 4096), buffers());
        let mut lending = Lending { pair: Pair { keeper, master, slave }, pool, buffers: own, theirs };
        assert_eq!(received(&mut lending.pair.slave, &mut lending.buffers), [[0u8; 0]; 0]);
        lending
    }

    /// Sends, and does with what is not lent as the graph would.
    fn send(&mut self, rows: &[Row]) -> Vec<EdgeIndex> {
        let mut vector = Vector::new();
        rows.iter().for_each(|row| vector.push(*row, FULL));
        self.pair.slave.transmit.transmit(&mut self.buffers, &mut vector);
        let left = rows.iter().zip(vector.edges()).filter(|(_, to)| **to != edge::LENT);
        left.for_each(|(row, _)| self.buffers.free_chain(row.packet));
        vector.edges().to_vec()
    }
}

#[test]
fn a_slave_that_lends_its_buffers_copies_nothing() {
    let mut lending = Lending::new();
    assert_eq!(lending.pair.slave.link.lent(), 16);
    for (round, length) in [1, 60, 64, 1514, 2048, 2049, 9000, 9018].into_iter().cycle().take(40).enumerate() {
        // To the slave: in its own buffers, as many as it takes.
        let frames = [frame(60, round), frame(length, round), frame(61, round)];
        assert_eq!(send_frames(&mut lending.pair.master, &mut lending.theirs, &frames), [edge::SENT; 3]);
        assert_eq!(received(&mut lending.pair.slave, &mut lending.buffers), frames);
        // From it: where they lie, whatever the cut.
        let rows = [
            plain(&mut lending.buffers, &frames[0]),
            packet(&mut lending.buffers, &frames[1], 700, &[900, 2000, 1500]),
            plain(&mut lending.buffers, &frames[2]),
        ];
        assert_eq!(lending.send(&rows), [edge::LENT; 3]);
        assert_eq!(received(&mut lending.pair.master, &mut lending.theirs), frames);
        assert_eq!(lending.send(&[]), []);
        assert_eq!((lending.buffers.in_use(), lending.pair.slave.link.lent()), (16, 16), "round {round}");
    }
    let mut all = vec![graph::PacketIndex::NONE; 4096];
    let got = lending.buffers.allocate(&mut all);
    assert_eq!(got, 4096 - 16);
    assert!(all[..got].iter().all(|packet| lending.buffers.segment(*packet).next().is_none()), "no trace of a chain");
    lending.buffers.free(&all[..got]);
    let Lending { pair, pool, buffers, theirs } = lending;
    assert_eq!(theirs.in_use(), 0);
    drop(pair);
    wait_for("what the master had", || pool.returned() == 16);
    assert_eq!(buffers.in_use() - pool.returned(), 0);
}

#[test]
fn a_ring_that_several_send_by_has_copies() {
    let mut lending = Lending::new();
    let mut second = lending.pair.slave.transmit.another(1, 2).unwrap();
    let rows = [plain(&mut lending.buffers, &frame(60, 1)), plain(&mut lending.buffers, &frame(5000, 2))];
    assert_eq!(send(&mut *second, &mut lending.buffers, &rows), [edge::SENT; 2]);
    assert_eq!(received(&mut lending.pair.master, &mut lending.theirs), [frame(60, 1), frame(5000, 2)]);
    assert_eq!(send(&mut *second, &mut lending.buffers, &[]), []);
    assert_eq!(lending.buffers.in_use(), 16);
}

#[test]
fn a_full_ring_of_lent_buffers_takes_no_more() {
    let mut lending = Lending::new();
    let rows: Vec<Row> = (0..20).map(|n| plain(&mut lending.buffers, &frame(60 + n, n))).collect();
    assert_eq!(lending.send(&rows), [vec![edge::LENT; 16], vec![FULL; 4]].concat());
    let long = packet(&mut lending.buffers, &frame(3000, 1), 100, &[170]);
    assert_eq!(lending.send(&[long]), [TOO_LONG], "it would never fit");
    assert_eq!(received(&mut lending.pair.master, &mut lending.theirs).len(), 16);
    // And the other way round: the pool is dry, so that what came is not made up for.
    let mut all = vec![graph::PacketIndex::NONE; 4096];
    lending.send(&[]);
    let got = lending.buffers.allocate(&mut all);
    let frames: Vec<Vec<u8>> = (0..17).map(|n| frame(100, n)).collect();
    let edges = send_frames(&mut lending.pair.master, &mut lending.theirs, &frames);
    assert_eq!(edges, [vec![edge::SENT; 16], vec![FULL]].concat());
    let (mut counts, mut out) = (ReceiveCounts::default(), Vector::new());
    lending.pair.slave.receive[0].receive(&mut lending.buffers, &mut out, &mut counts);
    assert_eq!((out.len(), counts.no_buffer), (16, 1));
    assert!(!lending.pair.slave.receive[0].begin_wait(), "it wants to be asked again");
    lending.buffers.free(out.packets());
    lending.buffers.free(&all[..got]);
    assert_eq!(received(&mut lending.pair.slave, &mut lending.buffers), [[0u8; 0]; 0]);
    assert_eq!(lending.pair.slave.link.lent(), 16);
}

/// The other side's position is read only when the room known from before does not suffice: then it must be.
#[test]
fn room_that_came_meanwhile_is_used() {
    let mut pair = Pair::plain();
    let mut buffers = buffers();
    for from_slave in [true, false] {
        for round in 0..20 {
            let [master, slave] = pair.sides();
            let (from, to) = if from_slave { (slave, master) } else { (master, slave) };
            // They leave 4 of 16 slots; the next two take 5.
            let first: Vec<Vec<u8>> = (0..12).map(|n| frame(60 + n, round)).collect();
            let long = [frame(5000, round), frame(3000, round)];
            assert_eq!(send_frames(from, &mut buffers, &first), [edge::SENT; 12]);
            assert_eq!(send_frames(from, &mut buffers, &long), [edge::SENT, FULL], "{round}");
            assert_eq!(received(to, &mut buffers), [&first[..], &long[..1]].concat());
            assert_eq!(send_frames(from, &mut buffers, &first), [edge::SENT; 12]);
            assert_eq!(received(to, &mut buffers), first);
            assert_eq!(send_frames(from, &mut buffers, &long), [edge::SENT; 2], "{round}");
            assert_eq!(received(to, &mut buffers), long);
        }
    }
}

#[test]
fn only_a_slave_can_lend() {
    let keeper = Keeper::start().unwrap();
    let error = opened(&keeper, Options { zero_copy: true, ..options(Role::Master) }).err().unwrap().to_string();
    assert!(error.starts_with("zero-copy: it is the slave who brings the memory"), "{error}");
}

#[test]
fn queues_are_as_many_as_both_sides_have() {
    let slave = Options { rx_queues: 3, tx_queues: 2, ..options(Role::Slave) };
    let master = Options { role: Role::Master, rx_queues: 2, tx_queues: 3, ..slave.clone() };
    let mut pair = Pair::new(master, slave);
    let mut buffers = buffers();
    let status = pair.status(&pair.slave);
    assert_eq!((status.receive.len(), status.transmit.len(), pair.slave.transmit.queues()), (3, 2, 2));
    for queue in 0..3 {
        let mut own = pair.master.transmit.another(queue, 3).unwrap();
        let row = plain(&mut buffers, &frame(100, queue));
        assert_eq!(send(&mut *own, &mut buffers, &[row]), [edge::SENT]);
        let mut counts = ReceiveCounts::default();
        for other in 0..3 {
            let got = receive(&mut *pair.slave.receive[other], &mut buffers, &mut counts);
            let expected = if other == queue { vec![frame(100, queue)] } else { vec![] };
            assert_eq!(got, expected, "{queue} {other}");
        }
    }
    // More workers than rings take turns.
    let mut fourth = pair.master.transmit.another(3, 4).unwrap();
    let row = plain(&mut buffers, &frame(100, 3));
    assert_eq!(send(&mut *fourth, &mut buffers, &[row]), [edge::SENT]);
    assert_eq!(received(&mut pair.slave, &mut buffers), [frame(100, 3)]);
}

#[test]
fn who_waits_is_woken_and_who_polls_is_not() {
    let mut pair = Pair::plain();
    let mut buffers = buffers();
    let is_readable = |device: &Device, patience: Duration| {
        let mut fds = [PollFd::from_borrowed_fd(device.receive[0].descriptor().unwrap(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::try_from(patience).unwrap())).unwrap() > 0
    };
    for side in 0..2 {
        let [one, other] = pair.sides();
        let (from, to) = if side == 0 { (one, other) } else { (other, one) };
        assert!(received(to, &mut buffers).is_empty());
        to.receive[0].end_wait();
        send_frames(from, &mut buffers, &[frame(60, 1)]);
        assert!(!is_readable(to, Duration::from_millis(50)), "it polls");
        assert!(!to.receive[0].begin_wait(), "something is there");
        to.receive[0].end_wait();
        assert_eq!(received(to, &mut buffers).len(), 1);
        assert!(to.receive[0].begin_wait());
        assert!(!is_readable(to, Duration::from_millis(20)));
        for _ in 0..3 {
            send_frames(from, &mut buffers, &[frame(60, 2)]);
            assert!(is_readable(to, Duration::from_secs(5)), "it is woken");
            to.receive[0].end_wait();
            assert_eq!(received(to, &mut buffers).len(), 1);
            assert!(to.receive[0].begin_wait() && !is_readable(to, Duration::ZERO));
        }
        to.receive[0].end_wait();
    }
}

#[test]
fn either_side_may_go_and_come_back() {
    let mut pair = Pair::plain();
    let mut buffers = buffers();
    let slave_options = pair.status(&pair.slave).options;
    let master_options = pair.status(&pair.master).options;
    for round in 0..6 {
        // What is in the ring when a side goes is lost, and no more.
        send_frames(&mut pair.master, &mut buffers, &[frame(60, 1)]);
        let gone = options(Role::Slave);
        if round % 2 == 0 {
            pair.slave = opened(&pair.keeper, gone).unwrap();
            wait_for("the master to notice", || !pair.master.link.is_up());
            assert_eq!(send_frames(&mut pair.master, &mut buffers, &[frame(60, 2)]), [REFUSED]);
            assert_eq!(pair.status(&pair.master).remote_reason, "the interface is deleted");
            pair.slave = opened(&pair.keeper, slave_options.clone()).unwrap();
        } else {
            pair.master = opened(&pair.keeper, Options { role: Role::Master, ..gone }).unwrap();
            wait_for("the slave to notice", || !pair.slave.link.is_up());
            assert!(received(&mut pair.slave, &mut buffers).is_empty());
            pair.master = opened(&pair.keeper, master_options.clone()).unwrap();
        }
        wait_for("both again", || pair.master.link.is_up() && pair.slave.link.is_up());
        for side in 0..2 {
            let [one, other] = pair.sides();
            let (from, to) = if side == 0 { (one, other) } else { (other, one) };
            assert_eq!(send_frames(from, &mut buffers, &[frame(70, round)]), [edge::SENT]);
            assert_eq!(received(to, &mut buffers), [frame(70, round)]);
        }
    }
    assert_eq!(buffers.in_use(), 0);
}

#[test]
fn a_secret_keeps_others_out() {
    let secret = |text: &str| {
        let mut secret = [0; SECRET];
        secret[..text.len()].copy_from_slice(text.as_bytes());
        Some(secret)
    };
    let keeper = Keeper::start().unwrap();
    let wanted = Options { secret: secret("psst"), ..options(Role::Master) };
    let master = opened(&keeper, wanted.clone()).unwrap();
    for (told, reason) in [(None, "the interface wants a secret"), (secret("psss"), "wrong secret")] {
        let slave = opened(&keeper, Options { role: Role::Slave, secret: told, ..wanted.clone() }).unwrap();
        let said = || connection(&slave).status(&keeper, false).remote_reason;
        wait_for("a reason", || said() == reason);
        assert!(!master.link.is_up() && !slave.link.is_up());
    }
    let slave = opened(&keeper, Options { role: Role::Slave, ..wanted.clone() }).unwrap();
    wait_for("both", || master.link.is_up() && slave.link.is_up());
    // A second one of the same number, here and there.
    let again = opened(&keeper, wanted).err().unwrap().to_string();
    assert!(again.contains("has id 7 on socket") && again.contains("memif-"), "{again}");
    let other = Keeper::start().unwrap();
    let status = connection(&slave).status(&keeper, false);
    let third = opened(&other, status.options).unwrap();
    wait_for("a reason", || connection(&third).status(&other, false).remote_reason.contains("connected already"));
    assert!(master.link.is_up() && slave.link.is_up());
}

#[test]
fn what_cannot_be_is_refused() {
    let keeper = Keeper::start().unwrap();
    let too_much = Options { log2_ring_size: 14, buffer_size: 65536, rx_queues: 4, ..options(Role::Slave) };
    assert!(opened(&keeper, too_much).err().unwrap().to_string().contains("4 GiB"));
    let nowhere = Options { socket: "/nowhere/at/all".into(), ..options(Role::Master) };
    assert!(opened(&keeper, nowhere).err().unwrap().to_string().starts_with("listening on '/nowhere/at/all': "));
    // A slave without a master waits.
    let slave = opened(&keeper, Options { socket: "/nowhere/at/all".into(), ..options(Role::Slave) }).unwrap();
    assert!(!slave.link.is_up());
}

/// Talks to a master by hand: an answer for each message.
struct Speaker(OwnedFd);

impl Speaker {
    fn new(socket: &str) -> Speaker {
        let speaker = Speaker(socket::connect(socket).unwrap());
        assert!(matches!(speaker.hear(), Some(Message::Hello(_))));
        speaker
    }

    fn hear(&self) -> Option<Message> {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            match socket::receive(self.0.as_fd()) {
                Ok(Received::Bytes(bytes, _)) => return Some(Message::parse(&bytes).unwrap()),
                Ok(Received::Nothing) => std::thread::sleep(Duration::from_millis(1)),
                Ok(Received::End) | Err(_) => return None,
            }
            assert!(Instant::now() < end, "no answer");
        }
    }

    fn say(&self, message: &Message, descriptor: Option<&OwnedFd>) -> Option<Message> {
        socket::send(self.0.as_fd(), message, descriptor).unwrap();
        self.hear()
    }

    /// The reason for which it is shown the door.
    fn refused(&self, message: &Message, descriptor: Option<&OwnedFd>) -> String {
        let answer = self.say(message, descriptor);
        let Some(Message::Disconnect { reason, .. }) = answer else { panic!("{message:?}: {answer:?}") };
        assert_eq!(self.hear(), None, "and the door is shut");
        reason
    }
}

#[test]
fn a_slave_that_breaks_the_rules_is_shown_the_door() {
    let keeper = Keeper::start().unwrap();
    let wanted = options(Role::Master);
    let master = opened(&keeper, wanted.clone()).unwrap();
    let bell = Arc::new(Bell::new().unwrap());
    let hello = super::channel::hello();
    let mut slave = Slave::new(Options { role: Role::Slave, ..wanted.clone() }, None);
    let Some((init, None)) = slave.take(hello, &bell).unwrap().send else { panic!("no init") };
    let Message::Init(right) = init.clone() else { panic!("no init") };
    let fresh = || Speaker::new(&wanted.socket);
    let admitted = || {
        let speaker = fresh();
        assert_eq!(speaker.say(&init, None), Some(Message::Ack));
        speaker
    };
    let (_, file) = super::memory::Region::create(4096).unwrap();
    let region = |index, size| Message::AddRegion(AddRegion { index, size });
    let ring = AddRing { to_master: true, index: 0, region: 0, offset: 0, log2_ring_size: 4, private_header: 0 };

    assert_eq!(fresh().refused(&Message::Ack, None), "unexpected message");
    assert_eq!(fresh().refused(&region(0, 4096), Some(&file)), "unexpected message");
    let other = |change: fn(&mut super::message::Init)| {
        let mut init = right.clone();
        change(&mut init);
        fresh().refused(&Message::Init(init), None)
    };
    assert_eq!(other(|init| init.id = 8), "no interface of id 8 here");
    assert_eq!(other(|init| init.version = 0x100), "version 1.0: expected 2.0");
    assert_eq!(other(|init| init.mode = super::message::Mode::Ip), "the interface's mode is ethernet");
    assert_eq!(admitted().refused(&init, None), "unexpected message");
    assert_eq!(admitted().refused(&region(0, 4096), None), "a region without a descriptor");
    assert_eq!(admitted().refused(&region(1, 4096), Some(&file)), "region 1: expected number 0");
    let reason = admitted().refused(&region(0, 4097), Some(&file));
    assert_eq!(reason, "region 0: a region of 4097 bytes, in a file of 4096");
    let reason = admitted().refused(&region(0, u64::MAX), Some(&file));
    assert!(reason.starts_with("region 0: a region of 18446744073709551615 bytes"), "{reason}");
    assert_eq!(admitted().refused(&Message::AddRing(ring), None), "a ring without a descriptor");
    let second = AddRing { index: 1, ..ring };
    assert_eq!(admitted().refused(&Message::AddRing(second), Some(&file)), "ring 1: expected number 0");
    assert_eq!(admitted().refused(&Message::Connect("x".into()), None), "no rings");
    for (change, is_begun) in [
        (AddRing { offset: 4096, ..ring }, true),
        (AddRing { offset: 32, ..ring }, true),
        (AddRing { region: 1, ..ring }, true),
        (AddRing { log2_ring_size: 8, ..ring }, true),
        (AddRing { log2_ring_size: 255, ..ring }, true),
        (ring, false),
    ] {
        let (memory, file) = super::memory::Region::create(4096).unwrap();
        let memory = Arc::new(super::ring::Memory(vec![memory]));
        if is_begun {
            Ring::at(&memory, 0, 0, 4).unwrap().begin();
        }
        let speaker = admitted();
        assert_eq!(speaker.say(&region(0, 4096), Some(&file)), Some(Message::Ack));
        assert_eq!(speaker.say(&Message::AddRing(change), Some(&file)), Some(Message::Ack));
        assert_eq!(speaker.refused(&Message::Connect("x".into()), None), "ring 0 is not in its region");
    }
    // More rings than the interface has queues.
    let speaker = admitted();
    assert_eq!(speaker.say(&Message::AddRing(ring), Some(&file)), Some(Message::Ack));
    let reason = speaker.refused(&Message::AddRing(second), Some(&file));
    assert_eq!(reason, "ring 1: the interface has 1 rx-queues");
    // And no message at all.
    let speaker = fresh();
    rustix::io::write(&speaker.0, &[0; 128]).unwrap();
    assert!(matches!(speaker.hear(), Some(Message::Disconnect { .. })));
    let speaker = fresh();
    rustix::io::write(&speaker.0, &[1; 5]).unwrap();
    assert!(matches!(speaker.hear(), Some(Message::Disconnect { .. })));
    assert!(!master.link.is_up());
    // Who leaves room for others is let in.
    let slave = opened(&keeper, Options { role: Role::Slave, ..wanted }).unwrap();
    wait_for("both", || master.link.is_up() && slave.link.is_up());
}

/// What a peer may do to memory.
#[derive(Debug, Clone)]
enum Lie {
    Head(u16),
    Tail(u16),
    Flags(u16),
    Descriptor(u16, u16, u16, u32, u32),
    Receive,
    Transmit(usize),
}

fn lie() -> impl Strategy<Value = Lie> {
    let number = || prop_oneof![0..20u16, any::<u16>()];
    let length = prop_oneof![0..100u32, 2000..2100u32, 65000..66000u32, any::<u32>()];
    let place = prop_oneof![0..70_000u32, any::<u32>()];
    prop_oneof![
        2 => number().prop_map(Lie::Head),
        2 => number().prop_map(Lie::Tail),
        1 => any::<u16>().prop_map(Lie::Flags),
        6 => (0..8u16, prop_oneof![0..2u16, any::<u16>()], prop_oneof![Just(0u16), any::<u16>()], length, place)
            .prop_map(|(slot, flags, region, length, offset)| Lie::Descriptor(slot, flags, region, length, offset)),
        3 => Just(Lie::Receive),
        3 => prop_oneof![Just(60usize), 1..9000usize].prop_map(Lie::Transmit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn no_lie_in_shared_memory_does_harm(lies in prop::collection::vec(lie(), 1..80), is_master in any::<bool>()) {
        let mut side = Peerless::new(if is_master { Role::Master } else { Role::Slave }, 3, 2048);
        let mut buffers = buffers();
        for lie in lies {
            match lie {
                Lie::Head(head) => side.set_head(head),
                Lie::Tail(tail) => side.set_tail(tail),
                Lie::Flags(flags) => side.set_wakes(flags & 1 == 0),
                Lie::Descriptor(slot, flags, region, length, offset) => {
                    side.describe(slot, Descriptor { flags, region, length, offset });
                }
                Lie::Receive => {
                    let (mut vector, mut counts) = (Vector::new(), ReceiveCounts::default());
                    side.receive.receive(&mut buffers, &mut vector, &mut counts);
                    for i in 0..vector.len() {
                        let row = vector.row(i);
                        prop_assert_eq!(bytes(&buffers, &row).len(), usize::from(row.length));
                        prop_assert!(row.length > 0 && (row.flags & flag::CHAINED != 0) == (row.length > 2048));
                        buffers.free_chain(row.packet);
                    }
                }
                Lie::Transmit(length) => {
                    let row = plain(&mut buffers, &frame(length, 1));
                    let edges = send(&mut side.transmit, &mut buffers, &[row]);
                    prop_assert!([edge::SENT, FULL, REFUSED, TOO_LONG].contains(&edges[0]));
                }
            }
            prop_assert_eq!(buffers.in_use(), 0);
        }
    }
}

#[test]
fn a_ring_that_makes_no_sense_ends_the_connection() {
    for role in [Role::Master, Role::Slave] {
        let mut side = Peerless::new(role, 3, 2048);
        let mut buffers = buffers();
        let ring = &side.connection.receive[0].ring;
        ring.set_head(ring.tail().wrapping_add(9));
        ring.set_tail(ring.tail().wrapping_add(if role == Role::Slave { 9 } else { 0 }));
        let mut counts = ReceiveCounts::default();
        for _ in 0..2 {
            assert!(receive(&mut side.receive, &mut buffers, &mut counts).is_empty());
        }
        assert_eq!(counts, ReceiveCounts { malformed: 1, ..ReceiveCounts::default() }, "{role:?}");
        assert!(side.is_broken());
        let row = plain(&mut buffers, &frame(60, 1));
        assert_eq!(send(&mut side.transmit, &mut buffers, &[row]), [REFUSED]);
    }
    // A packet that goes on for ever.
    let mut side = Peerless::new(Role::Master, 3, 2048);
    let ring = &side.connection.receive[0].ring;
    (0..8).for_each(|slot| ring.put(slot, Descriptor { flags: 1, region: 0, length: 10, offset: 0 }));
    ring.set_head(8);
    let mut counts = ReceiveCounts::default();
    let mut buffers = buffers();
    assert!(receive(&mut side.receive, &mut buffers, &mut counts).is_empty());
    assert_eq!((counts.malformed, side.is_broken()), (1, true));
}

#[test]
fn the_keeper_closes_what_is_broken_and_connects_again() {
    let mut pair = Pair::plain();
    let mut buffers = buffers();
    let connection = connection(&pair.slave).interface.slot.connection().1.unwrap();
    let before = pair.status(&pair.master).connection_descriptor;
    assert!(before > 0);
    connection.transmit[0].ring.set_head(1000);
    let mut counts = ReceiveCounts::default();
    receive(&mut *pair.master.receive[0], &mut buffers, &mut counts);
    assert_eq!(counts.malformed, 1);
    wait_for("the connection's end", || !pair.master.link.is_up());
    wait_for("the next", || pair.master.link.is_up() && pair.slave.link.is_up());
    assert_eq!(pair.status(&pair.master).local_reason, "");
    assert_eq!(send_frames(&mut pair.slave, &mut buffers, &[frame(60, 1)]), [edge::SENT]);
    assert_eq!(received(&mut pair.master, &mut buffers), [frame(60, 1)]);
}
