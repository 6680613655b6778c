use super::*;
use drivers::chain;
use graph::buffer::HEADROOM;
use graph::{Buffers, PacketIndex, Pool, Row, flag};
use wire::MacAddress;

const ENDS: Ends =
    Ends { source: MacAddress([2, 0, 0, 0, 0, 0xa]), destination: MacAddress([2, 0, 0, 0, 0, 0xb]), vlan: None };

fn programs(text: &str, port: usize) -> Result<Vec<Arc<Program>>, ProfileError> {
    Program::of_port(&Profile::parse("test.toml", text)?, port, ENDS)
}

/// The next frames of a share of the first stream.
fn make(program: &Arc<Program>, (share, shares): (usize, usize), count: usize) -> Vec<Vec<u8>> {
    let pool = Pool::new(1024, false).unwrap();
    let mut buffers = Buffers::new(&pool, 1024);
    let mut maker = Maker::new(program, 7, share, shares);
    let mut frames = Vec::new();
    while frames.len() < count {
        let mut packets = [PacketIndex::NONE; 100];
        assert_eq!(buffers.allocate(&mut packets), 100);
        let mut lengths = [0; 100];
        let mut more = vec![PacketIndex::NONE; 100 * maker.more_buffers()];
        assert_eq!(buffers.allocate(&mut more), more.len());
        maker.make(&mut buffers, &packets, &mut lengths, 0x1234_5678, &mut more);
        for (&packet, &length) in packets.iter().zip(&lengths) {
            let flags = if usize::from(length) > DATA_SIZE { flag::CHAINED } else { 0 };
            let row = Row { packet, length, l2: HEADROOM as u16, flags, ..Row::default() };
            frames.push(
                chain::Chain::of(&buffers, &row).expect("it is whole").slices(&buffers).collect::<Vec<_>>().concat(),
            );
            if flags != 0 {
                buffers.free_chain(packet);
            } else {
                buffers.free(&[packet]);
            }
        }
        buffers.free(&more);
        assert_eq!(buffers.in_use(), 0);
    }
    frames.truncate(count);
    frames
}

/// Every checksum of a frame is what it would be if it were reckoned anew.
fn assert_right(frame: &[u8], what: &str) {
    let layout = Layout::of(frame);
    for sum in &layout.sums {
        let mut mended = frame.to_vec();
        sum.mend(&mut mended);
        let (is, should) = (&frame[sum.at..sum.at + 2], &mended[sum.at..sum.at + 2]);
        // Zero has two forms.
        let same = is == should || [is, should].iter().all(|sum| [[0, 0], [0xff, 0xff]].contains(&[sum[0], sum[1]]));
        assert!(same, "{what}: checksum at {}: {is:x?}, not {should:x?} in {frame:x?}", sum.at);
    }
}

#[test]
fn frames_of_all_profiles_are_right_in_both_directions() {
    for name in crate::profile::NAMES {
        let profile = Profile::load(name).unwrap();
        for port in [0, 1] {
            for program in Program::of_port(&profile, port, ENDS).unwrap() {
                let frames = make(&program, (0, 1), 600);
                for frame in &frames {
                    assert_right(frame, name);
                    let layout = Layout::of(frame);
                    assert!(layout.find(&[Kind::Ipv4, Kind::Ipv6]).is_some(), "{name}: {layout:?}");
                    assert!(program.is_tagged(), "{name}");
                }
            }
        }
    }
}

