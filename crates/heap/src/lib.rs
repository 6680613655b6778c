//! The heap of the process, and what happens when memory ends
//! ([decision 029](../../../docs/decisions/029-memory-ends.md)).
//!
//! Memory ends where the system sets a limit: `ulimit -v`, `LimitAS=` of systemd, strict overcommit. Rust's collections
//! then end the process. So code that makes something that grows with its input first asks [`has_room`] or
//! [`room_for`], and refuses if there is none. Code that needs little, or that must not fail, such as undoing what was
//! begun, does not ask: a reserve covers it. Only when the reserve is used up, too, does the process end, with a crash
//! report ([`at_the_end`]).

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Address space to give up when memory ends. It is never touched, so it costs no memory.
const RESERVE: usize = 64 << 20;
/// The same, for the crash report.
const LAST_RESERVE: usize = 16 << 20;
/// What must stay free beyond what is asked for.
const SLACK: usize = 16 << 20;
/// Blocks of this size and more are counted: a collection that grows takes a block of twice the size while it still has
/// the old one.
const LARGE: usize = 1 << 20;
/// [`has_room`] asks the system once in this many calls.
const ASKED_EVERY: u32 = 64;
/// Seconds that the crash report may take.
const REPORT_SECONDS: u32 = 10;

/// The allocator of the process: the system's, and a reserve.
pub struct Heap;

/// A piece of address space to give up when memory ends. `start` is null while there is none.
struct Reserve {
    start: AtomicPtr<libc::c_void>,
    size: usize,
}

static FIRST: Reserve = Reserve::new(RESERVE);
static LAST: Reserve = Reserve::new(LAST_RESERVE);
/// Whether this process keeps reserves: a router does, a tool does not.
static IS_KEPT: AtomicBool = AtomicBool::new(false);
/// How many large blocks there are, by the power of two that their size reaches.
static BLOCKS: [AtomicUsize; usize::BITS as usize] = [const { AtomicUsize::new(0) }; usize::BITS as usize];
/// The last request for memory that failed, in bytes.
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

    /// Takes it, if there is room. Returns whether it is there.
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

    /// Gives it up. Returns whether there was one.
    fn give_up(&self) -> bool {
        let start = self.start.swap(ptr::null_mut(), Relaxed);
        if start.is_null() {
            return false;
        }
        unmap(start, self.size);
        true
    }
}

/// Maps new memory, which is not used yet. Null when the system has none.
fn map(size: usize) -> *mut libc::c_void {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the system's choice touches nothing that is there.
    let start = unsafe { libc::mmap(ptr::null_mut(), size, access, kind, -1, 0) };
    if start == libc::MAP_FAILED { ptr::null_mut() } else { start }
}

fn unmap(start: *mut libc::c_void, size: usize) {
    // SAFETY: `start` is from `map` of this size, nothing else refers to it, and nothing was stored there.
    unsafe { libc::munmap(start, size) };
}

/// The power of two under which a block is counted.
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

/// When there is no memory: gives up the reserve and retries, if the reserve is large enough.
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

// SAFETY: all memory comes from the system allocator, which gets the caller's layout; everything else here allocates
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
        // SAFETY: the caller's block and layout are passed on; a block that could not grow stays as it was.
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

/// Makes the process keep reserves from now on: a router calls it at its start. Without room for them it has none.
pub fn keep_reserve() {
    IS_KEPT.store(true, Relaxed);
    FIRST.take();
    LAST.take();
}

/// Whether there is room to go on with something that grows a little with each step. It is cheap: it asks the system
/// only every 64th time, and whenever there was no room before.
pub fn has_room() -> bool {
    let is_due = ASKED.fetch_add(1, Relaxed).is_multiple_of(ASKED_EVERY);
    !(is_due || IS_SHORT.load(Relaxed)) || room_for(0)
}

/// Whether there is room for this many bytes more, and for collections to grow meanwhile: the largest block to twice
/// its size. The reserve does not count as room; if it was given up, it is taken again first.
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

/// Has `last_words` called when the process ends for want of memory, with the bytes that were requested. It may
/// allocate a few megabytes, and has ten seconds.
///
/// # Errors
/// When the system does not accept the handler.
pub fn at_the_end(last_words: fn(usize)) -> std::io::Result<()> {
    LAST_WORDS.get_or_init(|| last_words);
    // SAFETY: all zeros is a value of it: no flags, an empty mask, the default action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = ended as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: `ended` lives as long as the process. It acts only after `abort` was called for want of memory: by code
    // of Rust's that holds no lock of the allocator.
    match unsafe { libc::sigaction(libc::SIGABRT, &action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Called when the process aborts itself; the process ends when this returns.
extern "C" fn ended(_: libc::c_int) {
    let wanted = FAILED.swap(0, Relaxed);
    // The report may lack memory, too, and abort again.
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
