//! The drivers against the kernel. Each test is alone in a network namespace of its own
//! thread, which ends with it.
#![allow(unsafe_code)]

use crate::af_packet::{self, AfPacketOptions};
use crate::tap::{self, TapOptions};
use crate::test_frames::{self as frames, plain, transport_frame, with_offload};
use crate::{DROPPED, Device, FULL, REFUSED, Receive, ReceiveCounts, TOO_LONG};
use graph::buffer::{Offload, Segmentation};
use graph::{Buffers, EdgeIndex, PacketIndex, Row, Vector, edge, flag};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::process::Command;
use std::time::{Duration, Instant};

/// EtherType for local experiments (IEEE 802).
const EXPERIMENTAL: [u8; 2] = [0x88, 0xb5];

/// Moves this thread to a network namespace of its own; without the right to, says so.
fn private_namespace(test: &str) -> bool {
    // SAFETY: descriptor tables stay shared.
    let alone = unsafe { unshare_unsafe(UnshareFlags::NEWNET) };
    let can = alone.is_ok() && std::fs::File::open("/dev/net/tun").is_ok();
    if !can {
        println!("skipped: {test} needs root/tun");
    }
    can
}

fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn new_tap(name: &str) -> Device {
    tap::open(TapOptions { host_interface_name: Some(name.into()), ..TapOptions::default() }).unwrap()
}

fn attach(name: &str) -> Device {
    attach_queues(name, 1)
}

fn attach_queues(name: &str, queues: u16) -> Device {
    af_packet::open(AfPacketOptions { host_interface: name.into(), hw_address: None, queues }).unwrap()
}