#[test]
fn fields_go_from_value_to_value() {
    let text = r#"
        [[stream]]
        size = 100
        layers = [{ vlan = { id = 5, pcp = 3 } }, { mpls = { label = 20 } }, { ipv4 = {} }, { udp = {} }]
        vary = [
            { field = "vlan.id", from = 10, to = 12 },
            { field = "mpls.label", how = "decrement", from = 100, to = 104, step = 2 },
            { field = "ipv4.source", how = "tuple", from = "10.0.0.1", to = "10.0.0.2", with = TWO_PORTS },
            { field = "ipv4.destination", how = "random", from = "10.1.0.0", to = "10.1.0.7", seed = 3 },
            { offset = 71, width = 1, from = 1, to = 255 },
            { offset = 75, width = 4, from = 0, to = 0xffffffff, how = "random" },
        ]
    "#;
    let text = &text.replace("TWO_PORTS", r#"{ field = "udp.source", from = 1, to = 2 }"#);
    let program = &programs(text, 0).unwrap()[0];
    let frames = make(program, (0, 1), 300);
    let read = |name: &str| -> Vec<u64> {
        let field = Layout::of(&frames[0]).field(name).unwrap();
        let value = |frame: &Vec<u8>| frame[field.bytes()].iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        frames.iter().map(|frame| (value(frame) & field.mask()) >> field.shift).collect()
    };
    assert_eq!(read("vlan.id")[..5], [10, 11, 12, 10, 11]);
    assert_eq!(read("vlan.pcp")[..5], [3; 5]);
    assert_eq!(read("mpls.label")[..4], [104, 102, 100, 104]);
    assert_eq!(read("mpls.ttl")[..2], [64; 2]);
    assert_eq!(read("ipv4.source")[..5], [0x0a00_0001, 0x0a00_0002, 0x0a00_0001, 0x0a00_0002, 0x0a00_0001]);
    assert_eq!(read("udp.source")[..6], [1, 1, 2, 2, 1, 1]);
    let random = read("ipv4.destination");
    for value in 0..8 {
        let often = random.iter().filter(|each| **each == 0x0a01_0000 + value).count();
        assert!((15..70).contains(&often), "{value}: {often} of 300");
    }
    assert_eq!(frames.iter().map(|frame| frame[71]).collect::<Vec<_>>()[253..257], [254, 255, 1, 2]);
    frames.iter().for_each(|frame| assert_right(frame, "all sorts"));
    assert_eq!(make(program, (0, 1), 300), frames, "the same seed, the same packets");
}

#[test]
fn shares_of_workers_are_together_what_one_would_send() {
    let text = r#"
        [[stream]]
        sizes = [{ size = 60, weight = 1 }]
        layers = [{ ipv4 = {} }, { udp = {} }]

        [[stream.vary]]
        field = "ipv4.source"
        how = "tuple"
        from = "10.0.0.1"
        to = "10.0.0.5"
        with = { field = "udp.source", from = 1, to = 3 }

        [[stream.vary]]
        field = "ipv4.destination"
        how = "random"
        from = "10.1.0.0"
        to = "10.1.255.255"
    "#;
    let program = &programs(text, 0).unwrap()[0];
    let addresses = |frames: Vec<Vec<u8>>| frames.into_iter().map(|frame| frame[26..36].to_vec()).collect::<Vec<_>>();
    let all = addresses(make(program, (0, 1), 900));
    let shares = [0, 1, 2].map(|share| addresses(make(program, (share, 3), 300)));
    for (n, one) in all.iter().enumerate() {
        assert_eq!(&shares[n % 3][n / 3], one, "{n}");
    }
    for (n, one) in all.iter().enumerate() {
        let address = program.varied[0].series.at(n as u64) as u32;
        assert_eq!(one[..4], address.to_be_bytes());
    }
}

#[test]
fn outer_checksums_follow_what_varies_inside() {
    for checksum in [true, false] {
        let text = format!(
            r#"
            [[stream]]
            size = 140
            layers = [
                {{ ipv6 = {{}} }}, {{ udp = {{ checksum = {checksum} }} }}, {{ vxlan = {{}} }}, {{ ethernet = {{}} }},
                {{ ipv4 = {{}} }}, {{ udp = {{}} }},
            ]
            vary = [{{ field = "ipv4.source", how = "random", from = 0, to = 0xffffffff }}]
            "#
        );
        let program = &programs(&text, 0).unwrap()[0];
        let frames = make(program, (0, 1), 200);
        frames.iter().for_each(|frame| assert_right(frame, "vxlan"));
        assert_eq!(Layout::of(&frames[0]).headers.iter().filter(|(kind, _)| *kind == Kind::Udp).count(), 2);
    }
}

#[test]
fn tags_are_small_where_there_is_little_room() {
    let text = |size| format!("[[stream]]\nsize = {size}\nlayers = [{{ ipv6 = {{}} }}, {{ udp = {{}} }}]");
    let full = make(&programs(&text(76), 0).unwrap()[0], (0, 1), 3);
    let bytes = full[2].last_chunk().unwrap();
    assert_eq!(tag::read(bytes), Some(tag::Tag { stream: 7, sequence: 2, stamp: 0x1234_5678 }));
    let small = make(&programs(&text(66), 0).unwrap()[0], (0, 1), 3);
    assert_eq!(tag::read_small(small[2].last_chunk().unwrap()), Some(2));
    assert_eq!(small[2][14..18], (6 << 28 | tag::FLOW_LABEL | 7).to_be_bytes());
    let none = &programs(&text(64), 0).unwrap()[0];
    assert!(!none.is_tagged());
}

#[test]
fn long_frames_are_right_wherever_buffers_end() {
    for size in [2047, 2048, 2049, 2050, 2055, 2062, 2063, 4096, 4100, 6145, 9014, 9216] {
        let text = format!(
            r#"
            [[stream]]
            sizes = [{{ size = {size}, weight = 2 }}, {{ size = 60, weight = 1 }}]
            layers = [{{ ipv4 = {{}} }}, {{ udp = {{ checksum = true }} }}]
            vary = [{{ field = "ipv4.source", how = "random", from = 0, to = 0xffffffff }}]
            "#
        );
        let frames = make(&programs(&text, 0).unwrap()[0], (0, 1), 30);
        for (n, frame) in frames.iter().enumerate() {
            assert_eq!(frame.len(), if n % 3 == 1 { 60 } else { size }, "{n}");
            assert_right(frame, "long");
            assert_eq!(tag::read(frame.last_chunk().unwrap()).map(|tag| tag.sequence), Some(n as u32), "{size}");
        }
    }
}

#[test]
fn sizes_come_by_turns_as_often_as_they_weigh() {
    assert_eq!(by_turns(&[7, 4, 1]).len(), 12);
    assert_eq!(by_turns(&[2, 1]), [0, 1, 0]);
    let program = &Program::of_port(&Profile::load("ip4-imix-rfc").unwrap(), 0, ENDS).unwrap()[0];
    let frames = make(program, (0, 1), 1200);
    for (size, often) in [(60, 700), (566, 400), (1514, 100)] {
        assert_eq!(frames.iter().filter(|frame| frame.len() == size).count(), often, "{size}");
    }
    assert!((program.mean_size() - (7.0 * 60.0 + 4.0 * 566.0 + 1514.0) / 12.0).abs() < 1e-9);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let stream = "[[stream]]\nname = \"a\"\nsize = 60\nlayers = [{ ipv4 = {} }, { udp = {} }]\n";
    let all_of = |more: &str| format!("{stream}{more}");
    for (text, wrong) in [
        ("".to_string(), "test.toml:1:1: missing field `stream`"),
        (
            "[[stream]]\nsize = 60\n".into(),
            "test.toml:1:1: stream 'stream-1': it has no packets: give 'layers', or a 'pcap'",
        ),
        (
            "[[stream]]\nsize = 59\nlayers = [{ udp = {} }]".into(),
            "test.toml:2:8: stream 'stream-1': 59 bytes: frames have 60 to 9216 without frame check sequence",
        ),
        (
            "[[stream]]\nsize = 60\nlayers = [{ udp = {} }]".into(),
            "test.toml:1:1: stream 'stream-1': 'udp' cannot follow Ethernet",
        ),
        (
            "[[stream]]\nsize = 60\nlayers = [{ ipv4 = { source = \"16.0.0\" } }]".into(),
            "test.toml:3:31: invalid IPv4 address syntax",
        ),
        ("[[stream]]\nsize = 60\nlayer = []".into(), "test.toml:3:1: unknown field `layer`, expected one of"),
        (all_of("rate = \"fast\""), "test.toml:5:8: 'fast' is not a rate"),
        (all_of("rate = \"50%\""), "its rate is in packets or bits a second"),
        (
            all_of("vary = [{ field = \"ipv4.colour\", from = 1, to = 2 }]"),
            "test.toml:5:9: stream 'a': ipv4 has no field 'colour' that can vary: there are source,",
        ),
        (
            all_of("vary = [{ field = \"ipv6.source\", from = 1, to = 2 }]"),
            "there is no 'ipv6.source': the packet has ethernet, ipv4, udp",
        ),
        (
            all_of("vary = [{ field = \"udp.source\", from = 1, to = 65536 }]"),
            "the field has 16 bits: its values go up to 65535",
        ),
        (all_of("vary = [{ field = \"udp.source\", from = 2, to = 1 }]"), "'from' is beyond 'to'"),
        (all_of("vary = [{ offset = 24, width = 2, from = 2, to = 3 }]"), "these bytes hold a checksum"),
        (all_of("vary = [{ offset = 50, width = 2, from = 2, to = 3 }]"), "lies where the tag goes"),
        (all_of("vary = [{ offset = 59, width = 2, from = 2, to = 3 }]"), "the shortest frame has 60 bytes"),
        (
            all_of("vary = [{ field = \"udp.source\", how = \"tuple\", from = 2, to = 3 }]"),
            "a tuple goes on in a second field",
        ),
        (
            all_of("vary = [{ field = \"udp.source\", how = \"sideways\", from = 2, to = 3 }]"),
            "unknown variant `sideways`",
        ),
        (all_of("mode = { burst = { packets = 0 } }"), "a burst has packets"),
        (
            all_of("ports = \"some\""),
            "test.toml:5:9: invalid value: string \"some\", expected \"all\", \"even\", \"odd\", or a list of ports",
        ),
        (all_of("ports = [0, -1]"), "test.toml:5:13: invalid value: integer `-1`"),
        (format!("{stream}{stream}"), "test.toml:5:1: there are two streams called 'a'"),
    ] {
        let error = programs(&text, 0).unwrap_err().to_string();
        assert!(error.contains(wrong), "{text}\n{error}");
    }
}

#[test]
fn a_stream_is_sent_by_its_ports() {
    for (ports, sent) in
        [("\"all\"", [true; 4]), ("\"odd\"", [false, true, false, true]), ("[0, 3]", [true, false, false, true])]
    {
        let text = format!("[[stream]]\nsize = 60\nports = {ports}\nlayers = [{{ ipv4 = {{}} }}]");
        assert_eq!([0, 1, 2, 3].map(|port| !programs(&text, port).unwrap().is_empty()), sent, "{ports}");
    }
}

#[test]
fn odd_ports_send_the_other_way() {
    let program = &Program::of_port(&Profile::load("bench-var2-64b").unwrap(), 1, ENDS).unwrap()[0];
    let frames = make(program, (0, 1), 3);
    assert_eq!(frames[2][26..34], [48, 0, 0, 3, 16, 0, 0, 3]);
    assert_eq!(frames[0][34..38], [0, 12, 4, 1]);
}

#[test]
fn frames_of_a_port_in_a_vlan_have_its_tag_unless_they_bring_their_own() {
    let ends = Ends { vlan: Some(100), ..ENDS };
    let frames_of = |stream: &str| {
        let profile = Profile::parse("test.toml", stream).unwrap();
        let program = &Program::of_port(&profile, 0, ends).unwrap()[0];
        let frames = make(program, (0, 1), 3);
        frames.iter().for_each(|frame| assert_right(frame, stream));
        frames
    };
    let addresses = [2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa];
    let plain = frames_of(
        "[[stream]]\nsize = 60\nlayers = [{ ipv4 = {} }, { udp = {} }]\nvary = [\
         { field = \"udp.source\", from = 7, to = 9 }, { offset = 11, width = 1, from = 1, to = 3 }, \
         { offset = 15, width = 1, from = 4, to = 8, step = 4 }]",
    );
    assert_eq!((plain[0].len(), &plain[0][..11]), (64, &addresses[..11]));
    assert_eq!(plain[0][12..22], [0x81, 0, 0, 100, 8, 0, 0x45, 4, 0, 46]);
    // An offset is that of the frame as the profile has it.
    assert_eq!(
        plain.iter().map(|frame| (frame[11], frame[19], frame[39])).collect::<Vec<_>>(),
        [(1, 4, 7), (2, 8, 8), (3, 4, 9)]
    );
    let ethernet = "[[stream]]\nsize = 60\nlayers = [{ ethernet = { source = \"02:00:00:00:00:07\" } }, { ipv4 = {} }]";
    assert_eq!(frames_of(ethernet)[0][6..18], [2, 0, 0, 0, 0, 7, 0x81, 0, 0, 100, 8, 0]);
    let own = frames_of("[[stream]]\nsize = 60\nlayers = [{ vlan = { id = 7 } }, { ipv4 = {} }, { udp = {} }]");
    assert_eq!((own[0].len(), &own[0][12..18]), (60, &[0x81, 0, 0, 7, 8, 0][..]));
    let raw = frames_of("[[stream]]\nsize = 60\nlayers = [{ raw = \"02 00 00 00 00 01 02 00 00 00 00 02 88 b5\" }]");
    assert_eq!((raw[0].len(), &raw[0][12..14]), (60, &[0x88, 0xb5][..]));
}

/// The first frames of a profile's only stream.
fn frames_of(stream: &str, count: usize) -> Vec<Vec<u8>> {
    let program = &programs(stream, 0).unwrap_or_else(|error| panic!("{error}"))[0];
    let frames = make(program, (0, 1), count);
    frames.iter().for_each(|frame| assert_right(frame, stream));
    frames
}

#[test]
fn sizes_of_a_range_come_in_turn_or_by_lot() {
    let text = |size: &str| format!("[[stream]]\nsize = {size}\nlayers = [{{ ipv4 = {{}} }}, {{ udp = {{}} }}]");
    let lengths = |size: &str, count| frames_of(&text(size), count).iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lengths("\"60-64\"", 12), [60, 61, 62, 63, 64, 60, 61, 62, 63, 64, 60, 61]);
    assert_eq!(lengths("\"9214-9216\"", 4), [9214, 9215, 9216, 9214]);
    let random = lengths("\"60+1514\"", 3000);
    assert!(random.iter().all(|length| (60..=1514).contains(length)));
    let (short, mean) = (random.iter().filter(|length| **length < 424).count(), random.iter().sum::<usize>() / 3000);
    assert!((600..900).contains(&short) && (740..840).contains(&mean), "{short} {mean}");
    assert_eq!(lengths("\"60+1514\"", 3000), random, "the same again");
    let frame = &frames_of(&text("\"60-64\""), 4)[3];
    assert_eq!((&frame[16..18], &frame[38..40]), (&[0, 49][..], &[0, 29][..]), "lengths of IPv4 and UDP");
    for (size, wrong) in [
        ("\"64-60\"", "test.toml:2:8: '64-60': the smaller size comes first"),
        ("\"59-64\"", "test.toml:2:8: stream 'stream-1': 59 bytes: frames have 60 to 9216"),
        ("\"60-9217\"", "9217 bytes: frames have 60 to 9216"),
        ("\"60\"", "test.toml:2:8: invalid value: string \"60\", expected a number of bytes, or a range"),
        ("70000", "test.toml:2:8: invalid value: integer `70000`"),
    ] {
        let error = programs(&text(size), 0).unwrap_err().to_string();
        assert!(error.contains(wrong), "{size}: {error}");
    }
}

