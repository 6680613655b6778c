//! Words and blocks to a typed configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;

use command::nearest;

use super::tree::{Block, Complaint, Node, NodeKind, Place};
use super::{CLI_SOCKET, LogLevel, MAXIMUM_CORES, PageSize, StartupConfig};

/// Sections that this program reads.
const SECTIONS: [&str; 4] = ["unix", "cpu", "buffers", "logging"];

/// Sections of VPP that have no effect here so far.
const LACKING_SECTIONS: [&str; 36] = [
    "acl-plugin",
    "api-queue",
    "api-segment",
    "api-trace",
    "cj",
    "crypto",
    "dns",
    "dpdk",
    "dsa",
    "heapsize",
    "http",
    "ip",
    "ip6",
    "ipsec",
    "l2fib",
    "l2learn",
    "l2tp",
    "linux-cp",
    "linux-nl",
    "mactime",
    "map",
    "memory",
    "nat",
    "oam",
    "physmem",
    "plugin_path",
    "plugins",
    "punt",
    "session",
    "socksvr",
    "statseg",
    "tapcli",
    "tcp",
    "tls",
    "tuntap",
    "vhost-user",
];

/// Fewest and most packet buffers per NUMA node: a few vectors, and 32-bit indices.
const BUFFERS_PER_NUMA: (u64, u64) = (1024, 1 << 24);
/// Least and most bytes of a buffer's data: a small frame, and an offset of 16 bits.
const DATA_SIZE: (u64, u64) = (256, 65_024);

/// How a key is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Flag,
    Value,
    /// The key of VPP has no effect here: how much of the file belongs to it.
    LackingFlag,
    LackingValue,
    /// A word and a block, such as `class NAME { ... }`.
    LackingBlock,
}

type Keys = [(&'static str, Shape)];

const UNIX_KEYS: [(&str, Shape); 20] = [
    ("nodaemon", Shape::Flag),
    ("interactive", Shape::Flag),
    ("exec", Shape::Value),
    ("startup-config", Shape::Value),
    ("log", Shape::Value),
    ("cli-listen", Shape::Value),
    ("runtime-dir", Shape::Value),
    ("gid", Shape::Value),
    ("full-coredump", Shape::LackingFlag),
    ("coredump-size", Shape::LackingValue),
    ("pidfile", Shape::LackingValue),
    ("nobanner", Shape::LackingFlag),
    ("nocolor", Shape::LackingFlag),
    ("nosyslog", Shape::LackingFlag),
    ("cli-line-mode", Shape::LackingFlag),
    ("cli-no-banner", Shape::LackingFlag),
    ("cli-no-pager", Shape::LackingFlag),
    ("cli-prompt", Shape::LackingValue),
    ("cli-history-limit", Shape::LackingValue),
    ("poll-sleep-usec", Shape::LackingValue),
];

const CPU_KEYS: [(&str, Shape); 8] = [
    ("main-core", Shape::Value),
    ("workers", Shape::Value),
    ("corelist-workers", Shape::Value),
    ("skip-cores", Shape::Value),
    ("relative", Shape::LackingFlag),
    ("scheduler-policy", Shape::LackingValue),
    ("scheduler-priority", Shape::LackingValue),
    ("thread-prefix", Shape::LackingValue),
];

const BUFFERS_KEYS: [(&str, Shape); 3] =
    [("buffers-per-numa", Shape::Value), ("default data-size", Shape::Value), ("page-size", Shape::Value)];

const LOGGING_KEYS: [(&str, Shape); 6] = [
    ("default-log-level", Shape::Value),
    ("default-syslog-log-level", Shape::LackingValue),
    ("size", Shape::LackingValue),
    ("nthrottle-time", Shape::LackingValue),
    ("unthrottle-time", Shape::LackingValue),
    ("class", Shape::LackingBlock),
];

const LOG_LEVELS: [(&str, LogLevel); 12] = [
    ("disabled", LogLevel::Disabled),
    ("emerg", LogLevel::Emergency),
    ("alert", LogLevel::Alert),
    ("crit", LogLevel::Critical),
    ("err", LogLevel::Error),
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warning),
    ("warning", LogLevel::Warning),
    ("notice", LogLevel::Notice),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Debug),
];