/// A veth pair that is up, with a packet socket on each end.
fn veth_pair() -> (Device, Device) {
    ip("link add left type veth peer name right");
    ip("link set left up");
    ip("link set right up");
    let both = (attach("left"), attach("right"));
    wait_for("carrier", || both.0.link.is_up() && both.1.link.is_up());
    both
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(5);
    while !condition() {
        assert!(Instant::now() < end, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn send(device: &mut Device, buffers: &mut Buffers, row: Row) -> EdgeIndex {
    let mut vector = Vector::new();
    vector.push(row, FULL);
    device.transmit.transmit(buffers, &mut vector);
    buffers.free_chain(row.packet);
    vector.edges()[0]
}

/// Receives until a frame that `wanted` likes comes: the first one's row and bytes. The kernel sends
/// frames of its own on a new link.
fn receive(device: &mut Device, buffers: &mut Buffers, wanted: impl Fn(&[u8]) -> bool) -> (Row, Vec<u8>, Offload) {
    let queue = device.receive.first_mut().unwrap();
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        let mut fds = [PollFd::from_borrowed_fd(queue.descriptor().unwrap(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 5, tv_nsec: 0 })).unwrap();
        let (mut vector, mut counts) = (Vector::new(), ReceiveCounts::default());
        queue.receive(buffers, &mut vector, &mut counts);
        let mut found = None;
        for i in 0..vector.len() {
            let row = vector.row(i);
            let bytes = frames::bytes(buffers, &row);
            if found.is_none() && wanted(&bytes) {
                found = Some((row, bytes, buffers.segment(row.packet).offload));
            }
            buffers.free_chain(row.packet);
        }
        match found {
            Some(found) => return found,
            None => assert!(Instant::now() < end, "no frame came: {counts:?}"),
        }
    }
}

fn experimental_frame(length: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 12];
    frame.extend_from_slice(&EXPERIMENTAL);
    frame.extend((14..length).map(|i| (i * 31) as u8));
    frame
}

/// Sends frames of all sizes one way and expects them whole, in order.
fn frames_pass(from: &mut Device, to: &mut Device, buffers: &mut Buffers) {
    for length in [14, 60, 1514, 100, 61, 1513] {
        let frame = experimental_frame(length);
        let row = plain(buffers, &frame);
        assert_eq!(send(from, buffers, row), edge::SENT);
        let (row, bytes, _) = receive(to, buffers, |bytes| bytes.get(12..14) == Some(&EXPERIMENTAL));
        assert_eq!(bytes, frame);
        assert_eq!((row.length as usize, row.l2, row.l3, row.flags), (length, 256, 256, 0));
    }
    assert_eq!(buffers.in_use(), 0);
}

/// Asks for a TCP packet of [`large_packet`] to be cut and its checksum finished.
const CUT_TCP: Offload = Offload {
    checksum_start: 20,
    checksum_offset: 16,
    segment_size: 1448,
    header_length: 52,
    kind: Segmentation::Tcp4Ecn,
};

/// A TCP packet of 60,000 bytes that is yet to be cut, after `tag`.
fn large_packet(buffers: &mut Buffers, tag: &[u8]) -> (Vec<u8>, Row) {
    let mut frame = transport_frame(false, false, false, &vec![0x5a; 60_000 - 66]);
    frame.splice(12..12, tag.iter().copied());
    let mut row = plain(buffers, &frame);
    row.l3 += tag.len() as u16;
    (frame, with_offload(buffers, row, flag::OFFLOAD, CUT_TCP))
}

/// Sends a large packet and expects it in one piece.
fn large_packet_passes(from: &mut Device, to: &mut Device, buffers: &mut Buffers, tag: &[u8]) {
    let (frame, row) = large_packet(buffers, tag);
    assert_eq!(send(from, buffers, row), edge::SENT);
    let (row, bytes, arrived) = receive(to, buffers, |bytes| bytes.len() > 1000);
    assert!(bytes == frame, "{} bytes of {}", bytes.len(), frame.len());
    assert_eq!(row.flags, flag::CHAINED | flag::OFFLOAD);
    assert_eq!(arrived, CUT_TCP);
    assert_eq!(buffers.in_use(), 0);
}

#[test]
fn tap_and_host_exchange_frames() {
    if !private_namespace("tap_and_host_exchange_frames") {
        return;
    }
    let mut buffers = frames::buffers();
    let mut device = new_tap("quiver-tap");
    let mut host = attach("quiver-tap");
    frames_pass(&mut device, &mut host, &mut buffers);
    frames_pass(&mut host, &mut device, &mut buffers);
    large_packet_passes(&mut device, &mut host, &mut buffers, &[]);
    large_packet_passes(&mut host, &mut device, &mut buffers, &[]);
}

#[test]
fn tap_configures_the_hosts_end_in_a_namespace() {
    if !private_namespace("tap_configures_the_hosts_end_in_a_namespace") {
        return;
    }
    let path = format!("/proc/self/task/{}/ns/net", rustix::thread::gettid().as_raw_nonzero());
    let options = TapOptions {
        id: 7,
        host_namespace: Some(path),
        host_ip4: Some("10.5.0.1/20".parse().unwrap()),
        host_ip6: Some("2001:db8:5::1/64".parse().unwrap()),
        host_gateway4: Some("10.5.0.9".parse().unwrap()),
        host_gateway6: Some("2001:db8:5::9".parse().unwrap()),
        host_mac: Some("02:00:00:00:00:99".parse().unwrap()),
        host_mtu: Some(9000),
        hw_address: Some("02:00:00:00:00:01".parse().unwrap()),
        ..TapOptions::default()
    };
    // Opened by a thread that is elsewhere.
    let elsewhere = std::thread::spawn(|| tap::open(options).unwrap());
    let device = elsewhere.join().unwrap();
    let shown = ip("-4 address show dev tap7") + &ip("link show dev tap7");
    let shown = shown + &ip("-6 address show dev tap7") + &ip("-4 route show") + &ip("-6 route show");
    for part in [
        "inet 10.5.0.1/20",
        "inet6 2001:db8:5::1/64",
        "default via 10.5.0.9 dev tap7",
        "default via 2001:db8:5::9 dev tap7",
        "mtu 9000",
        "link/ether 02:00:00:00:00:99",
        "UP",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert_eq!((device.mtu, device.mac), (9000, "02:00:00:00:00:01".parse().unwrap()));
    assert!(device.link.is_up());
    ip("link set tap7 name renamed");
    assert!(device.link.is_up());
    ip("link set renamed down");
    assert!(!device.link.is_up());
}

#[test]
fn tap_becomes_a_port_of_a_bridge_or_is_not_made() {
    if !private_namespace("tap_becomes_a_port_of_a_bridge_or_is_not_made") {
        return;
    }
    ip("link add br0 type bridge");
    let options = |bridge: &str| TapOptions { id: 8, host_bridge: Some(bridge.into()), ..TapOptions::default() };
    let _device = tap::open(options("br0")).unwrap();
    let shown = ip("link show dev tap8");
    assert!(shown.contains("master br0"), "{shown}");
    let error = tap::open(TapOptions { id: 9, ..options("br1") }).err().unwrap().to_string();
    assert!(error.contains("bridge 'br1'"), "{error}");
    assert!(!ip("link show").contains("tap9"));
}

#[test]
fn tap_that_is_down_or_deleted_refuses_and_sleeps() {
    if !private_namespace("tap_that_is_down_or_deleted_refuses_and_sleeps") {
        return;
    }
    let mut buffers = frames::buffers();
    let mut device = new_tap("quiver-gone");
    ip("link set quiver-gone down");
    let row = plain(&mut buffers, &experimental_frame(60));
    assert_eq!(send(&mut device, &mut buffers, row), REFUSED);
    ip("link del quiver-gone");
    let row = plain(&mut buffers, &experimental_frame(60));
    assert_eq!(send(&mut device, &mut buffers, row), REFUSED);
    assert!(!device.link.is_up());
    let (mut vector, mut counts) = (Vector::new(), ReceiveCounts::default());
    let queue = device.receive.first_mut().unwrap();
    queue.receive(&mut buffers, &mut vector, &mut counts);
    assert!(vector.is_empty());
    assert!(queue.is_gone(), "nobody waits for it any more");
    assert_eq!(buffers.in_use(), 0);
}

#[test]
fn an_empty_pool_leaves_packets_in_the_kernel() {
    if !private_namespace("an_empty_pool_leaves_packets_in_the_kernel") {
        return;
    }
    let mut buffers = frames::buffers();
    let mut device = new_tap("quiver-pool");
    let mut host = attach("quiver-pool");
    for (from_host, frame) in [(true, experimental_frame(100)), (false, experimental_frame(100))] {
        let (from, to) = if from_host { (&mut host, &mut device) } else { (&mut device, &mut host) };
        let row = plain(&mut buffers, &frame);
        assert_eq!(send(from, &mut buffers, row), edge::SENT);
        let mut hoard = vec![PacketIndex::NONE; 4096];
        let got = buffers.allocate(&mut hoard);
        buffers.free(&hoard[..20]);
        let (mut vector, mut counts) = (Vector::new(), ReceiveCounts::default());
        to.receive.first_mut().unwrap().receive(&mut buffers, &mut vector, &mut counts);
        assert_eq!((vector.len(), counts.no_buffer), (0, 1));
        buffers.free(&hoard[20..got]);
        assert_eq!(buffers.in_use(), 0);
        assert_eq!(receive(to, &mut buffers, |bytes| bytes[12..14] == EXPERIMENTAL).1, frame);
    }
}

#[test]
fn packet_sockets_exchange_frames_over_a_veth_pair() {
    if !private_namespace("packet_sockets_exchange_frames_over_a_veth_pair") {
        return;
    }
    let mut buffers = frames::buffers();
    let (mut left, mut right) = veth_pair();
    assert_eq!(left.mtu, 1500);
    frames_pass(&mut left, &mut right, &mut buffers);
    frames_pass(&mut right, &mut left, &mut buffers);
    large_packet_passes(&mut left, &mut right, &mut buffers, &[]);
    let too_long = plain(&mut buffers, &experimental_frame(3000));
    assert_eq!(send(&mut left, &mut buffers, too_long), TOO_LONG);
}

#[test]
fn what_the_other_end_of_a_veth_does_not_take_is_no_overload() {
    if !private_namespace("what_the_other_end_of_a_veth_does_not_take_is_no_overload") {
        return;
    }
    let (mut left, mut right) = veth_pair();
    let mut buffers = frames::buffers();
    ip("link set left mtu 9000");
    // Its own MTU allows the frame, that of the other end does not: this frame is lost, those around it are not.
    let rows = [100, 1600, 101].map(|length| plain(&mut buffers, &experimental_frame(length)));
    let mut vector = Vector::new();
    rows.iter().for_each(|row| vector.push(*row, FULL));
    left.transmit.transmit(&mut buffers, &mut vector);
    assert_eq!(vector.edges(), [edge::SENT, DROPPED, edge::SENT]);
    rows.iter().for_each(|row| buffers.free_chain(row.packet));
    // A veth delivers at once.
    let came = receive_all(&mut right, &mut buffers).concat();
    let lengths: Vec<usize> =
        came.iter().filter(|frame| frame[12..14] == EXPERIMENTAL).map(|frame| frame.len()).collect();
    assert_eq!(lengths, [100, 101]);
    ip("link set right mtu 9000");
    let row = plain(&mut buffers, &experimental_frame(1600));
    assert_eq!(send(&mut left, &mut buffers, row), edge::SENT);
}

#[test]
fn long_and_short_frames_keep_their_order_around_the_ring() {
    if !private_namespace("long_and_short_frames_keep_their_order_around_the_ring") {
        return;
    }
    let mut buffers = frames::buffers();
    ip("link add left mtu 9000 type veth peer name right mtu 9000");
    ip("link set left up");
    ip("link set right up");
    let (mut left, mut right) = (attach("left"), attach("right"));
    wait_for("carrier", || left.link.is_up() && right.link.is_up());
    let lengths = [60, 9014, 2048, 2049, 2052, 2090, 2100, 4096, 1514, 4110, 70];
    let mut expected = std::collections::VecDeque::new();
    for round in 0..300 {
        let mut vector = Vector::new();
        for i in 0..lengths.len() {
            let mut frame = experimental_frame(lengths[(round + i) % lengths.len()]);
            frame[14..18].copy_from_slice(&((round * 100 + i) as u32).to_be_bytes());
            vector.push(plain(&mut buffers, &frame), FULL);
            expected.push_back(frame);
        }
        left.transmit.transmit(&mut buffers, &mut vector);
        for i in 0..vector.len() {
            assert_eq!(vector.edges()[i], edge::SENT);
            buffers.free_chain(vector.row(i).packet);
        }
        let (mut arrived, mut counts) = (Vector::new(), ReceiveCounts::default());
        while !expected.is_empty() {
            arrived.clear();
            right.receive.first_mut().unwrap().receive(&mut buffers, &mut arrived, &mut counts);
            for i in 0..arrived.len() {
                let row = arrived.row(i);
                let bytes = frames::bytes(&buffers, &row);
                buffers.free_chain(row.packet);
                if bytes[12..14] == EXPERIMENTAL {
                    let frame = expected.pop_front().unwrap();
                    assert!(bytes == frame, "{} bytes of {}", bytes.len(), frame.len());
                }
            }
            assert_eq!((counts.malformed, counts.missed, counts.no_buffer), (0, 0, 0));
        }
    }
    assert_eq!(buffers.in_use(), 0);
}

#[test]
fn vlan_tags_are_put_back() {
    if !private_namespace("vlan_tags_are_put_back") {
        return;
    }
    let mut buffers = frames::buffers();
    let (mut left, mut right) = veth_pair();
    let mut frame = experimental_frame(100);
    frame.splice(12..12, [0x81, 0, 0x60, 0x64]);
    let row = plain(&mut buffers, &frame);
    assert_eq!(send(&mut left, &mut buffers, row), edge::SENT);
    let (row, bytes, _) = receive(&mut right, &mut buffers, |bytes| bytes.len() == 104);
    assert_eq!(bytes, frame);
    assert_eq!((row.l2, row.l3, row.length), (252, 252, 104));
    large_packet_passes(&mut left, &mut right, &mut buffers, &[0x81, 0, 0x60, 0x64]);
}

#[test]
fn frames_beyond_the_ring_are_counted_as_missed() {
    if !private_namespace("frames_beyond_the_ring_are_counted_as_missed") {
        return;
    }
    let mut buffers = frames::buffers();
    let (mut left, mut right) = veth_pair();
    let frame = experimental_frame(60);
    const SENT: u64 = 3000;
    for _ in 0..SENT {
        let row = plain(&mut buffers, &frame);
        assert_eq!(send(&mut left, &mut buffers, row), edge::SENT);
    }
    let mut arrived = 0;
    let mut count = |device: &mut Device, counts: &mut ReceiveCounts| {
        let mut vector = Vector::new();
        device.receive.first_mut().unwrap().receive(&mut buffers, &mut vector, counts);
        let ours = |&packet: &&PacketIndex| buffers.bytes(*packet)[256 + 12..][..2] == EXPERIMENTAL;
        let n = vector.packets().iter().filter(ours).count() as u64;
        buffers.free(vector.packets());
        n
    };
    let mut counts = ReceiveCounts::default();
    wait_for("all to be accounted for", || {
        arrived += count(&mut right, &mut counts);
        arrived + counts.missed >= SENT
    });
    assert!(counts.missed > 0, "the ring cannot have held {SENT}");
}

#[test]
fn what_the_host_sends_on_the_interface_is_not_received() {
    if !private_namespace("what_the_host_sends_on_the_interface_is_not_received") {
        return;
    }
    let mut buffers = frames::buffers();
    let (one, mut right) = veth_pair();
    drop(one);
    for queues in [1, 3] {
        let mut left = attach_queues("left", queues);
        let mut other = attach("left");
        let sent = plain(&mut buffers, &experimental_frame(60));
        assert_eq!(send(&mut other, &mut buffers, sent), edge::SENT);
        receive(&mut right, &mut buffers, |bytes| bytes[12..14] == EXPERIMENTAL);
        // What arrives later is the first that `left` sees.
        let marker = experimental_frame(61);
        let row = plain(&mut buffers, &marker);
        assert_eq!(send(&mut right, &mut buffers, row), edge::SENT);
        let mut lengths = Vec::new();
        wait_for("the marker", || {
            lengths.extend(receive_all(&mut left, &mut buffers).into_iter().flatten().map(|frame| frame.len()));
            lengths.contains(&61)
        });
        assert!(!lengths.contains(&60), "{queues} queues: {lengths:?}");
    }
}

/// What has come, by queue.
fn receive_all(device: &mut Device, buffers: &mut Buffers) -> Vec<Vec<Vec<u8>>> {
    let mut of_queue = |queue: &mut Box<dyn Receive>| {
        let (mut vector, mut counts) = (Vector::new(), ReceiveCounts::default());
        queue.receive(buffers, &mut vector, &mut counts);
        let rows: Vec<Row> = (0..vector.len()).map(|at| vector.row(at)).collect();
        let frames = rows.iter().map(|row| frames::bytes(buffers, row)).collect();
        rows.iter().for_each(|row| buffers.free_chain(row.packet));
        frames
    };
    device.receive.iter_mut().map(&mut of_queue).collect()
}

#[test]
fn flows_are_shared_out_among_queues_and_each_stays_in_one() {
    if !private_namespace("flows_are_shared_out_among_queues_and_each_stays_in_one") {
        return;
    }
    const FLOWS: u8 = 64;
    let mut buffers = frames::buffers();
    let (one, right) = veth_pair();
    drop(one);
    let options = TapOptions { host_interface_name: Some("several".into()), queues: 3, ..TapOptions::default() };
    let tap = tap::open(options).unwrap();
    let host = attach("several");
    for (mut to, mut from) in [(attach_queues("left", 3), right), (tap, host)] {
        assert_eq!((to.receive.len(), to.transmit.queues()), (3, 3));
        // Each flow's packets, by queue.
        let mut seen = vec![[0; 3]; FLOWS.into()];
        for round in 0..4 {
            for flow in 0..FLOWS {
                let mut frame = transport_frame(false, true, false, &[round; 20]);
                frame[35] = flow; // the source port
                let row = plain(&mut buffers, &frame);
                assert_eq!(send(&mut from, &mut buffers, row), edge::SENT);
            }
            let total = |seen: &[[i32; 3]]| seen.iter().flatten().sum::<i32>();
            wait_for("all flows", || {
                for (queue, frames) in receive_all(&mut to, &mut buffers).into_iter().enumerate() {
                    let udp = frames.iter().filter(|frame| frame.len() == 62 && frame[23] == 17);
                    udp.for_each(|frame| seen[frame[35] as usize][queue] += 1);
                }
                total(&seen) == i32::from(FLOWS) * (i32::from(round) + 1)
            });
        }
        assert!(
            seen.iter().all(|queues| queues.contains(&4)),
            "{}: a flow came by several queues: {seen:?}",
            to.driver
        );
        let used = (0..3).filter(|queue| seen.iter().any(|queues| queues[*queue] > 0)).count();
        assert_eq!(used, 3, "{}: {seen:?}", to.driver);
    }
    assert_eq!(buffers.in_use(), 0);
}

#[test]
fn long_frames_that_the_kernel_could_not_queue_are_missed_whole() {
    if !private_namespace("long_frames_that_the_kernel_could_not_queue_are_missed_whole") {
        return;
    }
    let mut buffers = frames::buffers();
    let (mut left, mut right) = veth_pair();
    const SENT: u64 = 600;
    let mut frame = Vec::new();
    for _ in 0..SENT {
        let row;
        (frame, row) = large_packet(&mut buffers, &[]);
        assert_eq!(send(&mut left, &mut buffers, row), edge::SENT);
    }
    let (mut arrived, mut counts) = (0, ReceiveCounts::default());
    wait_for("all to be accounted for", || {
        let mut vector = Vector::new();
        right.receive.first_mut().unwrap().receive(&mut buffers, &mut vector, &mut counts);
        for i in 0..vector.len() {
            let row = vector.row(i);
            if row.length > 1000 {
                assert!(frames::bytes(&buffers, &row) == frame);
                arrived += 1;
            }
            buffers.free_chain(row.packet);
        }
        arrived + counts.missed == SENT
    });
    assert!(arrived > 100 && counts.missed > 0, "{arrived} {counts:?}");
    assert_eq!(buffers.in_use(), 0);
}

#[test]
fn a_deleted_veth_refuses_and_does_not_wake() {
    if !private_namespace("a_deleted_veth_refuses_and_does_not_wake") {
        return;
    }
    let mut buffers = frames::buffers();
    let (mut left, _right) = veth_pair();
    ip("link del right");
    assert!(!left.link.is_up());
    assert!(left.link.set_admin(true).is_err());
    let mut vector = Vector::new();
    for _ in 0..40 {
        vector.push(plain(&mut buffers, &experimental_frame(60)), FULL);
    }
    left.transmit.transmit(&mut buffers, &mut vector);
    assert!(vector.edges().iter().all(|&to| to == REFUSED));
    buffers.free(vector.packets());
    let queue = left.receive.first_mut().unwrap();
    let (mut vector, mut counts) = (Vector::new(), ReceiveCounts::default());
    for _ in 0..1000 {
        queue.receive(&mut buffers, &mut vector, &mut counts);
    }
    vector.packets().iter().for_each(|&packet| buffers.free_chain(packet));
    let mut fds = [PollFd::from_borrowed_fd(queue.descriptor().unwrap(), PollFlags::IN)];
    assert_eq!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0));
    assert_eq!(buffers.in_use(), 0);
}