#[test]
fn values_are_those_of_a_list_or_come_again_by_lot() {
    let text =
        |vary: &str| format!("[[stream]]\nsize = 60\nlayers = [{{ ipv4 = {{}} }}, {{ udp = {{}} }}]\nvary = [{vary}]");
    let sources = |vary: &str, count| {
        frames_of(&text(vary), count).iter().map(|frame| frame[26..30].to_vec()).collect::<Vec<_>>()
    };
    let list = "{ field = \"ipv4.source\", values = [\"10.0.0.7\", \"192.0.2.1\", \"10.0.0.9\"] }";
    let wanted = [[10, 0, 0, 7], [192, 0, 2, 1], [10, 0, 0, 9], [10, 0, 0, 7]];
    assert_eq!(sources(list, 4), wanted);
    let down = list.replace("values", "how = \"decrement\", values");
    assert_eq!(sources(&down, 2), [wanted[2], wanted[1]]);
    let lot = list.replace("values", "how = \"random\", values");
    assert!((0..3).all(|at| sources(&lot, 60).iter().filter(|source| **source == wanted[at]).count() > 9));
    // A tuple goes on in the second field when the list has been gone through.
    let tuple = list.replace("values", "how = \"tuple\", with = { field = \"udp.source\", from = 5, to = 6 }, values");
    let ports: Vec<u8> = frames_of(&text(&tuple), 7).iter().map(|frame| frame[35]).collect();
    assert_eq!(ports, [5, 5, 5, 6, 6, 6, 5]);
    // Five flows by lot, again and again.
    let limit =
        "{ field = \"ipv4.source\", how = \"random\", limit = 5, from = \"10.0.0.0\", to = \"10.255.255.255\" }";
    let random = sources(limit, 250);
    assert!(random.chunks(5).all(|five| five == &random[..5]));
    assert_eq!(random[..5].iter().collect::<std::collections::BTreeSet<_>>().len(), 5);
    assert_ne!(sources(&limit.replace("limit", "seed = 9, limit"), 5), random[..5]);
    // Workers together send what one would.
    let program = &programs(&text(limit), 0).unwrap()[0];
    let shares = [0, 1, 2].map(|share| make(program, (share, 3), 40));
    for n in 0..120 {
        assert_eq!(shares[n % 3][n / 3][26..30], random[n], "{n}");
    }
    for (vary, wrong) in [
        ("{ field = \"udp.source\", from = 1 }", "test.toml:4:9: stream 'stream-1': say 'from' and 'to', or 'values'"),
        ("{ field = \"udp.source\", values = [] }", "'values' are 1 to 65536"),
        ("{ field = \"udp.source\", values = [1, 65536] }", "test.toml:4:9: stream 'stream-1': the field has 16 bits"),
        ("{ field = \"udp.source\", values = [1], from = 1, to = 2 }", "say 'from' and 'to', or 'values'"),
        ("{ field = \"udp.source\", limit = 3, from = 1, to = 2 }", "'limit' is of 'how = \"random\"'"),
    ] {
        let error = programs(&text(vary), 0).unwrap_err().to_string();
        assert!(error.contains(wrong), "{vary}: {error}");
    }
}

