//! `show cpu`: the processor, and what of it matters to packets.

use command::{Args, Command, CommandError, CommandSet, reply};
use graph::time;
use router::Router;
use serde::Serialize;
use std::fmt;
use std::fs;

/// Features that packet work gains by, as the kernel and as VPP name them.
const FLAGS: [(&str, &str); 20] = [
    ("pni", "sse3"),
    ("pclmulqdq", "pclmulqdq"),
    ("ssse3", "ssse3"),
    ("sse4_1", "sse41"),
    ("sse4_2", "sse42"),
    ("avx", "avx"),
    ("rdrand", "rdrand"),
    ("avx2", "avx2"),
    ("bmi2", "bmi2"),
    ("rtm", "rtm"),
    ("pqm", "pqm"),
    ("pqe", "pqe"),
    ("avx512f", "avx512f"),
    ("rdseed", "rdseed"),
    ("aes", "aes"),
    ("sha_ni", "sha"),
    ("vaes", "vaes"),
    ("vpclmulqdq", "vpclmulqdq"),
    ("avx512_bitalg", "avx512_bitalg"),
    ("avx512_vpopcntdq", "avx512_vpopcntd"),
];

pub fn register(set: &mut CommandSet<Router>) {
    set.add(Command::new("show cpu", "Show the processor.", |_: &mut Router, _: &Args| {
        let info = fs::read_to_string("/proc/cpuinfo");
        let info = info.map_err(|error| CommandError::new(format!("show cpu: /proc/cpuinfo: {error}")))?;
        reply(ShowCpu::parse(&info))
    }));
}

/// What a family and model of a vendor is called; empty when it is not known here.
fn microarchitecture(vendor: &str, family: u32, model: u32) -> &'static str {
    match (vendor, family, model) {
        ("AuthenticAMD", 0x17, 0x00..=0x2f) => "Zen",
        ("AuthenticAMD", 0x17, _) => "Zen 2",
        ("AuthenticAMD", 0x19, 0x10..=0x1f | 0x60..=0x7f | 0xa0..=0xaf) => "Zen 4",
        ("AuthenticAMD", 0x19, _) => "Zen 3",
        ("AuthenticAMD", 0x1a, _) => "Zen 5",
        ("GenuineIntel", 6, 0x3c | 0x3f | 0x45 | 0x46) => "Haswell",
        ("GenuineIntel", 6, 0x3d | 0x47 | 0x4f | 0x56) => "Broadwell",
        ("GenuineIntel", 6, 0x4e | 0x55 | 0x5e) => "Skylake",
        ("GenuineIntel", 6, 0x6a | 0x6c | 0x7e) => "Ice Lake",
        ("GenuineIntel", 6, 0x8f) => "Sapphire Rapids",
        ("GenuineIntel", 6, 0xcf) => "Emerald Rapids",
        ("GenuineIntel", 6, 0xad | 0xae) => "Granite Rapids",
        _ => "",
    }
}

#[derive(Serialize)]
struct ShowCpu {
    model: String,
    microarchitecture: &'static str,
    family: u32,
    model_number: u32,
    flags: Vec<&'static str>,
    /// Of the clock that all figures in clocks are in.
    base_hertz: f64,
    /// The instructions that header work uses here.
    kernels: String,
    processors: usize,
}

impl ShowCpu {
    /// From the text of /proc/cpuinfo: the first processor stands for all.
    fn parse(info: &str) -> ShowCpu {
        let value = |name: &str| {
            let lines = info.lines().filter_map(|line| line.split_once(':'));
            lines.into_iter().find(|(key, _)| key.trim() == name).map_or("", |(_, value)| value.trim())
        };
        let (family, model_number) = (value("cpu family").parse().unwrap_or(0), value("model").parse().unwrap_or(0));
        let present: Vec<&str> = value("flags").split(' ').collect();
        ShowCpu {
            model: value("model name").to_string(),
            microarchitecture: microarchitecture(value("vendor_id"), family, model_number),
            family,
            model_number,
            flags: FLAGS.iter().filter(|(kernel, _)| present.contains(kernel)).map(|(_, name)| *name).collect(),
            base_hertz: time::ticks_per_second(),
            kernels: format!("{:?}", wire::batch::Simd::detected()).to_lowercase(),
            processors: info.lines().filter(|line| line.starts_with("processor")).count(),
        }
    }
}

impl fmt::Display for ShowCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShowCpu { microarchitecture, family, model_number, .. } = self;
        let name = if microarchitecture.is_empty() { "unknown" } else { microarchitecture };
        writeln!(f, "{:<26}{}", "Model name:", self.model)?;
        writeln!(f, "{:<26}{name} (family {family:#04x} model {model_number:#04x})", "Microarch model (family):")?;
        writeln!(f, "{:<26}{}", "Flags:", self.flags.join(" "))?;
        writeln!(f, "{:<26}{:.4} GHz", "Base frequency:", self.base_hertz / 1e9)?;
        writeln!(f, "{:<26}{}", "Kernels:", self.kernels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_read_from_the_kernels_text() {
        let info = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n\
             flags\t\t: fpu pni avx2 avx512f sha_ni avx512_vpopcntdq\n\nprocessor\t: 1\nmodel\t\t: 9\n";
        let cpu = ShowCpu::parse(info);
        assert_eq!((cpu.family, cpu.model_number, cpu.microarchitecture, cpu.processors), (26, 2, "Zen 5", 2));
        assert_eq!(cpu.flags, ["sse3", "avx2", "avx512f", "sha", "avx512_vpopcntd"]);
        let text = cpu.to_string();
        assert!(text.starts_with("Model name:               AMD EPYC\n"), "{text}");
        assert!(text.contains("Microarch model (family): Zen 5 (family 0x1a model 0x02)\n"), "{text}");
        let nothing = ShowCpu::parse("");
        assert_eq!((nothing.model.as_str(), nothing.flags.len(), nothing.processors), ("", 0, 0));
    }
}
