//! The heap of the process, and what happens when memory ends
//! ([decision 029](../../../docs/decisions/029-memory-ends.md)).
//!
//! Memory ends where the system sets a limit: `ulimit -v`, `LimitAS=` of systemd, strict overcommit. Rust's
//! collections end the process then. So whoever makes something that grows with its input asks [`has_room`] or
//! [`room_for`] before, and refuses. What is small, or must not fail, such as taking back what was begun, is not
//! asked for: a reserve stands in for it. Only when that is used up, too, the process ends, and says so in a crash
//! report ([`at_the_end`]).

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Address space that stands in when memory ends. Nothing of it is touched: it costs no memory.
const RESERVE: usize = 64 << 20;
/// The same for the report on the end.
const LAST_RESERVE: usize = 16 << 20;
/// What has to be free besides.
const SLACK: usize = 16 << 20;
/// Blocks from this size on are counted: a collection that grows takes one of twice the size, while it has the first.
const LARGE: usize = 1 << 20;
/// The system is asked every so many times.
const ASKED_EVERY: u32 = 64;
/// Seconds that the report on the end may take.
const REPORT_SECONDS: u32 = 10;

/// The allocator of the process: the system's, and a reserve.
pub struct Heap;

/// A piece of address space that is given up when there is no other; null while there is none.
struct Reserve {
    start: AtomicPtr<libc::c_void>,
    size: usize,
}

static FIRST: Reserve = Reserve::new(RESERVE);
static LAST: Reserve = Reserve::new(LAST_RESERVE);
/// Whether there are reserves at all: a tool has none.
static IS_KEPT: AtomicBool = AtomicBool::new(false);
/// Large blocks by the power of two that their size reaches.
static BLOCKS: [AtomicUsize; usize::BITS as usize] = [const { AtomicUsize::new(0) }; usize::BITS as usize];
/// What the last request for memory was that failed, in bytes.
static FAILED: AtomicUsize = AtomicUsize::new(0);
static IS_SHORT: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicU32 = AtomicU32::new(0);
static HAS_ENDED: AtomicBool = AtomicBool::new(false);
static LAST_WORDS: OnceLock<fn(usize)> = OnceLock::new();

impl Reserve {
    const fn new(size: usize) -> Reserve {
        Reserve { start: AtomicPtr::new(ptr::null_mut()), size }
    }

    fn is_there(&self) -> bool {
        !self.start.load(Relaxed).is_null()
    }

    /// Takes it, where there is room; says whether it is there.
    fn take(&self) -> bool {
        if self.is_there() {
            return true;
        }
        let start = map(self.size);
        if start.is_null() {
            return false;
        }
        if self.start.compare_exchange(ptr::null_mut(), start, Relaxed, Relaxed).is_err() {
            // Another thread was first.
            unmap(start, self.size);
        }
        true
    }

    /// Gives it up; says whether there was one.
    fn give_up(&self) -> bool {
        let start = self.start.swap(ptr::null_mut(), Relaxed);
        if start.is_null() {
            return false;
        }
        unmap(start, self.size);
        true
    }
}

/// New memory that is promised, not used; null when the system has none.
fn map(size: usize) -> *mut libc::c_void {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the system's choice touches nothing that is there.
    let start = unsafe { libc::mmap(ptr::null_mut(), size, access, kind, -1, 0) };
    if start == libc::MAP_FAILED { ptr::null_mut() } else { start }
}

fn unmap(start: *mut libc::c_void, size: usize) {
    // SAFETY: `start` is from `map` of this size, nobody else knows it, and nothing was put there.
    unsafe { libc::munmap(start, size) };
}

/// By what power of two a block is counted.
fn class(size: usize) -> usize {
    size.ilog2() as usize
}

fn counted(size: usize) {
    if size >= LARGE {
        BLOCKS[class(size)].fetch_add(1, Relaxed);
    }
}

fn uncounted(size: usize) {
    if size >= LARGE {
        BLOCKS[class(size)].fetch_sub(1, Relaxed);
    }
}