#[test]
fn options_fragments_and_tunnels_are_built_byte_by_byte() {
    let of = |layers: &str, size: usize| {
        frames_of(&format!("[[stream]]\nsize = {size}\ntag = false\nlayers = [{layers}]"), 1).remove(0)
    };
    // Router alert (RFC 2113), and two bytes that are filled up.
    let options = of("{ ipv4 = { options = \"94 04 00 00 01 01\" } }, { udp = {} }", 80);
    assert_eq!((options[14], &options[16..18], options[23]), (0x47, &[0, 66][..], 17));
    assert_eq!(options[34..42], [0x94, 4, 0, 0, 1, 1, 0, 0]);
    assert_eq!(options[42..48], [4, 1, 0, 12, 0, 38]);
    let first = of("{ ipv4 = { id = 7, mf = true } }, { udp = {} }", 60);
    assert_eq!((&first[18..22], &first[40..42]), (&[0, 7, 0x20, 0][..], &[0, 0][..]), "no checksum of a part");
    let last = of("{ ipv4 = { id = 7, fragment-offset = 185, protocol = 17 } }, { payload = \"ab\" }", 60);
    assert_eq!((&last[18..24], last[34]), (&[0, 7, 0, 185, 64, 17][..], 0xab));
    let six = of("{ ipv6 = {} }, { fragment = { offset = 2, more = true, id = 0x01020304 } }, { udp = {} }", 80);
    assert_eq!((six[20], &six[54..62]), (44, &[17, 0, 0, 17, 1, 2, 3, 4][..]));
    // An atomic one has its checksum.
    let atomic = of("{ ipv6 = {} }, { fragment = {} }, { icmp = {} }", 80);
    assert_eq!((&atomic[54..58], atomic[62]), (&[58, 0, 0, 0][..], 128));
    assert_ne!(atomic[64..66], [0, 0]);
    let gre = of("{ ipv4 = {} }, { gre = { key = 0x0a0b0c0d, sequence = 3 } }, { ipv4 = {} }, { udp = {} }", 90);
    assert_eq!((gre[23], &gre[34..46]), (47, &[0x30, 0, 8, 0, 10, 11, 12, 13, 0, 0, 0, 3][..]));
    assert_eq!((gre[46], &gre[48..50]), (0x45, &[0, 44][..]));
    let bridged =
        of("{ ipv6 = {} }, { gre = { checksum = true } }, { ethernet = {} }, { ipv4 = {} }, { udp = {} }", 120);
    assert_eq!((bridged[20], &bridged[54..58], &bridged[60..62]), (47, &[0x80, 0, 0x65, 0x58][..], &[0, 0][..]));
    assert_eq!(Layout::of(&bridged).sums.len(), 3, "of GRE, of the IPv4 header and of UDP");
    let labelled = of("{ ipv4 = {} }, { gre = {} }, { mpls = {} }, { ipv6 = {} }, { udp = {} }", 120);
    assert_eq!((&labelled[36..38], labelled[42] >> 4), (&[0x88, 0x47][..], 6));
    let within = of("{ ipv4 = {} }, { ipv6 = {} }, { udp = {} }", 90);
    assert_eq!(within[23], 41);
    assert_ne!(within[80..82], [0, 1], "the inner checksum is right, too");
    // Fields in them vary, and what covers them follows.
    let varied = frames_of(
        "[[stream]]\nsize = 110\nlayers = [{ ipv4 = { options = \"94 04 00 00\" } }, { gre = { checksum = true, key \
         = 1 } }, \
         { ipv4 = {} }, { udp = {} }]\nvary = [{ field = \"gre.key\", from = 1, to = 9 }, { field = \
         \"ipv4[1].source\", \
         how = \"random\", from = 0, to = 0xffffffff }, { field = \"ipv4.id\", from = 3, to = 5 }]",
        30,
    );
    assert_eq!(varied.iter().map(|frame| frame[49]).collect::<Vec<_>>()[7..11], [8, 9, 1, 2]);
    assert_ne!(varied[0][42..44], varied[1][42..44]);
    for (layers, wrong) in [
        ("{ ipv4 = { options = \"94 0\" } }", "bytes are pairs of hexadecimal digits"),
        (&format!("{{ ipv4 = {{ options = \"{}\" }} }}", "01".repeat(41)), "40 bytes of options at most"),
        ("{ ipv4 = { fragment-offset = 8192 } }", "units of 8 bytes, up to 8191"),
        ("{ ipv4 = {} }, { fragment = {} }", "'fragment' cannot follow IP"),
        ("{ gre = {} }", "'gre' cannot follow Ethernet"),
        ("{ ipv4 = {} }, { gre = {} }, { udp = {} }", "'udp' cannot follow GRE"),
    ] {
        let error = programs(&format!("[[stream]]\nsize = 100\nlayers = [{layers}]"), 0).unwrap_err().to_string();
        assert!(error.contains(wrong), "{layers}: {error}");
    }
}

