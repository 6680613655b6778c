//! Recognises files that are no profile of ours. The operator learns what the file is and what to do with it, and not
//! that TOML has no such character.

use std::path::Path;

/// What a file that is no text is, by its first bytes, and what to do with it.
pub(super) fn of_bytes(name: &str, bytes: &[u8]) -> Option<String> {
    const CAPTURES: [[u8; 4]; 7] = [
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0xd4, 0xc3, 0xb2, 0xa1],
        // Times in nanoseconds.
        [0xa1, 0xb2, 0x3c, 0x4d],
        [0x4d, 0x3c, 0xb2, 0xa1],
        // Kuznetzov's variant, with longer headers of packets.
        [0xa1, 0xb2, 0xcd, 0x34],
        [0x34, 0xcd, 0xb2, 0xa1],
        // pcapng.
        [0x0a, 0x0d, 0x0d, 0x0a],
    ];
    if CAPTURES.iter().any(|magic| bytes.starts_with(magic)) {
        let file = Path::new(name).file_name().unwrap_or_default().to_string_lossy();
        return Some(format!(
            "a capture is no profile, but a stream can send its frames: a file beside it with the lines '[[stream]]', \
             'rate = \"1kpps\"' and 'pcap = \"{file}\"'"
        ));
    }
    let compressed: [&[u8]; 4] = [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ"];
    if compressed.iter().any(|magic| bytes.starts_with(magic)) {
        return Some("the file is compressed: unpack it first".into());
    }
    let is_text = !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok();
    (!is_text).then(|| "a profile is a text (TOML, in UTF-8), and this is none".into())
}

/// What a text that is no TOML is, and what to do with it.
pub(super) fn of_text(name: &str, text: &str) -> Option<String> {
    let name = Path::new(name).extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let begins = |word: &str| text.lines().any(|line| line.trim_end().starts_with(word));
    let not_yet = |what: &str| Some(format!("{what} is not read yet: {ADVICE}"));
    let is_python = begins("import ") || begins("def ") || begins("class ") || begins("#!/usr/bin/env python");
    if name == "py" || is_python || (begins("from ") && has(&[" import "])) {
        return match () {
            () if has(&["ASTF", "astf"]) => not_yet("T-Rex Python (ASTF, stateful)"),
            () if has(&["STL", "trex", "scapy"]) => not_yet("T-Rex Python"),
            () => not_yet("Python"),
        };
    }
    if has(&["packet-generator new"]) {
        return Some(
            "these are commands for a router's packet generator: 'exec FILE' in 'quiver cli' carries them out".into(),
        );
    }
    let first = text.trim_start_matches('\u{feff}').trim_start().chars().next();
    if name == "json" || first == Some('{') || serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        return match has(&["\"quiver-loadtest"]) {
            true => Some("these are figures of a test, which 'quiver loadtest report' draws, and no profile".into()),
            false => not_yet("JSON"),
        };
    }
    if name == "lua" || begins("local ") || has(&["pktgen.", "require \"", "require(\""]) {
        return not_yet("Lua (Pktgen, MoonGen)");
    }
    if first == Some('<') {
        return not_yet("XML");
    }
    let has_key = |key: &str| {
        let key_of = |line: &str| Some(line.trim_start_matches([' ', '-']).split_once(':')?.0.trim_end() == key);
        text.lines().any(|line| key_of(line) == Some(true))
    };
    if has_key("interfaces") && (has_key("port_info") || has_key("version")) {
        return Some("these are ports of T-Rex (trex_cfg.yaml), and no profile: '--config FILE' takes them".into());
    }
    if has_key("cap_info") || has_key("generator") && has_key("duration") {
        return not_yet("YAML of T-Rex's stateful mode");
    }
    if has_key("stream") && has_key("packet") {
        return not_yet("YAML of T-Rex's stateless mode");
    }
    (["yaml", "yml"].contains(&&*name) || begins("---")).then(|| format!("YAML is not read: {ADVICE}"))
}

const ADVICE: &str = "profiles are TOML; 'quiver loadtest profiles bench' prints one to begin with";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ours_has_a_name() {
        for (name, text, what) in [
            (
                "bench.py",
                "from trex_stl_lib.api import *\n\nclass STLBench(object):\n    pass\n",
                "T-Rex Python is not",
            ),
            ("x", "#!/usr/bin/env python3\nimport stl_path\nfrom trex.stl.api import *\n", "T-Rex Python is not"),
            (
                "http.py",
                "from trex.astf.api import *\nclass Prof1():\n    pass\n",
                "T-Rex Python (ASTF, stateful) is not",
            ),
            ("make.py", "print(1)\n", "Python is not read yet: profiles are TOML"),
            (
                "sfr.yaml",
                "- duration : 0.1\n  generator :\n    distribution : \"seq\"\n  cap_info :\n     - name: \
                 cap2/dns.pcap\n",
                "YAML of T-Rex's stateful mode is not read yet",
            ),
            ("a.yaml", "- name: s\n  stream:\n    packet:\n      binary: AAA=\n", "YAML of T-Rex's stateless mode"),
            ("t.yaml", "- version: 2\n  interfaces: ['05:00.0']\n  port_info:\n", "'--config FILE' takes them"),
            ("b.yml", "hello: 1\n", "YAML is not read: profiles"),
            ("p.json", "[{\"id\": 1, \"stream\": {}}]", "JSON is not read yet"),
            ("p", "{ \"truncated\": ", "JSON is not read yet"),
            ("r", "{ \"format\": \"quiver-loadtest-session/1\" }", "'quiver loadtest report' draws"),
            ("s", "packet-generator new {\n  name x\n}\n", "'exec FILE' in 'quiver cli'"),
            ("range.lua", "package.path = \"?.lua\"\n", "Lua (Pktgen, MoonGen) is not"),
            ("w", "<?xml version=\"1.0\"?>\n", "XML is not"),
        ] {
            let told = of_text(name, text).unwrap_or_default();
            assert!(told.starts_with(what) || told.contains(what), "{name}: {told}");
            assert_eq!(of_bytes(name, text.as_bytes()), None, "{name}");
        }
        for (bytes, what) in [
            (&b"\xd4\xc3\xb2\xa1\x02\x00"[..], "'pcap = \"x.pcap\"'"),
            (b"\x0a\x0d\x0d\x0a", "a stream can send its frames"),
            (b"\x1f\x8b\x08", "unpack it first"),
            (b"\x7fELF\x02\0\0", "this is none"),
            (b"caf\xe9", "this is none"),
        ] {
            let told = of_bytes("/tmp/x.pcap", bytes).unwrap_or_default();
            assert!(told.contains(what), "{told}");
        }
    }

    #[test]
    fn a_profile_with_a_mistake_is_still_a_profile() {
        for text in [
            "[[stream]]\nsize = \n",
            "[[stream]\nsize = 60\n",
            "description = \"from here\"\n[[streem]]\n",
            "# from me\n",
        ] {
            assert_eq!(of_text("mine.toml", text), None, "{text}");
            assert_eq!(of_text("mine", text), None, "{text}");
        }
    }
}