/// When there is no memory: tries again without the reserve, if that is enough.
#[cold]
fn without_reserve(size: usize, again: impl Fn() -> *mut u8) -> *mut u8 {
    if size <= RESERVE && FIRST.give_up() {
        IS_SHORT.store(true, Relaxed);
        let block = again();
        if !block.is_null() {
            return block;
        }
    }
    FAILED.store(size, Relaxed);
    ptr::null_mut()
}

// SAFETY: all memory is the system allocator's, which is asked with the caller's layout; what is done besides allocates
// nothing and does not unwind.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout is passed on.
        let new = || unsafe { System.alloc(layout) };
        let mut block = new();
        if block.is_null() {
            block = without_reserve(layout.size(), new);
        }
        if !block.is_null() {
            counted(layout.size());
        }
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout is passed on.
        let new = || unsafe { System.alloc_zeroed(layout) };
        let mut block = new();
        if block.is_null() {
            block = without_reserve(layout.size(), new);
        }
        if !block.is_null() {
            counted(layout.size());
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, before: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's block and layout are passed on; a block that could not grow is as it was.
        let new = || unsafe { System.realloc(before, layout, size) };
        let mut block = new();
        if block.is_null() {
            block = without_reserve(size, new);
        }
        if !block.is_null() {
            uncounted(layout.size());
            counted(size);
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        uncounted(layout.size());
        // SAFETY: the caller's block and layout are passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Has the process keep reserves from now on: for the start of a router. Where there is no room for them, it has none.
pub fn keep_reserve() {
    IS_KEPT.store(true, Relaxed);
    FIRST.take();
    LAST.take();
}

/// Whether there is room to go on with something that grows a little with each step. It is cheap: the system is asked
/// every 64th time only, and whenever there was none before.
pub fn has_room() -> bool {
    let is_due = ASKED.fetch_add(1, Relaxed).is_multiple_of(ASKED_EVERY);
    !(is_due || IS_SHORT.load(Relaxed)) || room_for(0)
}

/// Whether there is room for so many bytes more, and for whatever is there to grow meanwhile: the largest block to
/// twice its size. The reserve is not counted, and taken again where it was given up.
pub fn room_for(bytes: usize) -> bool {
    let largest = (0..BLOCKS.len()).rev().find(|class| BLOCKS[*class].load(Relaxed) > 0);
    // Blocks of a class are smaller than twice its power of two.
    let growth = largest.map_or(0, |class| 1usize << (class + 2).min(usize::BITS as usize - 2));
    let has_reserve = !IS_KEPT.load(Relaxed) || LAST.take() & FIRST.take();
    let is_there = has_reserve && is_free(bytes.saturating_add(growth).saturating_add(SLACK));
    IS_SHORT.store(!is_there, Relaxed);
    is_there
}

fn is_free(size: usize) -> bool {
    let start = map(size);
    if start.is_null() {
        return false;
    }
    unmap(start, size);
    true
}

/// Has `last_words` called when the process ends for want of memory, with the bytes that were wanted. It may allocate a
/// few megabytes, and has ten seconds.
///
/// # Errors
/// When the system does not take the handler.
pub fn at_the_end(last_words: fn(usize)) -> std::io::Result<()> {
    LAST_WORDS.get_or_init(|| last_words);
    // SAFETY: all zeros is a value of it: no flags, an empty mask, the default action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = ended as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: `ended` lives as long as the process, and does nothing but where `abort` was called for want of memory:
    // in code of Rust's that holds no lock of the allocator.
    match unsafe { libc::sigaction(libc::SIGABRT, &action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// The process is being ended by itself; when this returns, it is over.
extern "C" fn ended(_: libc::c_int) {
    let wanted = FAILED.swap(0, Relaxed);
    // There may be too little memory for the report, too.
    if HAS_ENDED.swap(true, Relaxed) {
        return;
    }
    let Some(last_words) = LAST_WORDS.get().filter(|_| wanted > 0) else { return };
    // SAFETY: neither call touches memory of ours. Should the report hang, the alarm ends the process.
    unsafe {
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::alarm(REPORT_SECONDS);
    }
    LAST.give_up();
    last_words(wanted);
}