const PAGE_SIZES: [(&str, PageSize); 6] = [
    ("default", PageSize::Default),
    ("default-hugepage", PageSize::Default),
    ("4k", PageSize::Size4K),
    ("2m", PageSize::Size2M),
    ("1g", PageSize::Size1G),
    ("1024m", PageSize::Size1G),
];

/// Words of one block, taken one after the other.
struct Cursor<'a> {
    nodes: std::slice::Iter<'a, Node<'a>>,
    end: Place,
}

impl<'a> Cursor<'a> {
    fn new(block: &'a Block<'a>) -> Self {
        Self { nodes: block.nodes.iter(), end: block.end }
    }

    /// The next word, which names something; `None` at the end of the block.
    fn name(&mut self) -> Result<Option<(&'a str, Place)>, Complaint> {
        match self.nodes.next() {
            None => Ok(None),
            Some(Node { place, kind: NodeKind::Word(word) }) => Ok(Some((word, *place))),
            Some(Node { place, .. }) => Err(Complaint::new(*place, "'{' without a name before it")),
        }
    }

    /// The next word if it is `wanted`.
    fn take(&mut self, wanted: &str) -> bool {
        let found = matches!(
            self.nodes.as_slice().first(),
            Some(Node { kind: NodeKind::Word(word), .. }) if *word == wanted
        );
        if found {
            self.nodes.next();
        }
        found
    }

    /// The word that has to follow `key`.
    fn value(&mut self, key: &str) -> Result<Value<'a>, Complaint> {
        let missing = |place| Complaint::new(place, format!("'{key}' needs a value"));
        match self.nodes.next() {
            None => Err(missing(self.end)),
            Some(Node { place, kind: NodeKind::Word(text) }) => Ok(Value { key: key.to_string(), text, place: *place }),
            Some(Node { place, .. }) => Err(missing(*place)),
        }
    }

    /// The block that has to follow `name`.
    fn block(&mut self, name: &str) -> Result<&'a Block<'a>, Complaint> {
        let (place, found) = match self.nodes.next() {
            Some(Node { kind: NodeKind::Block(block), .. }) => return Ok(block),
            Some(Node { place, kind: NodeKind::Word(word) }) => (*place, format!("found '{word}'")),
            None => (self.end, "found the end".into()),
        };
        let message = format!("expected '{{' after '{name}', {found}");
        Err(Complaint::new(place, message))
    }

    /// Passes over what belongs to a name that has no effect: one word, one block or both.
    fn skip(&mut self, word: bool, block: bool) {
        let next_is = |nodes: &std::slice::Iter<'_, Node<'_>>, wanted_block: bool| {
            nodes.as_slice().first().is_some_and(|node| matches!(node.kind, NodeKind::Block(_)) == wanted_block)
        };
        if word && next_is(&self.nodes, false) {
            self.nodes.next();
        }
        if block && next_is(&self.nodes, true) {
            self.nodes.next();
        }
    }
}

/// A key's value, with what is needed to complain about it.
#[derive(Clone)]
struct Value<'a> {
    key: String,
    text: &'a str,
    place: Place,
}

