//! Commands on memifs, as VPP has them.

use super::Memif;
use super::MemifConfig;
use super::control::{add_socket, remove_socket};
use super::kind::secret;
use super::show::show;
use command::{Args, Command, CommandError, CommandSet, Done, Reply, fail, reply};
use drivers::memif::{BUFFER, LOG2_RING, MAX_BUFFER, MAX_LOG2, MAX_QUEUES, MIN_BUFFER, Options, Role, SECRET};
use router::Router;
use router::interface::cli::{create, delete_of};

type Answer = Result<Box<dyn Reply>, CommandError>;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "Shared memory (memif)",
        "A memif connects to another process on this machine: VPP, a DPDK program, a second router. The master \
         listens on a socket; the slave connects and provides the memory.",
    );
    set.add(
        Command::new(
            "create memif socket {{ id <id:u32 1..> | filename <file:socket> }}",
            "Define the socket of a number: a path, or @NAME for an abstract socket.",
            |router: &mut Router, args: &Args| {
                add_socket(router, args.parse("id")?, args.text("file")?)?;
                reply(Done)
            },
        )
        .configures()
        .example("create memif socket id 1 filename /run/vpp/memif1.sock"),
    );
    set.add(
        Command::new(
            "delete memif socket id <id:u32>",
            "Remove a socket that no interface uses.",
            |router: &mut Router, args: &Args| {
                remove_socket(router, args.parse("id")?)?;
                reply(Done)
            },
        )
        .configures()
        .example("delete memif socket id 1"),
    );
    let largest = 1u32 << MAX_LOG2;
    let interface = format!(
        "create interface memif {{{{ [id <id:u32>] | [socket-id <socket:u32>] | [{{master|slave:role}}] | \
         [ring-size <ring:u32 1..{largest}>] | [buffer-size <buffer:u32 {MIN_BUFFER}..{MAX_BUFFER}>] | \
         [rx-queues <rx:u32 1..{MAX_QUEUES}>] | [tx-queues <tx:u32 1..{MAX_QUEUES}>] | [hw-addr <mac:mac>] | \
         [{{zero-copy|no-zero-copy:copying}}] | [secret <secret:word>] | [name <name:word>] }}}}"
    );
    set.add(
        Command::new(&interface, "Create an interface to another process by shared memory.", create_memif)
            .configures()
            .example("create interface memif id 0 socket-id 1 master name e0")
            .example(
                "create interface memif id 0 socket-id 1 slave ring-size 2048 rx-queues 2 tx-queues 2 secret psst",
            ),
    );
    set.add(
        Command::new(
            "delete interface memif <interface:interface>",
            "Remove a memif.",
            |router: &mut Router, args: &Args| delete_of::<MemifConfig>(router, args, "memif"),
        )
        .also("delete interface memif sw_if_index <index:u32>")
        .configures()
        .example("delete interface memif memif1/0"),
    );
    set.add(
        Command::new(
            "show memif [<interface:interface>] [descriptors]",
            "Show memif sockets, connections and rings.",
            show,
        )
        .example("show memif"),
    );
}

fn create_memif(router: &mut Router, args: &Args) -> Answer {
    let socket_id = args.optional("socket")?.unwrap_or(0);
    let ring: u32 = args.optional("ring")?.unwrap_or(1 << LOG2_RING);
    if !ring.is_power_of_two() {
        return fail(format!("ring-size {ring}: expected a power of two"));
    }
    let secret = match args.optional_text("secret").map(secret) {
        Some(None) => return fail(format!("a secret has at most {SECRET} bytes")),
        given => given.flatten(),
    };
    let options = Options {
        name: String::new(),
        id: args.optional("id")?.unwrap_or(0),
        socket_id,
        socket: router.state::<Memif>().socket(socket_id).map_err(router::Error::from)?.into(),
        role: if args.optional_text("role") == Some("master") { Role::Master } else { Role::Slave },
        secret,
        log2_ring_size: ring.trailing_zeros() as u8,
        buffer_size: args.optional("buffer")?.unwrap_or(BUFFER),
        rx_queues: args.optional("rx")?.unwrap_or(1),
        tx_queues: args.optional("tx")?.unwrap_or(1),
        hw_address: args.optional("mac")?,
        zero_copy: args.optional_text("copying") == Some("zero-copy"),
    };
    create(router, args.optional_text("name"), Box::new(MemifConfig(options)))
}
