//! What the metadata of a vector costs in three layouts, for vectors that stay together
//! and for vectors whose packets part ways. The measurement behind
//! `docs/decisions/001-metadata-columns.md`:
//!
//! ```text
//! cargo run --release -p quiver-graph --example metadata_layouts
//! ```
//!
//! Each layout runs the metadata work of routing and no packet memory: an input stage
//! (offsets, check bits, destination), a lookup (table load, edge by kind), the parting of
//! the vector by edge, and a rewrite stage (offset and length) on each part. Clocks are
//! those of the time stamp counter, per packet, minimum / median / maximum of 15 windows.

use quiver_graph::time::ticks;
use std::hint::black_box;

const SIZE: usize = 256;
const SLACK: usize = 32;
const WAYS: usize = 8;
const WINDOWS: usize = 15;
const VECTORS: usize = 4000;
/// Buffers in turn: as many as stay in the first-level cache, and as `--cold` has.
const POOLS: [usize; 2] = [1024, 16384];

/// Which way packet `i` goes.
type Routes = fn(usize) -> u32;
const ROUTES: [(&str, Routes); 4] = [
    ("uniform", |_| 0),
    ("1 in 10 diverges", |i| (i % 10 == 3) as u32),
    ("2 ways in turn", |i| (i % 2) as u32),
    ("8 ways, scattered", |i| (i as u32).wrapping_mul(0x9e37_79b9) >> 29),
];

/// The table of the lookup: 64k leaves, the way in the top bits.
fn table(routes: Routes) -> Vec<u32> {
    (0..65536).map(|slot| routes(slot % SIZE) << 28 | 7).collect()
}

trait Layout {
    fn new(pool: usize) -> Self;
    /// One vector through all stages; the sum keeps the work alive.
    fn run(&mut self, table: &[u32], first: usize) -> u64;
}

// --- columns beside the vector -----------------------------------------------------

#[repr(C, align(64))]
#[derive(Clone)]
struct Columns {
    len: usize,
    packet: [u32; SIZE + SLACK],
    rx: [u32; SIZE + SLACK],
    target: [u32; SIZE + SLACK],
    flags: [u32; SIZE + SLACK],
    l2: [u16; SIZE + SLACK],
    l3: [u16; SIZE + SLACK],
    length: [u16; SIZE + SLACK],
    edge: [u16; SIZE + SLACK],
}

impl Columns {
    const EMPTY: Columns = Columns {
        len: 0,
        packet: [0; SIZE + SLACK],
        rx: [0; SIZE + SLACK],
        target: [0; SIZE + SLACK],
        flags: [0; SIZE + SLACK],
        l2: [0; SIZE + SLACK],
        l3: [0; SIZE + SLACK],
        length: [0; SIZE + SLACK],
        edge: [0; SIZE + SLACK],
    };

    fn rewrite(&mut self) -> u64 {
        let n = self.len;
        for i in 0..n {
            let begin = self.l3[i].wrapping_sub(14);
            self.length[i] = self.length[i].wrapping_add(self.l2[i]).wrapping_sub(begin);
            self.l2[i] = begin;
        }
        self.length[..n].iter().map(|&length| length as u32).sum::<u32>() as u64
    }
}

struct ColumnLayout {
    main: Box<Columns>,
    parts: Vec<Columns>,
    pool: usize,
    simd: bool,
}

