//! Commands on the Linux control plane, as VPP has them.

use crate::control;
use crate::error::LcpError;
use crate::pair::OWN_NAMESPACE;
use crate::state::{Pair, Pairs};
use command::{Args, Command, CommandError, CommandSet, Done, Reply, fail, reply};
use graph::InterfaceIndex;
use router::Router;
use serde::Serialize;
use std::fmt;

type Answer = Result<Box<dyn Reply>, CommandError>;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "The Linux control plane",
        "A pair gives an interface of the router a second side in Linux, an ordinary network interface there. Linux \
         gets what is for the router: packets to its addresses and to groups, ARP, Neighbor Discovery, other \
         protocols. What Linux sends leaves by the router's interface.",
    );
    set.add(
        Command::new(
            "lcp create <interface:interface> host-if <host:word> [netns {clear | <namespace:netns> : where}]",
            "Make a pair: an interface in Linux for an interface of the router. It is down at first. `netns clear` is \
             the namespace of the router itself.",
            |router: &mut Router, args: &Args| {
                let phy = router.interfaces.find(args.text("interface")?)?;
                let own = args.optional_text("where").filter(|word| *word == OWN_NAMESPACE);
                let namespace = args.optional_text("namespace").or(own);
                control::create(router, phy, args.text("host")?, namespace)?;
                reply(Done)
            },
        )
        .also("lcp create sw_if_index <index:u32> host-if <host:word> [netns {clear | <namespace:netns> : where}]")
        .configures()
        .example("lcp create e0 host-if xe0")
        .example("lcp create e0 host-if xe0 netns dataplane"),
    );
    set.add(
        Command::new(
            "lcp delete <interface:interface>",
            "Remove a pair with its interface in Linux.",
            |router: &mut Router, args: &Args| {
                let phy = router.interfaces.find(args.text("interface")?)?;
                control::delete(router, phy)?;
                reply(Done)
            },
        )
        .configures()
        .example("lcp delete e0"),
    );
    set.add(
        Command::new(
            "lcp default netns {clear | default | <namespace:netns> : which}",
            "Set the network namespace of pairs that are made later and name none: `clear` is that of the router \
             itself, `default` what startup.conf says.",
            set_default,
        )
        .also("lcp default clear netns")
        .configures()
        .example("lcp default netns dataplane"),
    );
    set.add(
        Command::new(
            "lcp lcp-sync {on | off : state}",
            "Have the state, the MTU and the addresses of interfaces in Linux follow those of the router's, or not.",
            |router: &mut Router, args: &Args| {
                control::set_sync(router, matches!(args.text("state")?, "on" | "enable"));
                reply(Done)
            },
        )
        .also("lcp lcp-sync {enable | disable : state}")
        .configures(),
    );
    set.add(
        Command::new("show lcp [phy <interface:interface>]", "Show the pairs, or that of one interface.", show)
            .example("show lcp"),
    );
}

fn set_default(router: &mut Router, args: &Args) -> Answer {
    let namespace = match args.optional_text("namespace") {
        Some(namespace) => Some(namespace.to_string()),
        None if args.optional_text("which") == Some("default") => {
            router.state::<Pairs>().startup_namespace().map(str::to_string)
        }
        None => None,
    };
    control::set_default_namespace(router, namespace);
    reply(Done)
}

fn show(router: &mut Router, args: &Args) -> Answer {
    let pairs = router.state::<Pairs>();
    let only = args.optional_text("interface").map(|name| router.interfaces.find(name)).transpose()?;
    if only.is_some_and(|phy| pairs.of(phy).is_none()) {
        return fail(LcpError::NoPair(args.text("interface")?.into()).to_string());
    }
    let chosen = pairs.iter().enumerate().filter(|(_, pair)| only.is_none_or(|phy| phy == pair.phy));
    let name = |index: InterfaceIndex| router.interfaces.get(index).map_or_else(|_| "?".into(), |it| it.name.clone());
    let shown = |(number, pair): (usize, &Pair)| ShownPair {
        index: number,
        phy: name(pair.phy),
        tap: name(pair.tap),
        host: pair.host.clone(),
        namespace: pair.namespace.clone(),
    };
    let default_namespace = pairs.default_namespace().map(str::to_string);
    let lcp_sync = pairs.is_synchronous();
    reply(ShowLcp { default_namespace, lcp_sync, pairs: chosen.map(shown).collect() })
}

#[derive(Serialize)]
struct ShownPair {
    index: usize,
    /// The router's interface.
    phy: String,
    /// The interface of the router that leads to Linux.
    tap: String,
    /// The name in Linux.
    host: String,
    namespace: Option<String>,
}

#[derive(Serialize)]
struct ShowLcp {
    default_namespace: Option<String>,
    lcp_sync: bool,
    pairs: Vec<ShownPair>,
}

impl fmt::Display for ShowLcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "lcp default netns '{}'", self.default_namespace.as_deref().unwrap_or("<unset>"))?;
        writeln!(f, "lcp lcp-sync {}", if self.lcp_sync { "on" } else { "off" })?;
        for ShownPair { index, phy, tap, host, namespace } in &self.pairs {
            write!(f, "itf-pair: [{index}] {phy} {tap} {host} type tap")?;
            match namespace {
                Some(namespace) => writeln!(f, " netns {namespace}")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}
