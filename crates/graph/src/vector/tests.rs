use super::*;
use crate::buffer::Pool;
use proptest::prelude::*;

crate::scratch_number! { struct Number(u32) = "a number of a test" }

impl Vector {
    /// The packets that take an edge in another vector.
    fn mask_of_all(&self, other: &Vector, edge: EdgeIndex) -> Mask {
        other.mask_of(edge, &Mask::first(self.len()))
    }
}

fn row(buffers: &mut Buffers, n: u32) -> Row {
    Row {
        packet: buffers.allocate_one().unwrap(),
        rx_interface: InterfaceIndex(n),
        target: n * 3,
        flags: n << 8,
        l2: 256 + n as u16,
        l3: 270 + n as u16,
        length: n as u16,
        ..Row::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn packets_part_ways_in_order_with_all_that_is_known_of_them(
        edges in proptest::collection::vec(0u16..5, 0..=256),
        already in 0usize..256,
        // Which packets have scratch, and which have what in lazy columns; of both vectors.
        has_scratch in any::<[u8; 2]>(),
        lazy in any::<[[u8; LAZY]; 2]>(),
    ) {
        let marked = |mut row: Row, n: usize, which: usize| {
            if has_scratch[which] >> (n % 8) & 1 != 0 {
                row.scratch = Scratch::of(Number(n as u32 + 1));
            }
            for (at, bits) in lazy[which].into_iter().enumerate() {
                row.lazy[at] = if bits & 1 << (n % 8) & 0x5a != 0 { (n * (at + 1)) as u32 } else { 0 };
            }
            row
        };
        let pool = Pool::new(1024, false).unwrap();
        let mut buffers = Buffers::new(&pool, 1024);
        let mut vector = Vector::new();
        for (n, &edge) in edges.iter().enumerate() {
            let row = marked(row(&mut buffers, n as u32), n, 0);
            vector.push(row, edge);
        }
        vector.pass_scratch_on();
        let mut whole = Vec::new();
        for edge in 0..5 {
            let mut to = Vector::new();
            let before: Vec<Row> = (0..already).map(|n| marked(row(&mut buffers, n as u32), n, 1)).collect();
            before.iter().for_each(|row| to.push(*row, 0));
            to.pass_scratch_on();
            let mut mask = vector.mask_of(edge, &Mask::first(vector.len()));
            let rows = (0..vector.len()).filter(|&i| edges[i] == edge);
            let expected: Vec<Row> = rows.map(|i| vector.row(i)).collect();
            prop_assert_eq!(mask.count(), expected.len());
            vector.move_to(&mut mask, vector.alike(), &mut to);
            let fit = expected.len().min(VECTOR_SIZE - already);
            prop_assert_eq!(to.len(), already + fit);
            prop_assert_eq!(mask.count(), expected.len() - fit);
            for (i, row) in expected.iter().take(fit).enumerate() {
                prop_assert_eq!(&to.row(already + i), row);
            }
            for (i, row) in before.iter().enumerate() {
                prop_assert_eq!(&to.row(i), row);
            }
            whole.push((Mask::first(vector.len()), edge, expected));
            let packets: Vec<_> = to.packets()[..already].to_vec();
            buffers.free(&packets);
        }
        // In place, and appended.
        let alike = vector.alike();
        for (_, edge, expected) in whole {
            let mut other = Vector::new();
            prop_assert_eq!(other.append(&vector, 0), vector.len());
            let mask = other.mask_of_all(&vector, edge);
            other.keep(&mask, alike);
            let kept: Vec<Row> = (0..other.len()).map(|i| other.row(i)).collect();
            prop_assert_eq!(&kept, &expected);
            other.pass_scratch_on();
            prop_assert!((0..other.len()).all(|i| other.row(i).scratch.is_none()), "not left anew");
        }
    }
}

#[test]
fn a_copy_has_bytes_chain_and_offload_of_its_own() {
    let pool = Pool::new(1024, false).unwrap();
    let mut buffers = Buffers::new(&pool, 1024);
    let parts: Vec<_> = (0..3).map(|_| buffers.allocate_one().unwrap()).collect();
    for (n, &part) in parts.iter().enumerate() {
        buffers.bytes_mut(part).fill(n as u8 + 1);
        let segment = buffers.segment_mut(part);
        (segment.offset, segment.length) = (100 * n as u16, 10);
        segment.set_next(parts.get(n + 1).copied());
    }
    buffers.segment_mut(parts[0]).offload.segment_size = 77;
    let row = Row { packet: parts[0], flags: flag::CHAINED, l2: 256, length: 50, ..Row::default() };
    let copy = row.copy(&mut buffers).unwrap();
    assert_eq!(Row { packet: row.packet, ..copy }, row);
    assert_eq!((buffers.in_use(), buffers.segment(copy.packet).offload.segment_size), (6, 77));
    buffers.free_chain(row.packet);
    assert_eq!(buffers.bytes(copy.packet)[256..286], [1; 30]);
    let second = *buffers.segment(buffers.segment(copy.packet).next().unwrap());
    let third = *buffers.segment(second.next().unwrap());
    assert_eq!((second.offset, second.length, third.offset, third.length), (100, 10, 200, 10));
    assert_eq!(buffers.bytes(second.next().unwrap())[200..210], [3; 10]);
    assert_eq!(third.next(), None);
    buffers.free_chain(copy.packet);
    assert_eq!(buffers.in_use(), 0);
    // All or nothing: buffers taken for a copy that does not fit are freed.
    let mut most = vec![PacketIndex::NONE; 1022];
    assert_eq!(buffers.allocate(&mut most), 1022);
    let (a, b) = (buffers.allocate_one().unwrap(), buffers.allocate_one().unwrap());
    buffers.segment_mut(a).set_next(Some(b));
    buffers.free(&most[..1]);
    let row = Row { packet: a, flags: flag::CHAINED, l2: 256, length: 50, ..Row::default() };
    assert_eq!((row.copy(&mut buffers), buffers.in_use()), (None, 1023));
}

#[test]
fn one_edge_is_seen_only_when_all_agree() {
    let pool = Pool::new(1024, false).unwrap();
    let mut buffers = Buffers::new(&pool, 1024);
    let mut vector = Vector::new();
    assert_eq!(vector.one_edge(), None);
    for n in 0..200 {
        let row = row(&mut buffers, n);
        vector.push(row, 7);
    }
    assert_eq!(vector.one_edge(), Some(7));
    vector.set_edge(199, 6);
    assert_eq!(vector.one_edge(), None);
}

#[test]
fn appended_packets_do_not_inherit_another_vectors_scratch() {
    let pool = Pool::new(1024, false).unwrap();
    let mut buffers = Buffers::new(&pool, 1024);
    let (mut a, mut b) = (Vector::new(), Vector::new());
    a.push(Row { scratch: Scratch::of(Number(9)), ..row(&mut buffers, 1) }, 0);
    b.push(row(&mut buffers, 2), 0);
    a.append(&b, 0);
    assert_eq!((a.left(0), a.left::<Number>(1)), (Some(Number(9)), None));
    b.append(&a, 0);
    assert_eq!((b.left::<Number>(0), b.left(1)), (None, Some(Number(9))));
}

#[test]
fn scratch_and_lazy_columns_of_the_last_use_are_not_seen_in_the_next() {
    let pool = Pool::new(1024, false).unwrap();
    let mut buffers = Buffers::new(&pool, 1024);
    let mut vector = Vector::new();
    let full = row(&mut buffers, 1).with_lazy(Lazy::Table, 7).with_lazy(Lazy::FlowHash, 8);
    vector.push(Row { scratch: Scratch::of(Number(9)), ..full }, 0);
    vector.clear();
    assert_eq!((vector.lazy(Lazy::Table), vector.lazy(Lazy::FlowHash)), (None, None));
    let plain = row(&mut buffers, 2);
    vector.push(plain, 0);
    assert_eq!(vector.row(0), plain);
    vector.lazy_mut(Lazy::Table)[0] = 5;
    let alike = row(&mut buffers, 3);
    vector.extend_alike(&[alike.packet], alike, 0);
    vector.push(row(&mut buffers, 4).with_lazy(Lazy::TxInterface, 6), 0);
    assert_eq!(vector.lazy(Lazy::Table), Some(&[5, 0, 0][..]));
    assert_eq!(vector.lazy(Lazy::TxInterface), Some(&[0, 0, 6][..]));
    assert_eq!((vector.one_lazy(Lazy::Table), vector.one_lazy(Lazy::Cursor)), (None, Some(0)));
    vector.clear_lazy(Lazy::Table);
    assert_eq!(vector.row(0).lazy(Lazy::Table), 0);
}

#[test]
fn a_node_reads_what_it_has_left_itself_and_the_next_but_one_nothing() {
    let pool = Pool::new(1024, false).unwrap();
    let mut buffers = Buffers::new(&pool, 1024);
    let mut vector = Vector::new();
    (0..3).for_each(|n| vector.push(row(&mut buffers, n), 0));
    vector.leave_numbers::<Number>().1.copy_from_slice(&[1, 2, 3]);
    vector.pass_scratch_on();
    vector.leave(1, Number(20));
    let read = |vector: &Vector| [0, 1, 2].map(|i| vector.left::<Number>(i).map_or(0, |number| number.0));
    assert_eq!(read(&vector), [1, 20, 3]);
    vector.pass_scratch_on();
    assert_eq!(read(&vector), [0, 20, 0]);
    vector.pass_scratch_on();
    assert_eq!(read(&vector), [0, 0, 0]);
    // What numbers leave behind is not seen by a longer value's reader, nor the other way round.
    (0..3).for_each(|i| vector.set_scratch(i, Scratch { kind: 7, words: [1, 2, 3] }));
    assert!(vector.l3_frames_with_numbers::<Number>(&mut buffers).is_none(), "of another kind");
    vector.leave_numbers::<Number>().1.fill(9);
    assert_eq!(vector.row(1).scratch, Scratch::of(Number(9)));
    let (_, _, numbers) = vector.l3_frames_with_numbers::<Number>(&mut buffers).unwrap();
    assert_eq!(numbers, [9; 3]);
    vector.set_scratch(2, Scratch::NONE);
    assert!(vector.l3_frames_with_numbers::<Number>(&mut buffers).is_none(), "not of all");
}
