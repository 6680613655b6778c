use super::*;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::atomic::AtomicBool;

#[test]
fn a_prepared_change_comes_into_force_when_carried_out_unless_another_was_made() {
    let domain = Domain::new(1);
    let mut objects = Objects::new(&domain).unwrap();
    let handle = objects.handle();
    let mut reader = domain.register().unwrap();
    let index = objects.insert(&adjacency(1)).unwrap();
    let mut edge = || {
        domain.collect();
        handle.get(&reader.round(), index).edge()
    };
    let later = objects.prepare(index, &adjacency(2)).unwrap();
    assert_eq!(edge(), 1);
    later.carry_out();
    assert_eq!((edge(), edge(), edge()), (2, 2, 2));
    let too_late = objects.prepare(index, &adjacency(3)).unwrap();
    objects.replace(index, &adjacency(4)).unwrap();
    too_late.carry_out();
    assert_eq!((edge(), edge(), edge()), (4, 4, 4));
    let too_late = objects.prepare(index, &adjacency(5)).unwrap();
    objects.remove(index);
    let other = objects.insert(&adjacency(6)).unwrap();
    too_late.carry_out();
    assert_eq!(handle.get(&reader.round(), other).edge(), 6);
}

fn adjacency(value: u8) -> Object {
    Object::Adjacency(Adjacency {
        edge: value as u16,
        complete: true,
        mtu: 1000 + value as u16,
        interface: value as u32,
        next_hop: Ipv4Addr::new(0, 0, 0, 7).into(),
        rewrite: vec![value; 14],
        owner: u16::from(value) << 8 | 7,
    })
}

#[test]
fn the_lines_of_objects_that_are_gone_go_back() {
    let domain = Domain::new(1);
    let mut objects = Objects::new(&domain).unwrap();
    const MANY: usize = 20_000;
    let indices: Vec<u32> = (0..MANY).map(|_| objects.insert(&adjacency(1)).unwrap()).collect();
    indices.iter().for_each(|index| objects.replace(*index, &adjacency(2)).unwrap());
    // Two objects stay, and with them the lines between; one with a prepared change has its new line far behind.
    let (kept, changed) = (indices[0], indices[700]);
    let later = objects.prepare(changed, &adjacency(4)).unwrap();
    for index in indices.iter().filter(|index| ![kept, changed].contains(*index)) {
        objects.remove(*index);
    }
    domain.collect_all();
    objects.trim();
    assert!(objects.lines.lines.resident() > MANY * size_of::<Line>());
    later.carry_out();
    domain.collect_all();
    objects.trim();
    assert!(objects.lines.lines.resident() <= 1024 * size_of::<Line>());
    // No index is allocated twice.
    let again: BTreeSet<u32> = (0..MANY).map(|_| objects.insert(&adjacency(3)).unwrap()).collect();
    assert!(again.len() == MANY && !again.contains(&kept) && !again.contains(&changed));
    let (mut reader, handle) = (domain.register().unwrap(), objects.handle());
    let round = reader.round();
    assert_eq!((handle.get(&round, kept).edge(), handle.get(&round, changed).edge()), (2, 4));
    assert!(again.iter().all(|index| handle.get(&round, *index).edge() == 3));
}

#[test]
fn an_object_reads_back_as_it_was_made() {
    let domain = Domain::new(1);
    let mut objects = Objects::new(&domain).unwrap();
    let index = objects.insert(&adjacency(9)).unwrap();
    let mut reader = domain.register().unwrap();
    let handle = objects.handle();
    let round = reader.round();
    let object = handle.get(&round, index);
    assert!(object.is_complete());
    assert_eq!(
        (object.edge(), object.mtu(), object.interface(), object.next_hop()),
        (9, 1009, 9, Ipv4Addr::new(0, 0, 0, 7))
    );
    assert_eq!(object.rewrite(), [9; 14]);
    assert_eq!(object.ethernet(), Some(&[9; 14]));
    assert_eq!(object.bucket(1), Leaf::MISS);
    let index = objects.insert(&adjacency(5)).unwrap();
    let object = handle.get(&round, index);
    assert_eq!((object.mtu(), object.owner()), (1005, 0x507));
}

#[test]
fn buckets_of_every_size_are_found() {
    let domain = Domain::new(1);
    let mut objects = Objects::new(&domain).unwrap();
    let mut reader = domain.register().unwrap();
    let handle = objects.handle();
    for log in 0..=6 {
        let leaves: Vec<_> = (0..1 << log).map(|i| Leaf::new(0x20, i)).collect();
        let index = objects.insert(&Object::LoadBalance(LoadBalance { buckets: leaves.clone(), flow: 0x17f })).unwrap();
        let round = reader.round();
        for hash in 0..200u32 {
            let expected = leaves[hash as usize % leaves.len()];
            assert_eq!(handle.get(&round, index).bucket(hash), expected);
        }
        assert_eq!(handle.get(&round, index).buckets().collect::<Vec<_>>(), leaves);
    }
}