impl Value<'_> {
    fn complain(&self, expected: &str) -> Complaint {
        let message = format!("'{}' is no value for '{}': expected {expected}", self.text, self.key);
        Complaint::new(self.place, message)
    }

    /// A decimal number, with a unit of 1024 if need be: `16k`, `2M`, `1G`.
    fn number(&self, least: u64, most: u64) -> Result<u32, Complaint> {
        let expected = || self.complain(&format!("a number {least}..{most}"));
        let (digits, shift) = match self.text.char_indices().next_back() {
            Some((at, 'k' | 'K')) => (&self.text[..at], 10),
            Some((at, 'm' | 'M')) => (&self.text[..at], 20),
            Some((at, 'g' | 'G')) => (&self.text[..at], 30),
            _ => (self.text, 0),
        };
        let decimal = digits.bytes().all(|byte| byte.is_ascii_digit());
        decimal
            .then(|| digits.parse::<u64>().ok()?.checked_mul(1 << shift))
            .flatten()
            .filter(|number| (least..=most).contains(number))
            .and_then(|number| u32::try_from(number).ok())
            .ok_or_else(expected)
    }

    fn core(&self) -> Result<u32, Complaint> {
        self.number(0, u64::from(MAXIMUM_CORES) - 1)
    }

    /// `1-3,5` as 1, 2, 3, 5: ascending, each core once.
    fn cores(&self) -> Result<Vec<u32>, Complaint> {
        let mut cores = Vec::new();
        for part in self.text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let core = |text| Value { text, ..self.clone() }.core();
            let listed = || self.complain(&format!("cores below {MAXIMUM_CORES} and ranges of them, like 1-3,5"));
            let (first, last) = core(first).and_then(|first| Ok((first, core(last)?))).map_err(|_| listed())?;
            if first > last {
                return Err(listed());
            }
            for core in first..=last {
                if cores.contains(&core) {
                    return Err(self.complain(&format!("each core once, {core} is there twice")));
                }
                cores.push(core);
            }
        }
        cores.sort_unstable();
        Ok(cores)
    }

    fn one_of<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, Complaint> {
        let text = self.text.to_ascii_lowercase();
        let chosen = choices.iter().find(|(name, _)| *name == text);
        chosen.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            self.complain(&format!("one of {}", names.join(", ")))
        })
    }
}

/// Interprets a whole file.
pub(crate) fn interpret(file: &Block<'_>) -> Result<StartupConfig, Complaint> {
    let mut reading = Reading::default();
    let mut cursor = Cursor::new(file);
    while let Some((name, place)) = cursor.name()? {
        match name {
            "unix" => reading.section(name, cursor.block(name)?, &UNIX_KEYS)?,
            "cpu" => reading.section(name, cursor.block(name)?, &CPU_KEYS)?,
            "buffers" => reading.section(name, cursor.block(name)?, &BUFFERS_KEYS)?,
            "logging" => reading.section(name, cursor.block(name)?, &LOGGING_KEYS)?,
            "heapsize" | "plugin_path" => {
                cursor.skip(true, false);
                reading.warn_of_section(name);
            }
            _ if LACKING_SECTIONS.contains(&name) => {
                cursor.skip(false, true);
                reading.warn_of_section(name);
            }
            _ => {
                let known = SECTIONS.into_iter().chain(LACKING_SECTIONS);
                let meant = did_you_mean(name, known);
                let message = format!("unknown section '{name}' (known: {}{meant})", SECTIONS.join(", "));
                return Err(Complaint::new(place, message));
            }
        }
    }
    reading.finish()
}

fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest::likely(word, known).map_or(String::new(), |name| format!("; did you mean '{name}'?"))
}

/// What has been read so far.
#[derive(Default)]
struct Reading {
    config: StartupConfig,
    /// Where each key of each section was given.
    given: BTreeMap<(String, String), Place>,
    cli_listen_given: bool,
    /// `workers N`, and where.
    workers: Option<(u32, Place)>,
    corelist: Option<Place>,
}

impl Reading {
    fn warn_of_section(&mut self, name: &str) {
        self.config.warnings.push(match name {
            "dpdk" => "section dpdk: no DPDK driver in this build, ignored".into(),
            _ => format!("section {name}: not supported so far, ignored"),
        });
    }

    fn section(&mut self, section: &str, block: &Block<'_>, keys: &Keys) -> Result<(), Complaint> {
        let mut cursor = Cursor::new(block);
        while let Some((word, place)) = cursor.name()? {
            // The one key of two words.
            let key = match word {
                "default" if section == "buffers" && cursor.take("data-size") => "default data-size",
                _ => word,
            };
            let Some((_, shape)) = keys.iter().find(|(name, _)| *name == key) else {
                return Err(unknown_key(section, key, place, keys));
            };
            self.note_given(section, key, *shape, place)?;
            match shape {
                Shape::Flag => self.flag(key),
                Shape::Value => self.value(&cursor.value(key)?)?,
                Shape::LackingFlag => self.warn_of_key(section, key),
                Shape::LackingValue => {
                    cursor.value(key)?;
                    self.warn_of_key(section, key);
                }
                Shape::LackingBlock => {
                    cursor.skip(true, true);
                    self.warn_of_key(section, key);
                }
            }
        }
        Ok(())
    }