/// A capture with these frames, a millisecond and then two apart, in a file that is gone afterwards.
fn with_capture<T>(frames: &[Vec<u8>], use_it: impl FnOnce(&str) -> T) -> T {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("quiver-program-{}-{number}.pcap", std::process::id()));
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1]);
    for (n, frame) in frames.iter().enumerate() {
        let at = [0, 1000, 3000, 3000][n % 4];
        file.extend(words(&[5, at, frame.len() as u32, frame.len() as u32]));
        file.extend(frame);
    }
    std::fs::write(&path, file).expect("a temporary file");
    let done = use_it(path.to_str().expect("a name in ASCII"));
    std::fs::remove_file(&path).expect("just written");
    done
}

#[test]
fn fields_of_a_capture_change_wherever_each_frame_has_them() {
    let of = |layers: &str, size: usize| {
        frames_of(&format!("[[stream]]\nsize = {size}\ntag = false\nlayers = [{layers}]"), 1).remove(0)
    };
    let arp = of("{ raw = \"ff ff ff ff ff ff 02 00 00 00 00 02 08 06\" }", 60);
    let captured = [
        of("{ ipv4 = {} }, { udp = {} }", 100),
        arp.clone(),
        of("{ vlan = { id = 9 } }, { ipv4 = { options = \"01\" } }, { tcp = {} }", 9216),
        of("{ ipv6 = {} }, { udp = {} }", 66),
    ];
    with_capture(&captured, |path| {
        let text = format!(
            "[[stream]]\npcap = \"{path}\"\nvary = [{{ field = \"ipv4.source\", from = \"10.9.0.1\", to = \
             \"10.9.0.250\" }}, \
             {{ field = \"vlan.id\", values = [7, 8] }}, {{ field = \"udp.destination\", how = \"random\", from = \
             9, to = 9 }}]"
        );
        let frames = frames_of(&text, 12);
        let sources = |at: usize, offset: usize| frames[at][offset..offset + 4].to_vec();
        assert_eq!((sources(0, 26), sources(4, 26)), (vec![10, 9, 0, 1], vec![10, 9, 0, 5]));
        assert_eq!((sources(2, 30), sources(6, 30)), (vec![10, 9, 0, 3], vec![10, 9, 0, 7]));
        assert_eq!(frames[1][..46], arp[..46], "what has none of the fields stays");
        assert_eq!(frames[2][14..16], [0, 7]);
        assert_eq!((frames[0][37], frames[3][57], frames[2].len()), (9, 9, 9216));
        for (at, frame) in frames.iter().enumerate().filter(|(at, _)| at % 4 == 2 || at % 4 == 0) {
            assert_eq!(tag::read(frame.last_chunk().unwrap()).map(|tag| tag.sequence), Some(at as u32));
        }
        for (vary, wrong) in [
            (
                "field = \"mpls.label\", from = 1, to = 2",
                "no packet of the capture has it; of the first, there is no 'mpls",
            ),
            ("offset = 24, width = 2, from = 1, to = 2", "packet 1: @24/2: these bytes hold a checksum"),
            ("field = \"vlan.id\", from = 1, to = 5000", "the field has 12 bits"),
            ("field = \"ipv6.flow-label\", from = 1, to = 5", "packet 4: ipv6.flow-label: it lies where the tag goes"),
        ] {
            let text = format!("[[stream]]\npcap = \"{path}\"\nvary = [{{ {vary} }}]");
            let error = programs(&text, 0).unwrap_err().to_string();
            assert!(error.starts_with("test.toml:3:9: ") && error.contains(wrong), "{error}");
        }
    });
}

