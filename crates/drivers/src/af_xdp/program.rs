//! The program on the interface, which hands frames to our sockets.
//!
//! Our own is assembled here by hand. It hands a frame to the socket of the queue that it arrived by; a frame of a
//! queue without a socket goes to the host, and is counted. An operator's program is read from an object file, as
//! compilers make it; its map `xsks_map` holds our sockets.

use super::bpf::{self, Hook, Map, MapSpec};
use crate::OpenError;
use aya_obj::{Object, ProgramSection};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use std::collections::{HashMap, HashSet};
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Most bytes of an object file.
const MAX_FILE: u64 = 16 << 20;
/// The map of sockets.
const SOCKETS: &str = "xsks_map";

/// What `bpf_redirect_map` and programs return for a frame: for the host, or for a socket.
const XDP_PASS: i32 = 2;
const XDP_REDIRECT: i32 = 4;
/// Helpers.
const MAP_LOOKUP_ELEM: i32 = 1;
const REDIRECT_MAP: i32 = 51;
/// Where `struct xdp_md` holds the number of the queue.
const RX_QUEUE_INDEX: i16 = 16;

/// A loaded program.
pub struct Program {
    program: OwnedFd,
    /// Sockets by queue.
    sockets: Map,
    /// Frames without a socket, by queue. None: an operator's program, which does not count them.
    unattended: Option<Map>,
    /// Other maps that it uses.
    _others: Vec<Map>,
    multi_buffer: bool,
}

/// A program attached to an interface.
pub struct Attached {
    program: Program,
    _link: OwnedFd,
}

impl Program {
    /// Our own program, for an interface of this many queues.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn own(queues: u32) -> Result<Program, OpenError> {
        let failed = |error| OpenError::system("making a map for the XDP program", error);
        let sockets = Map::create(sockets_of(queues)).map_err(failed)?;
        let counts = MapSpec { kind: bpf::MAP_ARRAY, key_size: 4, value_size: 8, entries: queues, flags: 0 };
        let unattended = Map::create(counts).map_err(failed)?;
        let code = redirect(sockets.as_fd(), unattended.as_fd());
        let (program, multi_buffer) = load("quiver", &code, "Apache-2.0")?;
        Ok(Program { program, sockets, unattended: Some(unattended), _others: Vec::new(), multi_buffer })
    }

    /// An operator's program, from an object file.
    ///
    /// # Errors
    /// When the file is no object file, has no program for XDP, needs what we do not support, or the kernel refuses.
    pub fn from_file(file: &str, queues: u32) -> Result<Program, OpenError> {
        let refused = |what: &str| OpenError::Refused(format!("XDP program {file}: {what}"));
        let bytes = read(file)?;
        let mut object =
            Object::parse(&bytes).map_err(|error| refused(&format!("no object file with BPF code: {error}")))?;
        let xdp = |(_, program): &(&String, &aya_obj::Program)| matches!(program.section, ProgramSection::Xdp { .. });
        let found: Vec<_> = object.programs.iter().filter(xdp).collect();
        let [(name, program)] = found[..] else {
            return Err(refused(&format!(
                "it has {} programs in sections called 'xdp', and should have one",
                found.len()
            )));
        };
        let (name, key) = (name.clone(), program.function_key());
        let license = program.license.to_string_lossy().into_owned();
        if object.has_btf_relocations() {
            return Err(refused("it asks to be adapted to the kernel's types (CO-RE), which is not done here"));
        }
        let mut maps = maps(file, &object, queues)?;
        let fds: Vec<(String, i32)> = maps.iter().map(|(name, map)| (name.clone(), map.as_fd().as_raw_fd())).collect();
        let definitions = object.maps.clone();
        let sections: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
        let places = fds.iter().map(|(name, fd)| (name.as_str(), *fd, &definitions[name]));
        object.relocate_maps(places, &sections).map_err(|error| refused(&error.to_string()))?;
        object.relocate_calls(&sections).map_err(|error| refused(&error.to_string()))?;
        let function = object.functions.get(&key).ok_or_else(|| refused("its program has no code"))?;
        let code: Vec<u64> = function
            .instructions
            .iter()
            .map(|it| instruction(it.code, it.dst_reg(), it.src_reg(), it.off, it.imm))
            .collect();
        let (program, multi_buffer) = load(&name, &code, &license).map_err(|error| refused(&error.to_string()))?;
        let sockets = maps.remove(SOCKETS).ok_or_else(|| refused(&format!("it has no map '{SOCKETS}'")))?;
        Ok(Program { program, sockets, unattended: None, _others: maps.into_values().collect(), multi_buffer })
    }

    /// Attaches it to the interface.
    ///
    /// # Errors
    /// When the kernel or the driver refuses.
    pub fn attach(self, interface: u32, hook: Hook) -> Result<Attached, (OpenError, Program)> {
        match bpf::attach(self.program.as_fd(), interface, hook) {
            Ok(link) => Ok(Attached { program: self, _link: link }),
            Err(error) => {
                let taken = match error.raw_os_error() {
                    Some(libc::EBUSY | libc::EEXIST) => " (it has one already: 'ip link show' names it)",
                    _ => "",
                };
                Err((OpenError::system(format!("attaching the XDP program{taken}"), error), self))
            }
        }
    }
}

impl Attached {
    /// Makes frames of a queue go to a socket.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn lead(&self, queue: u32, to: BorrowedFd<'_>) -> Result<(), OpenError> {
        let led = self.program.sockets.set(&queue.to_ne_bytes(), &to.as_raw_fd().to_ne_bytes());
        led.map_err(|error| OpenError::system(format!("giving queue {queue} to its socket"), error))
    }

    /// Frames that arrived by queues without a socket, of this many; none: they are not counted.
    pub fn unattended(&self, queues: u32) -> Option<u64> {
        let counts = self.program.unattended.as_ref()?;
        Some((0..queues).map(|queue| counts.number(queue).unwrap_or(0)).sum())
    }

    /// Whether it supports frames in several buffers.
    pub fn is_multi_buffer(&self) -> bool {
        self.program.multi_buffer
    }

    pub fn detach(self) -> Program {
        self.program
    }
}