fn mask_of(edges: &[u16; SIZE], edge: u16) -> [u64; SIZE / 64] {
    std::array::from_fn(|word| {
        let mut bits = 0;
        for (i, &e) in edges[word * 64..word * 64 + 64].iter().enumerate() {
            bits |= ((e == edge) as u64) << i;
        }
        bits
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
fn mask_of_avx512(edges: &[u16; SIZE], edge: u16) -> [u64; SIZE / 64] {
    use std::arch::x86_64::*;
    let wanted = _mm512_set1_epi16(edge as i16);
    std::array::from_fn(|word| {
        // SAFETY: 64 entries are there to load.
        let half = |at: usize| unsafe { _mm512_loadu_si512(edges.as_ptr().add(word * 64 + at).cast()) };
        let low = _mm512_cmpeq_epi16_mask(half(0), wanted) as u64;
        low | (_mm512_cmpeq_epi16_mask(half(32), wanted) as u64) << 32
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2")]
fn compress(from: &Columns, mask: &[u64; SIZE / 64], to: &mut Columns) {
    use std::arch::x86_64::*;
    let wide = |from: &[u32; SIZE + SLACK], to: &mut [u32; SIZE + SLACK]| {
        let mut out = 0;
        for block in 0..SIZE / 16 {
            let lanes = (mask[block / 4] >> (block % 4 * 16)) as u16;
            if lanes != 0 {
                // SAFETY: 16 entries are there to load, and SLACK to store beyond the last.
                unsafe {
                    let value = _mm512_loadu_si512(from.as_ptr().add(block * 16).cast());
                    _mm512_storeu_si512(to.as_mut_ptr().add(out).cast(), _mm512_maskz_compress_epi32(lanes, value));
                }
                out += lanes.count_ones() as usize;
            }
        }
        out
    };
    to.len = wide(&from.packet, &mut to.packet);
    wide(&from.rx, &mut to.rx);
    wide(&from.target, &mut to.target);
    wide(&from.flags, &mut to.flags);
    let narrow = |from: &[u16; SIZE + SLACK], to: &mut [u16; SIZE + SLACK]| {
        let mut out = 0;
        for block in 0..SIZE / 32 {
            let lanes = (mask[block / 2] >> (block % 2 * 32)) as u32;
            if lanes != 0 {
                // SAFETY: as above with 32 entries.
                unsafe {
                    let value = _mm512_loadu_si512(from.as_ptr().add(block * 32).cast());
                    _mm512_storeu_si512(to.as_mut_ptr().add(out).cast(), _mm512_maskz_compress_epi16(lanes, value));
                }
                out += lanes.count_ones() as usize;
            }
        }
    };
    narrow(&from.l2, &mut to.l2);
    narrow(&from.l3, &mut to.l3);
    narrow(&from.length, &mut to.length);
}

fn copy_one_by_one(from: &Columns, mask: &[u64; SIZE / 64], to: &mut Columns) {
    let mut n = 0;
    for (word, &bits) in mask.iter().enumerate() {
        let mut bits = bits;
        while bits != 0 {
            let i = word * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            to.packet[n] = from.packet[i];
            to.rx[n] = from.rx[i];
            to.target[n] = from.target[i];
            to.flags[n] = from.flags[i];
            to.l2[n] = from.l2[i];
            to.l3[n] = from.l3[i];
            to.length[n] = from.length[i];
            n += 1;
        }
    }
    to.len = n;
}

impl ColumnLayout {
    fn with_simd(pool: usize, simd: bool) -> ColumnLayout {
        ColumnLayout { main: Box::new(Columns::EMPTY), parts: vec![Columns::EMPTY; WAYS], pool, simd }
    }
}

impl Layout for ColumnLayout {
    fn new(pool: usize) -> ColumnLayout {
        ColumnLayout::with_simd(pool, std::is_x86_feature_detected!("avx512vbmi2"))
    }

    fn run(&mut self, table: &[u32], first: usize) -> u64 {
        let v = &mut *self.main;
        v.len = SIZE;
        for i in 0..SIZE {
            v.packet[i] = ((first + i) % self.pool) as u32;
        }
        v.rx[..SIZE].fill(1);
        v.l2[..SIZE].fill(256);
        v.length[..SIZE].fill(60);
        for i in 0..SIZE {
            v.l3[i] = v.l2[i] + 14;
            v.flags[i] = (v.length[i] < 34) as u32;
            v.target[i] = i as u32;
        }
        for i in 0..SIZE {
            let leaf = table[v.target[i] as usize & 0xffff];
            v.target[i] = leaf;
            v.edge[i] = (leaf >> 28) as u16;
        }
        let edges: &[u16; SIZE] = v.edge[..SIZE].try_into().expect("as long");
        if edges.iter().fold(true, |same, e| same & (*e == edges[0])) {
            return v.rewrite();
        }
        let mut sum = 0;
        for way in 0..WAYS {
            #[cfg(target_arch = "x86_64")]
            let mask = match self.simd {
                // SAFETY: detected by `new`.
                true => unsafe { mask_of_avx512(edges, way as u16) },
                false => mask_of(edges, way as u16),
            };
            #[cfg(not(target_arch = "x86_64"))]
            let mask = mask_of(edges, way as u16);
            if mask == [0; SIZE / 64] {
                continue;
            }
            let part = &mut self.parts[way];
            if self.simd {
                // SAFETY: detected by `new`.
                #[cfg(target_arch = "x86_64")]
                unsafe {
                    compress(v, &mask, part)
                };
            } else {
                copy_one_by_one(v, &mask, part);
            }
            sum += part.rewrite();
        }
        sum
    }
}

struct ScalarColumns(ColumnLayout);
impl Layout for ScalarColumns {
    fn new(pool: usize) -> ScalarColumns {
        ScalarColumns(ColumnLayout::with_simd(pool, false))
    }
    fn run(&mut self, table: &[u32], first: usize) -> u64 {
        self.0.run(table, first)
    }
}

// --- rows beside the vector ---------------------------------------------------------

#[repr(C, align(32))]
#[derive(Clone, Copy, Default)]
struct Row {
    packet: u32,
    rx: u32,
    target: u32,
    flags: u32,
    l2: u16,
    l3: u16,
    length: u16,
    edge: u16,
}

fn rewrite_rows(rows: &mut [Row]) -> u64 {
    let mut sum = 0;
    for row in rows {
        let begin = row.l3.wrapping_sub(14);
        row.length = row.length.wrapping_add(row.l2).wrapping_sub(begin);
        row.l2 = begin;
        sum += row.length as u64;
    }
    sum
}

struct RowLayout {
    main: Box<[Row; SIZE]>,
    parts: Vec<[Row; SIZE]>,
    pool: usize,
}

impl Layout for RowLayout {
    fn new(pool: usize) -> RowLayout {
        RowLayout { main: Box::new([Row::default(); SIZE]), parts: vec![[Row::default(); SIZE]; WAYS], pool }
    }

    fn run(&mut self, table: &[u32], first: usize) -> u64 {
        let v = &mut *self.main;
        for (i, row) in v.iter_mut().enumerate() {
            *row =
                Row { packet: ((first + i) % self.pool) as u32, rx: 1, l2: 256, l3: 0, length: 60, ..Row::default() };
        }
        for (i, row) in v.iter_mut().enumerate() {
            row.l3 = row.l2 + 14;
            row.flags = (row.length < 34) as u32;
            row.target = i as u32;
        }
        for row in v.iter_mut() {
            let leaf = table[row.target as usize & 0xffff];
            row.target = leaf;
            row.edge = (leaf >> 28) as u16;
        }
        let way = v[0].edge;
        if v.iter().fold(true, |same, row| same & (row.edge == way)) {
            return rewrite_rows(v);
        }
        let mut counts = [0usize; WAYS];
        for row in v.iter() {
            let way = row.edge as usize % WAYS;
            self.parts[way][counts[way] % SIZE] = *row;
            counts[way] += 1;
        }
        (0..WAYS).map(|way| rewrite_rows(&mut self.parts[way][..counts[way].min(SIZE)])).sum()
    }
}

// --- rows in the buffers' own headers, the vector holds indices ---------------------

#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
struct Header(Row);

struct HeaderLayout {
    headers: Vec<Header>,
    main: Box<[u32; SIZE]>,
    parts: Vec<[u32; SIZE]>,
}

impl HeaderLayout {
    fn rewrite(headers: &mut [Header], packets: &[u32]) -> u64 {
        let mut sum = 0;
        for &packet in packets {
            sum += rewrite_rows(std::slice::from_mut(&mut headers[packet as usize].0));
        }
        sum
    }
}

impl Layout for HeaderLayout {
    fn new(pool: usize) -> HeaderLayout {
        HeaderLayout { headers: vec![Header::default(); pool], main: Box::new([0; SIZE]), parts: vec![[0; SIZE]; WAYS] }
    }

    fn run(&mut self, table: &[u32], first: usize) -> u64 {
        let HeaderLayout { headers, main, parts } = self;
        for (i, packet) in main.iter_mut().enumerate() {
            *packet = ((first + i) % headers.len()) as u32;
            headers[*packet as usize].0 = Row { rx: 1, l2: 256, length: 60, ..Row::default() };
        }
        for (i, &packet) in main.iter().enumerate() {
            let row = &mut headers[packet as usize].0;
            row.l3 = row.l2 + 14;
            row.flags = (row.length < 34) as u32;
            row.target = i as u32;
        }
        let mut ways = [0u16; SIZE];
        for (way, &packet) in ways.iter_mut().zip(main.iter()) {
            let row = &mut headers[packet as usize].0;
            row.target = table[row.target as usize & 0xffff];
            *way = (row.target >> 28) as u16;
        }
        if ways.iter().fold(true, |same, way| same & (*way == ways[0])) {
            return HeaderLayout::rewrite(headers, &main[..]);
        }
        let mut counts = [0usize; WAYS];
        for (&way, &packet) in ways.iter().zip(main.iter()) {
            let way = way as usize % WAYS;
            parts[way][counts[way] % SIZE] = packet;
            counts[way] += 1;
        }
        (0..WAYS).map(|way| HeaderLayout::rewrite(headers, &parts[way][..counts[way].min(SIZE)])).sum()
    }
}

// --- measuring ----------------------------------------------------------------------

fn measure<L: Layout>(routes: Routes, pool: usize) -> [f64; 3] {
    let table = table(routes);
    let mut layout = L::new(pool);
    let mut windows: Vec<f64> = (0..WINDOWS + 1)
        .map(|_| {
            let start = ticks();
            let mut sum = 0;
            for n in 0..VECTORS {
                // In the small pool the same buffers come back at once, as from a free list.
                let first = if pool > POOLS[0] { n * SIZE } else { 0 };
                sum += layout.run(black_box(&table), black_box(first));
            }
            black_box(sum);
            (ticks() - start) as f64 / (VECTORS * SIZE) as f64
        })
        .skip(1)
        .collect();
    windows.sort_by(f64::total_cmp);
    [windows[0], windows[WINDOWS / 2], windows[WINDOWS - 1]]
}

fn main() {
    for pool in POOLS {
        println!("\n{pool} buffers, vectors of {SIZE}, clocks per packet (min / median / max)");
        println!(
            "{:<20}{:>22}{:>22}{:>22}{:>22}",
            "", "columns, AVX-512", "columns, scalar", "rows", "rows in headers"
        );
        for (name, routes) in ROUTES {
            let show = |[min, median, max]: [f64; 3]| format!("{min:.2} / {median:.2} / {max:.2}");
            println!(
                "{name:<20}{:>22}{:>22}{:>22}{:>22}",
                show(measure::<ColumnLayout>(routes, pool)),
                show(measure::<ScalarColumns>(routes, pool)),
                show(measure::<RowLayout>(routes, pool)),
                show(measure::<HeaderLayout>(routes, pool))
            );
        }
    }
}