#[test]
fn a_capture_can_keep_its_timing() {
    let frame = frames_of("[[stream]]\nsize = 60\ntag = false\nlayers = [{ ipv4 = {} }, { udp = {} }]", 1).remove(0);
    with_capture(&[frame.clone(), frame.clone(), frame.clone(), frame.clone()], |path| {
        let text = format!("[[stream]]\npcap = \"{path}\"\ntiming = \"capture\"\n");
        let program = &programs(&text, 0).unwrap()[0];
        assert_eq!(program.gaps.as_deref(), Some(&[1_000_000, 2_000_000, 0, 1_000_000][..]));
        assert!((program.rate - 1000.0).abs() < 1e-9, "four packets in four milliseconds");
        let bursts = programs(&format!("{text}mode = {{ burst = {{ packets = 2 }} }}"), 0).unwrap_err().to_string();
        assert!(bursts.contains("has no bursts"), "{bursts}");
    });
    with_capture(&[frame], |path| {
        let text = format!("[[stream]]\npcap = \"{path}\"\ntiming = \"capture\"\n");
        assert!(programs(&text, 0).unwrap_err().to_string().contains("came at the same time"));
    });
    let error = programs("[[stream]]\nsize = 60\ntiming = \"capture\"\nlayers = [{ ipv4 = {} }]", 0).unwrap_err();
    assert!(error.to_string().contains("it goes with 'pcap'"), "{error}");
}