#[test]
fn lines_come_back_after_replacing_and_removing() {
    let domain = Domain::new(1);
    let mut objects = Objects::new(&domain).unwrap();
    for n in 0..1000u32 {
        let index = objects.insert(&adjacency(n as u8)).unwrap();
        objects.replace(index, &adjacency(1)).unwrap();
        if n % 3 == 0 {
            objects.replace(index, &adjacency(2)).unwrap();
        }
        if n % 2 == 0 {
            domain.collect();
        }
        objects.remove(index);
        domain.collect();
        domain.collect();
    }
    assert!(objects.is_empty());
    let spare = objects.lines.spare.lock().unwrap();
    assert!(spare.standing_in.is_empty());
    assert_eq!(spare.free.values().map(Vec::len).sum::<usize>(), spare.fresh);
    assert!(spare.fresh < 20, "{}", spare.fresh);
}

#[test]
fn a_reader_sees_the_old_object_or_the_new_one_never_a_mixture() {
    let domain = Domain::new(1);
    let mut objects = Objects::new(&domain).unwrap();
    let index = objects.insert(&adjacency(0)).unwrap();
    let handle = objects.handle();
    let stop = Arc::new(AtomicBool::new(false));
    let reading = {
        let (domain, stop) = (domain.clone(), stop.clone());
        std::thread::spawn(move || {
            let mut reader = domain.register().unwrap();
            while !stop.load(Ordering::Relaxed) {
                let round = reader.round();
                for _ in 0..50 {
                    let object = handle.get(&round, index);
                    let value = object.edge() as u8;
                    assert_eq!(object.rewrite(), [value; 14]);
                    assert_eq!(object.interface(), value as u32);
                }
            }
        })
    };
    for n in 0..50_000u32 {
        objects.replace(index, &adjacency(n as u8)).unwrap();
        domain.collect();
    }
    stop.store(true, Ordering::Relaxed);
    reading.join().unwrap();
}

fn midchain(value: u8) -> Object {
    Object::Midchain(Midchain {
        edge: 3,
        out: value.into(),
        mtu: 1400,
        interface: value.into(),
        next_hop: Ipv4Addr::new(0, 0, 0, value).into(),
        rewrite: vec![value; 70 + usize::from(value) % 59],
        fix_up: u16::from(value) + 1,
        next: Leaf::new(0x30, value.into()),
        owner: value.into(),
    })
}

#[test]
fn a_midchain_and_a_custom_object_read_back_as_they_were_made() {
    let domain = Domain::new(1);
    let mut objects = Objects::new(&domain).unwrap();
    let tunnel = objects.insert(&midchain(58)).unwrap();
    let other = objects.insert(&Object::Custom(Custom { edge: 9, bytes: vec![4; 20], owner: 77 })).unwrap();
    let (mut reader, handle) = (domain.register().unwrap(), objects.handle());
    let round = reader.round();
    let object = handle.get(&round, tunnel);
    assert!(!object.is_complete() && object.custom().is_empty());
    assert_eq!((object.edge(), object.mtu(), object.interface(), object.owner()), (3, 1400, 58, 58));
    assert_eq!(object.next_hop(), Ipv4Addr::new(0, 0, 0, 58));
    let read = object.midchain().unwrap();
    assert_eq!((read.out(), read.fix_up(), read.next()), (58, 59, Leaf::new(0x30, 58)));
    assert_eq!(read.rewrite(), (&[58; MAX_LONG_REWRITE], MAX_LONG_REWRITE));
    let object = handle.get(&round, other);
    assert!(object.midchain().is_none() && !object.is_complete());
    assert_eq!((object.edge(), object.owner(), object.bucket(1)), (9, 77, Leaf::MISS));
    assert_eq!(object.custom(), [&[4; 20][..], &[0; MAX_CUSTOM - 20]].concat());
}

#[test]
#[should_panic(expected = "cannot grow")]
fn an_adjacency_without_room_becomes_no_midchain() {
    let mut objects = Objects::new(&Domain::new(1)).unwrap();
    let index = objects.insert(&adjacency(1)).unwrap();
    let _ = objects.replace(index, &midchain(1));
}

#[test]
fn a_reader_sees_a_whole_midchain_or_the_adjacency_it_was() {
    let domain = Domain::new(1);
    let mut objects = Objects::new(&domain).unwrap();
    let index = objects.insert_with_room(&adjacency(0), MIDCHAIN_LINES).unwrap();
    let handle = objects.handle();
    let stop = Arc::new(AtomicBool::new(false));
    let reading = {
        let (domain, stop) = (domain.clone(), stop.clone());
        std::thread::spawn(move || {
            let mut reader = domain.register().unwrap();
            let mut seen = [0; 2];
            while !stop.load(Ordering::Relaxed) {
                let round = reader.round();
                for _ in 0..20 {
                    let object = handle.get(&round, index);
                    let value = object.interface() as u8;
                    match object.midchain() {
                        Some(read) => {
                            let (bytes, length) = read.rewrite();
                            assert_eq!((read.out(), length), (value.into(), 70 + usize::from(value) % 59));
                            assert!(bytes[..length].iter().all(|byte| *byte == value));
                            assert_eq!(read.next(), Leaf::new(0x30, value.into()));
                        }
                        None => assert_eq!(object.rewrite(), [value; 14]),
                    }
                    seen[usize::from(object.midchain().is_some())] += 1;
                }
            }
            seen
        })
    };
    for n in 0..40_000u32 {
        let object = if n % 3 == 0 { adjacency(n as u8) } else { midchain(n as u8) };
        objects.replace(index, &object).unwrap();
        domain.collect();
    }
    stop.store(true, Ordering::Relaxed);
    assert!(reading.join().unwrap().into_iter().all(|seen| seen > 0));
}