    fn warn_of_key(&mut self, section: &str, key: &str) {
        self.config.warnings.push(format!("section {section}: {key} is not supported so far, ignored"));
    }

    /// A key given twice is a mistake, except where a key names one of many.
    fn note_given(&mut self, section: &str, key: &str, shape: Shape, place: Place) -> Result<(), Complaint> {
        // The two names of one setting.
        let setting = match key {
            "startup-config" => "exec",
            _ => key,
        };
        let entry = (section.to_string(), setting.to_string());
        match self.given.insert(entry, place) {
            Some(first) if shape != Shape::LackingBlock => Err(Complaint::new(
                place,
                format!("key '{key}' is given twice in section '{section}' (first at {}:{})", first.line, first.column),
            )),
            _ => Ok(()),
        }
    }

    fn flag(&mut self, key: &str) {
        match key {
            "nodaemon" => self.config.unix.nodaemon = true,
            "interactive" => self.config.unix.interactive = true,
            _ => unreachable!("key {key} is listed as a flag"),
        }
    }

    fn value(&mut self, value: &Value<'_>) -> Result<(), Complaint> {
        let StartupConfig { unix, cpu, buffers, logging, .. } = &mut self.config;
        let path = || PathBuf::from(value.text);
        match value.key.as_str() {
            "exec" | "startup-config" => unix.exec = Some(path()),
            "log" => unix.log = Some(path()),
            "runtime-dir" => unix.runtime_dir = path(),
            "gid" => unix.gid = Some(value.text.to_string()),
            "cli-listen" => {
                if !value.text.contains('/') {
                    return Err(value.complain("the path of a Unix socket, like /run/quiver/cli.sock"));
                }
                unix.cli_listen = path();
                self.cli_listen_given = true;
            }
            "main-core" => cpu.main_core = Some(value.core()?),
            "skip-cores" => cpu.skip_cores = value.core()?,
            "workers" => self.workers = Some((value.core()?, value.place)),
            "corelist-workers" => {
                cpu.corelist_workers = value.cores()?;
                self.corelist = Some(value.place);
            }
            "buffers-per-numa" => {
                buffers.buffers_per_numa = value.number(BUFFERS_PER_NUMA.0, BUFFERS_PER_NUMA.1)?;
            }
            "default data-size" => {
                buffers.default_data_size = value.number(DATA_SIZE.0, DATA_SIZE.1)?;
            }
            "page-size" => buffers.page_size = value.one_of(&PAGE_SIZES)?,
            "default-log-level" => logging.default_log_level = value.one_of(&LOG_LEVELS)?,
            key => unreachable!("key {key} is listed as having a value"),
        }
        Ok(())
    }

    /// Checks what spans keys, and fills in what depends on others.
    fn finish(mut self) -> Result<StartupConfig, Complaint> {
        let unix = &mut self.config.unix;
        if !self.cli_listen_given {
            unix.cli_listen = unix.runtime_dir.join(CLI_SOCKET);
        }
        let cpu = &mut self.config.cpu;
        let listed = u32::try_from(cpu.corelist_workers.len()).unwrap_or(MAXIMUM_CORES);
        cpu.workers = match (self.workers, self.corelist) {
            (Some((workers, place)), Some(_)) if workers != listed => {
                let message = format!("{workers} workers, but 'corelist-workers' lists {listed} cores");
                return Err(Complaint::new(place, message));
            }
            (_, Some(place)) => {
                if let Some(core) = cpu.main_core.filter(|c| cpu.corelist_workers.contains(c)) {
                    let message = format!("core {core} is the 'main-core' already");
                    return Err(Complaint::new(place, message));
                }
                listed
            }
            (Some((workers, _)), None) => workers,
            (None, None) => 0,
        };
        Ok(self.config)
    }
}

