//! Memory that a peer shares with us, and may write to, or take away, at any time.
//!
//! - Nothing in it is trusted: offsets are checked against the region before each access, and each value is read once.
//! - If a peer shortens its file, our next access would end the process with SIGBUS. The signal handler then maps
//!   anonymous memory there ([`Guard`]), so that we go on with zeros until the connection is closed.
#![allow(unsafe_code)]

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, MemfdFlags, SealFlags};
use rustix::mm;
use std::io;
use std::ptr::NonNull;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Most bytes of a region that are mapped: more than a peer has reason to share.
pub const MAX_REGION: u64 = 64 << 30;

/// What 'statfs' returns for files on huge pages.
const HUGETLBFS: u64 = 0x9584_58f6;

/// A mapping of memory that is shared with a peer.
pub struct Region {
    base: NonNull<u8>,
    /// Bytes that may be used, and bytes that are mapped: whole pages.
    length: usize,
    mapped: usize,
    guard: Guard,
}

// SAFETY: a mapping may be used from any thread. Its content is shared with another process anyway, and accessed
// accordingly.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Fresh memory, and the descriptor by which a peer maps it. It is sealed against shortening.
    ///
    /// # Errors
    /// When the system has no memory.
    pub fn create(length: usize) -> io::Result<(Region, OwnedFd)> {
        let file = fs::memfd_create("quiver-memif", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        fs::ftruncate(&file, length as u64)?;
        fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Region::map(file.as_fd(), length as u64)?, file))
    }

    /// Maps a peer's memory.
    ///
    /// # Errors
    /// When the file is shorter than the peer says, or cannot be mapped.
    pub fn map(file: BorrowedFd<'_>, length: u64) -> io::Result<Region> {
        let there = fs::fstat(file)?.st_size;
        if length == 0 || length > MAX_REGION || length > u64::try_from(there).unwrap_or(0) {
            let said = format!("a region of {length} bytes, in a file of {there}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, said));
        }
        let length = length as usize;
        // Huge pages can only be mapped, unmapped and replaced whole.
        let about = fs::fstatfs(file)?;
        let page = if about.f_type as u64 == HUGETLBFS { about.f_bsize as usize } else { 4096 };
        let mapped = length.next_multiple_of(page);
        let access = mm::ProtFlags::READ | mm::ProtFlags::WRITE;
        let flags = mm::MapFlags::SHARED | mm::MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { mm::mmap(std::ptr::null_mut(), mapped, access, flags, file, 0)? };
        let base = NonNull::new(base.cast::<u8>()).expect("mmap gives no null");
        match Guard::over(base, mapped) {
            Some(guard) => Ok(Region { base, length, mapped, guard }),
            None => {
                // SAFETY: the mapping was just made, and no pointer into it exists.
                let _ = unsafe { mm::munmap(base.as_ptr().cast(), mapped) };
                Err(io::Error::new(io::ErrorKind::OutOfMemory, "too many regions of shared memory"))
            }
        }
    }

    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether the peer has shortened the file.
    pub fn is_torn(&self) -> bool {
        self.guard.is_torn()
    }

    /// Where `length` bytes at an offset are, if they are within the region.
    #[inline(always)]
    pub fn place(&self, offset: u64, length: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(length as u64)?;
        if end > self.length as u64 {
            return None;
        }
        // SAFETY: within the mapping, as just checked.
        Some(unsafe { self.base.add(offset as usize) })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.guard.lift();
        // SAFETY: the mapping is ours, and every holder of a pointer into it had a reference to this region, too.
        let _ = unsafe { mm::munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

/// Most regions that are guarded at a time.
const PLACES: usize = 4096;

/// A range of addresses.
struct Place {
    base: AtomicUsize,
    /// 0: the place is free, or not yet ready.
    length: AtomicUsize,
    taken: AtomicBool,
    torn: AtomicBool,
}

static GUARDED: [Place; PLACES] = [const {
    Place {
        base: AtomicUsize::new(0),
        length: AtomicUsize::new(0),
        taken: AtomicBool::new(false),
        torn: AtomicBool::new(false),
    }
}; PLACES];

/// Puts anonymous memory in place of a region whose file was shortened.
struct Guard(usize);

impl Guard {
    /// None: there are too many.
    fn over(base: NonNull<u8>, length: usize) -> Option<Guard> {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(install);
        let at = GUARDED.iter().position(|place| !place.taken.swap(true, Ordering::AcqRel))?;
        let place = &GUARDED[at];
        place.torn.store(false, Ordering::Relaxed);
        place.base.store(base.as_ptr() as usize, Ordering::Relaxed);
        place.length.store(length, Ordering::Release);
        Some(Guard(at))
    }

    fn is_torn(&self) -> bool {
        GUARDED[self.0].torn.load(Ordering::Relaxed)
    }

    fn lift(&self) {
        GUARDED[self.0].length.store(0, Ordering::Release);
        GUARDED[self.0].taken.store(false, Ordering::Release);
    }
}

fn install() {
    // SAFETY: all-zero bytes are a valid `sigaction`, and the handler has the signature that SA_SIGINFO asks for. It
    // does only what signal handlers may: it calls mmap and sigaction, and reads atomics.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_bus_error as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
    }
}

/// Handles SIGBUS: a page of a mapping has no memory behind it any more.
extern "C" fn on_bus_error(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands over a valid siginfo.
    let address = unsafe { (*info).si_addr() } as usize;
    for place in &GUARDED {
        let length = place.length.load(Ordering::Acquire);
        let base = place.base.load(Ordering::Relaxed);
        if length == 0 || address.wrapping_sub(base) >= length {
            continue;
        }
        place.torn.store(true, Ordering::Relaxed);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: exactly the addresses of a mapping of ours, which is guarded until it is unmapped.
        let put = unsafe { libc::mmap(base as *mut libc::c_void, length, access, flags, -1, 0) };
        if put != libc::MAP_FAILED {
            return;
        }
    }
    // Not one of our regions: with the default action back, the access is repeated and ends the process.
    // SAFETY: as in `install`.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_within_their_region() {
        let (region, file) = Region::create(8192).unwrap();
        assert!(region.place(0, 8192).is_some() && region.place(8192, 0).is_some());
        for (offset, length) in [(0, 8193), (8192, 1), (u64::MAX, 1), (u64::MAX, usize::MAX), (8000, 193)] {
            assert!(region.place(offset, length).is_none(), "{offset} {length}");
        }
        // A holder of the file can neither shorten it nor claim that it is longer.
        assert!(fs::ftruncate(&file, 0).is_err());
        for length in [0, 8193, u64::MAX] {
            assert!(Region::map(file.as_fd(), length).is_err(), "{length}");
        }
    }

    #[test]
    fn a_peer_that_takes_its_memory_away_leaves_zeros() {
        let file = fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        fs::ftruncate(&file, 1 << 20).unwrap();
        let region = Region::map(file.as_fd(), 1 << 20).unwrap();
        let place = region.place(1 << 19, 1).unwrap();
        // SAFETY: within the region.
        unsafe { place.write_volatile(7) };
        assert!(!region.is_torn());
        fs::ftruncate(&file, 0).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { place.read_volatile() }, 0);
        assert!(region.is_torn());
        // It can also be written to.
        // SAFETY: as above.
        let back = unsafe {
            place.write_volatile(8);
            place.read_volatile()
        };
        assert_eq!(back, 8);
        drop(region);
    }

    #[test]
    fn a_part_of_a_huge_page_that_nobody_has_or_that_goes_leaves_zeros() {
        const PAGE: u64 = 2 << 20;
        let Ok(file) = fs::memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB) else {
            return eprintln!("skipped: this kernel has no huge pages");
        };
        fs::ftruncate(&file, PAGE).unwrap();
        let region = Region::map(file.as_fd(), PAGE - 4096).unwrap();
        assert!(region.place(0, PAGE as usize - 4096).is_some() && region.place(0, PAGE as usize - 4095).is_none());
        let place = region.place(0, 1).unwrap();
        // SAFETY: within the region. If no huge page is free, the access fails and the handler replaces the region.
        assert_eq!(unsafe { place.read_volatile() }, 0);
        fs::ftruncate(&file, 0).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { place.read_volatile() }, 0);
        assert!(region.is_torn());
    }
}