fn sockets_of(queues: u32) -> MapSpec {
    MapSpec { kind: bpf::MAP_XSKMAP, key_size: 4, value_size: 4, entries: queues, flags: 0 }
}

/// Loads code, if possible as a program for frames in several buffers: kernels before 5.18 do not know those.
fn load(name: &str, code: &[u64], license: &str) -> Result<(OwnedFd, bool), OpenError> {
    let text = |text: &str| std::ffi::CString::new(text.replace('\0', "")).expect("has no zeros");
    let (name, license) = (text(name), text(license));
    match bpf::load(&name, code, &license, true) {
        Ok(program) => Ok((program, true)),
        Err(_) => match bpf::load(&name, code, &license, false) {
            Ok(program) => Ok((program, false)),
            Err((error, log)) => {
                // The last lines say what was wrong.
                let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("processed ")).collect();
                let last = lines.iter().rev().take(3).rev().copied().collect::<Vec<_>>().join("; ");
                let about = if last.is_empty() { String::new() } else { format!(" ({last})") };
                Err(OpenError::system(format!("loading the XDP program{about}"), error))
            }
        },
    }
}

fn read(file: &str) -> Result<Vec<u8>, OpenError> {
    let failed = |error| OpenError::system(format!("reading the XDP program {file}"), error);
    let refused =
        || OpenError::Refused(format!("XDP program {file}: expected a file of at most {} MiB", MAX_FILE >> 20));
    // Without this, opening a pipe that has no writer would block. The file may also grow while it is read.
    let options = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(options).open(Path::new(file)).map_err(failed)?;
    if !opened.metadata().map_err(failed)?.is_file() {
        return Err(refused());
    }
    let mut bytes = Vec::new();
    opened.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE { Err(refused()) } else { Ok(bytes) }
}

/// Makes the maps that an object defines.
fn maps(file: &str, object: &Object, queues: u32) -> Result<HashMap<String, Map>, OpenError> {
    let mut made = HashMap::new();
    for (name, definition) in &object.maps {
        let spec = MapSpec {
            kind: definition.map_type(),
            key_size: definition.key_size(),
            value_size: definition.value_size(),
            entries: definition.max_entries(),
            flags: definition.map_flags(),
        };
        let spec = match (name.as_str(), spec.kind) {
            (SOCKETS, bpf::MAP_XSKMAP) => sockets_of(queues.max(spec.entries)),
            (SOCKETS, _) => {
                return Err(OpenError::Refused(format!("XDP program {file}: its map '{SOCKETS}' is no XSKMAP")));
            }
            _ => spec,
        };
        let failed = |error| OpenError::system(format!("making map '{name}' of the XDP program {file}"), error);
        let map = Map::create(spec).map_err(failed)?;
        // Variables with initial values.
        let data = definition.data();
        if !data.is_empty() && data.len() == spec.value_size as usize && spec.key_size == 4 {
            map.set(&0u32.to_ne_bytes(), data).map_err(failed)?;
        }
        made.insert(name.clone(), map);
    }
    Ok(made)
}

/// `struct bpf_insn`.
fn instruction(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> u64 {
    let registers = to & 0xf | from << 4;
    let [offset_low, offset_high] = offset.to_ne_bytes();
    let [a, b, c, d] = immediate.to_ne_bytes();
    u64::from_ne_bytes([code, registers, offset_low, offset_high, a, b, c, d])
}

/// Our program.
fn redirect(sockets: BorrowedFd<'_>, unattended: BorrowedFd<'_>) -> Vec<u64> {
    const LOAD_WORD: u8 = 0x61;
    const STORE_WORD: u8 = 0x63;
    const LOAD_IMMEDIATE: u8 = 0x18;
    const MOVE: u8 = 0xb7;
    const MOVE_REGISTER: u8 = 0xbf;
    const ADD: u8 = 0x07;
    const ATOMIC_LONG: u8 = 0xdb;
    const JUMP_IF_EQUAL: u8 = 0x15;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    /// The immediate is a map's descriptor.
    const MAP_FD: u8 = 1;
    /// The register that points to the program's stack frame.
    const STACK: u8 = 10;
    let map = |map: BorrowedFd<'_>| instruction(LOAD_IMMEDIATE, 1, MAP_FD, 0, map.as_raw_fd());
    vec![
        // Redirect to the queue's socket; without one, pass to the host.
        instruction(LOAD_WORD, 2, 1, RX_QUEUE_INDEX, 0),
        instruction(STORE_WORD, STACK, 2, -4, 0),
        map(sockets),
        0,
        instruction(MOVE, 3, 0, 0, XDP_PASS),
        instruction(CALL, 0, 0, 0, REDIRECT_MAP),
        instruction(JUMP_IF_EQUAL, 0, 0, 9, XDP_REDIRECT),
        // Count the frame.
        instruction(MOVE_REGISTER, 2, STACK, 0, 0),
        instruction(ADD, 2, 0, 0, -4),
        map(unattended),
        0,
        instruction(CALL, 0, 0, 0, MAP_LOOKUP_ELEM),
        instruction(JUMP_IF_EQUAL, 0, 0, 2, 0),
        instruction(MOVE, 1, 0, 0, 1),
        instruction(ATOMIC_LONG, 0, 1, 0, 0),
        instruction(MOVE, 0, 0, 0, XDP_PASS),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}