fn unknown_key(section: &str, key: &str, place: Place, keys: &Keys) -> Complaint {
    let all = keys.iter().map(|(name, _)| *name);
    let supported = |shape: &Shape| matches!(shape, Shape::Flag | Shape::Value);
    let known: Vec<&str> = keys.iter().filter(|(_, shape)| supported(shape)).map(|(name, _)| *name).collect();
    let message =
        format!("unknown key '{key}' in section '{section}' (known: {}{})", known.join(", "), did_you_mean(key, all));
    Complaint::new(place, message)
}

#[cfg(test)]
mod tests {
    use super::super::*;

    fn parse(text: &str) -> StartupConfig {
        StartupConfig::parse("test.conf", text).unwrap_or_else(|error| panic!("{error}"))
    }

    fn refused(text: &str) -> String {
        StartupConfig::parse("test.conf", text).expect_err(text).to_string()
    }

    /// As a distribution installs it for VPP.
    const VPP_FILE: &str = "
unix {
  nodaemon
  log /var/log/vpp/vpp.log
  full-coredump
  cli-listen /run/vpp/cli.sock
  gid vpp
  ## run these at start
  exec /etc/vpp/bootstrap.vpp
}
api-trace { on }
socksvr { default }
memory { main-heap-size 1536M main-heap-page-size default-hugepage }
cpu { main-core 0 corelist-workers 1-3,5 }
buffers { buffers-per-numa 128k default data-size 2048 page-size default-hugepage }
dpdk { dev default { num-rx-desc 512 } dev 0000:10:00.0 { name e0 } uio-driver vfio-pci }
plugins { plugin default { disable } plugin linux_cp_plugin.so { enable } }
logging { default-log-level info default-syslog-log-level crit class linux-cp/nl { level debug } class a { } }
heapsize 1G
statseg { size 1G page-size default-hugepage per-node-counters off }
";

    #[test]
    fn a_file_written_for_vpp_is_read_with_warnings() {
        let config = parse(VPP_FILE);
        assert!(config.unix.nodaemon && !config.unix.interactive);
        assert_eq!(config.unix.cli_listen, PathBuf::from("/run/vpp/cli.sock"));
        assert_eq!(config.unix.gid.as_deref(), Some("vpp"));
        assert_eq!(config.unix.exec, Some(PathBuf::from("/etc/vpp/bootstrap.vpp")));
        assert_eq!(config.cpu.corelist_workers, [1, 2, 3, 5]);
        assert_eq!((config.cpu.workers, config.cpu.main_core), (4, Some(0)));
        assert_eq!(config.buffers.buffers_per_numa, 128 << 10);
        assert_eq!(config.logging.default_log_level, LogLevel::Info);
        let warnings = config.warnings.join("\n");
        assert!(warnings.contains("section dpdk: no DPDK driver in this build, ignored"));
        for name in ["heapsize", "statseg", "api-trace", "full-coredump", "class"] {
            assert!(warnings.contains(name), "{name}");
        }
        assert_eq!(config.warnings.len(), 11);
    }

    #[test]
    fn an_empty_file_is_the_defaults() {
        let config = parse("# nothing\n");
        assert_eq!(config, StartupConfig::default());
        assert_eq!(config.unix.cli_listen, Unix::default().runtime_dir.join("cli.sock"));
        assert_eq!(config.buffers.buffers_per_numa, 16_384);
        assert_eq!(config.cpu.workers, 0);
    }

    #[test]
    fn several_statements_share_a_line_and_sections_may_return() {
        let config = parse("unix { nodaemon exec a } cpu { workers 2 skip-cores 1 } unix {interactive}");
        assert!(config.unix.nodaemon && config.unix.interactive);
        assert_eq!((config.cpu.workers, config.cpu.skip_cores), (2, 1));
    }