#[test]
fn admin_up_sets_the_hosts_interface_up_and_down_leaves_it() {
    if !private_namespace("admin_up_sets_the_hosts_interface_up_and_down_leaves_it") {
        return;
    }
    ip("link add left type veth peer name right");
    ip("link set right up");
    let mut left = attach("left");
    assert!(!left.link.is_up());
    left.link.set_admin(true).unwrap();
    wait_for("carrier", || left.link.is_up());
    left.link.set_admin(false).unwrap();
    assert!(left.link.is_up());
}

#[test]
fn what_cannot_be_opened_says_why() {
    if !private_namespace("what_cannot_be_opened_says_why") {
        return;
    }
    let error = |result: Result<Device, crate::OpenError>| result.err().unwrap().to_string();
    let attach =
        |name: &str| af_packet::open(AfPacketOptions { host_interface: name.into(), hw_address: None, queues: 1 });
    assert!(error(attach("nothing")).starts_with("host interface 'nothing': "));
    let named = |name: &str, namespace: Option<&str>| {
        tap::open(TapOptions {
            host_interface_name: Some(name.into()),
            host_namespace: namespace.map(str::to_owned),
            ..TapOptions::default()
        })
    };
    assert!(error(named("a/b", None)).starts_with("'a/b' cannot name a host interface"));
    assert!(error(named("t", Some("no-such-space"))).starts_with("network namespace /var/run/netns/no-such-space: "));
    assert!(error(named("t", Some("a/b"))).starts_with("'a/b' is not a network namespace"));
    let _first = named("twice", None).unwrap();
    assert!(error(named("twice", None)).starts_with("creating host interface 'twice': "));
}