#[test]
fn a_stream_may_come_after_another() {
    let stream = |name: &str, more: &str| {
        format!("[[stream]]\nname = \"{name}\"\nsize = 60\nlayers = [{{ ipv4 = {{}} }}]\n{more}\n")
    };
    let burst = "mode = { burst = { packets = 5 } }\n";
    let chain = [
        stream("c", burst),
        stream("a", &format!("{burst}next = \"b\"")),
        stream("b", &format!("{burst}next = \"c\"")),
        stream("always", "rate = \"10pps\""),
    ]
    .concat();
    let found = programs(&chain, 0).unwrap();
    assert_eq!(found.iter().map(|program| program.waits).collect::<Vec<_>>(), [true, false, true, false]);
    assert_eq!(found.iter().map(|program| program.next).collect::<Vec<_>>(), [None, Some(2), Some(0), None]);
    assert_eq!(mix_of(&found, None).packets, 11.0, "those that wait send when others have ended");
    // In a circle the first begins.
    let circle = [
        stream("a", &format!("{burst}next = \"b\"")),
        stream("b", &format!("{burst}next = \"a\"")),
        stream("again", &format!("{burst}next = \"again\"")),
    ];
    let found = programs(&circle.concat(), 0).unwrap();
    assert_eq!(found.iter().map(|program| program.waits).collect::<Vec<_>>(), [false, true, false]);
    for (text, wrong) in [
        (stream("a", "next = \"a\""), "test.toml:5:8: stream 'a' has no end"),
        (stream("a", &format!("{burst}next = \"b\"")), "test.toml:6:8: stream 'a': there is no stream 'b'"),
        (
            [chain.clone(), stream("d", &format!("{burst}next = \"b\""))].concat(),
            "stream 'd': 'b' comes after 'a' already",
        ),
        (
            [stream("a", &format!("{burst}next = \"b\"")), stream("b", "ports = \"odd\"")].concat(),
            "'next': port 0 does not send 'b'",
        ),
    ] {
        let error = programs(&text, 0).unwrap_err().to_string();
        assert!(error.contains(wrong), "{error}");
    }
    let error = programs(&[stream("a", &format!("{burst}next = \"b\"\nports = [0]")), stream("b", "")].concat(), 1);
    assert!(error.unwrap_err().to_string().contains("port 1 does not send 'a', which it comes after"));
}
