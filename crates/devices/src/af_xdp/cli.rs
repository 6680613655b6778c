//! Commands on interfaces of the host that are taken by AF_XDP, as VPP has them.

use super::AfXdpConfig;
use command::{Args, Command, CommandError, CommandSet, Reply, fail};
use drivers::af_xdp::{BUDGET, Copying, MAX_QUEUES, MAX_RING, MIN_RING, Options, RING};
use router::Router;
use router::interface::cli::{create, delete_of};
use std::path::Path;

type Answer = Result<Box<dyn Reply>, CommandError>;

/// Longest time that a busy poll may take, in microseconds.
const MAX_BUSY_POLL: u32 = 10_000;
/// Most packets of a busy poll; the kernel wants no more.
const MAX_BUDGET: u32 = 256;

pub(super) fn register(set: &mut CommandSet<Router>) {
    set.section("Interfaces", "");
    let ring = format!("u32 {MIN_RING}..{MAX_RING}");
    let create = format!(
        "create interface af_xdp {{{{ host-if <host:word> | [name <name:word>] | \
         [num-rx-queues {{all | <queues:u32 1..{MAX_QUEUES}> : many}}] | [rx-queue-size <rx:{ring}>] | \
         [tx-queue-size <tx:{ring}>] | [prog <file:path>] | [netns <namespace:netns>] | \
         [{{zero-copy|no-zero-copy:copying}}] | \
         [busy-poll-usecs <usecs:u32 1..{MAX_BUSY_POLL}>] | [busy-poll-budget <budget:u32 1..{MAX_BUDGET}>] | \
         [no-syscall-lock] | [mac-reuse] | [hw-addr <mac:mac>] }}}}"
    );
    set.add(
        Command::new(
            &create,
            "Create an interface on top of one of the host's, past its network stack (AF_XDP).",
            create_af_xdp,
        )
        .configures()
        .example("create interface af_xdp host-if eth0 name e0")
        .example("create interface af_xdp host-if eth0 num-rx-queues all rx-queue-size 2048 name e0"),
    );
    set.add(
        Command::new(
            "delete interface af_xdp <interface:interface>",
            "Remove an interface made by AF_XDP.",
            |router: &mut Router, args: &Args| delete_of::<AfXdpConfig>(router, args, "AF_XDP interface"),
        )
        .also("delete interface af_xdp sw_if_index <index:u32>")
        .configures()
        .example("delete interface af_xdp eth0/0"),
    );
}

fn create_af_xdp(router: &mut Router, args: &Args) -> Answer {
    let ring = |word: &str, name: &str| {
        let size = args.optional(name)?.unwrap_or(RING);
        if size.is_power_of_two() { Ok(size) } else { fail(format!("{word} {size}: expected a power of two")) }
    };
    let budget: Option<u32> = args.optional("budget")?;
    let busy_poll = match (args.optional("usecs")?, budget) {
        (Some(usecs), budget) => Some((usecs, budget.unwrap_or(BUDGET))),
        (None, Some(_)) => return fail("busy-poll-budget says how much a busy poll brings: it takes busy-poll-usecs"),
        (None, None) => None,
    };
    // The driver opens it by its name: what is wrong with it shows here, and a relative name is made whole.
    let program = match args.optional_text("file").map(Path::new) {
        Some(name) if router.files.are_confined() => {
            router.files.open(name)?;
            Some(router.files.whole(name).display().to_string())
        }
        name => name.map(|name| name.display().to_string()),
    };
    let options = Options {
        namespace: args.optional_text("namespace").map(str::to_string),
        queues: if args.optional_text("many") == Some("all") {
            None
        } else {
            Some(args.optional("queues")?.unwrap_or(1))
        },
        receive_ring: ring("rx-queue-size", "rx")?,
        transmit_ring: ring("tx-queue-size", "tx")?,
        program,
        copying: match args.optional_text("copying") {
            Some("zero-copy") => Copying::Never,
            Some(_) => Copying::Always,
            None => Copying::Auto,
        },
        busy_poll,
        no_syscall_lock: args.flag("no-syscall-lock"),
        reuses_mac: args.flag("mac-reuse"),
        hw_address: args.optional("mac")?,
        ..Options::new(args.text("host")?)
    };
    create(router, args.optional_text("name"), Box::new(AfXdpConfig(options)))
}