    #[test]
    fn the_socket_follows_the_runtime_directory() {
        let config = parse("unix { runtime-dir /tmp/q }");
        assert_eq!(config.unix.cli_listen, PathBuf::from("/tmp/q/cli.sock"));
    }

    #[test]
    fn complaints_name_the_place_and_what_is_known() {
        for (text, message) in [
            (
                "unix {\n  exce /etc/x\n}",
                "2:3: unknown key 'exce' in section 'unix' (known: nodaemon, interactive, exec, \
                 startup-config, log, cli-listen, runtime-dir, gid; did you mean 'exec'?)",
            ),
            ("unixx { }", "1:1: unknown section 'unixx' (known: unix, cpu, buffers, logging; did you mean 'unix'?)"),
            ("zebra", "1:1: unknown section 'zebra' (known: unix, cpu, buffers, logging)"),
            ("unix { exec }", "1:13: 'exec' needs a value"),
            ("unix { exec { } }", "1:13: 'exec' needs a value"),
            ("unix nodaemon", "1:6: expected '{' after 'unix', found 'nodaemon'"),
            ("unix", "1:5: expected '{' after 'unix', found the end"),
            ("unix { { } }", "1:8: '{' without a name before it"),
            ("unix {", "1:6: '{' is never closed"),
            ("unix { } }", "1:10: '}' without '{'"),
            ("cpu { main-core 1024 }", "1:17: '1024' is no value for 'main-core': expected a number 0..1023"),
            (
                "cpu { corelist-workers 3-1 }",
                "1:24: '3-1' is no value for 'corelist-workers': expected cores below 1024 and \
                 ranges of them, like 1-3,5",
            ),
            (
                "cpu { corelist-workers 1-3,2 }",
                "1:24: '1-3,2' is no value for 'corelist-workers': expected each core once, 2 is \
                 there twice",
            ),
            ("cpu { workers 1 corelist-workers 1-3 }", "1:15: 1 workers, but 'corelist-workers' lists 3 cores"),
            ("cpu { main-core 2 corelist-workers 1-3 }", "1:36: core 2 is the 'main-core' already"),
            (
                "buffers { default data-size 12 }",
                "1:29: '12' is no value for 'default data-size': expected a number 256..65024",
            ),
            (
                "buffers { page-size 3k }",
                "1:21: '3k' is no value for 'page-size': expected one of default, \
                 default-hugepage, 4k, 2m, 1g, 1024m",
            ),
            ("unix { log a\n log b }", "2:2: key 'log' is given twice in section 'unix' (first at 1:8)"),
            (
                "unix { cli-listen localhost:5002 }",
                "1:19: 'localhost:5002' is no value for 'cli-listen': expected the path of a Unix \
                 socket, like /run/quiver/cli.sock",
            ),
        ] {
            assert_eq!(refused(text), format!("test.conf:{message}"), "{text}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let error = StartupConfig::load(Path::new("/nonexistent/x.conf")).unwrap_err();
        assert!(error.to_string().starts_with("/nonexistent/x.conf: "));
        assert!(StartupConfig::load(Path::new("/dev/zero")).is_err());
    }

    #[test]
    fn mutated_files_are_answered_and_never_panic() {
        let mut random = 0x1234_5678_9abc_def1_u64;
        let mut next = |bound: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % bound as u64) as usize
        };
        let pieces = ["{", "}", "#", "\n", " ", "-", ",", "é", "\0", "99999999999999999999", "k"];
        let mut refused = 0;
        for _ in 0..2000 {
            let mut text: Vec<char> = VPP_FILE.chars().collect();
            for _ in 0..=next(4) {
                let at = next(text.len() + 1);
                match next(3) {
                    0 => drop(text.drain(at..(at + next(20)).min(text.len()))),
                    1 => drop(text.splice(at..at, pieces[next(pieces.len())].chars())),
                    _ => text.truncate(at.max(1)),
                }
            }
            let text: String = text.into_iter().collect();
            refused += usize::from(StartupConfig::parse("x", &text).is_err());
        }
        assert!(refused > 500, "{refused}");
    }
}
