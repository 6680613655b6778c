//! DPDK's `dpdk-testpmd` as the device under test: it forwards between two memifs what it gets, as it is.

use super::process::Process;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The program. It is started when the load tester's ports are there, for it gives up when they are not.
#[derive(Debug)]
pub struct TestpmdDevice {
    sockets: [PathBuf; 2],
    core: Option<u32>,
    process: Option<Process>,
    pub ports: [String; 2],
}

impl TestpmdDevice {
    /// Prepares it, to forward on a core.
    pub fn new(core: Option<u32>) -> TestpmdDevice {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let sockets = [0, 1].map(|port| {
            std::env::temp_dir().join(format!("quiver-loadtest-{}-{number}-{port}.sock", std::process::id()))
        });
        let ports = [0, 1].map(|port: usize| {
            // It forwards whatever comes, to whomever.
            format!("memif:{},role=master,dst=02:00:00:00:00:0{}", sockets[port].display(), port + 1)
        });
        TestpmdDevice { sockets, core, process: None, ports }
    }

    /// Starts it.
    ///
    /// # Errors
    /// When it is not there, or ends at once.
    pub fn start(&mut self) -> Result<(), String> {
        let mut command = Command::new("dpdk-testpmd");
        // It wants a core for itself beside the one that forwards.
        let core = self.core.unwrap_or(0);
        command.args(["-v", "--no-huge", "-m", "256", "--no-pci", "--no-telemetry"]);
        command.args(["--file-prefix", &format!("quiver-loadtest-{}", std::process::id())]);
        command.args(["--lcores", &format!("0@{core},1@{core}")]);
        for (port, socket) in self.sockets.iter().enumerate() {
            let device = format!("net_memif{port},role=client,id=0,socket={},socket-abstract=no", socket.display());
            command.args(["--vdev", &device]);
        }
        command.args([
            "--",
            "--total-num-mbufs=8192",
            "--forward-mode=io",
            "--auto-start",
            "--no-mlockall",
            "--no-flush-rx",
        ]);
        command.args(["--stats-period", "3600"]);
        self.process =
            Some(Process::start(command).map_err(|error| format!("dpdk-testpmd (package dpdk-dev): {error}"))?);
        Ok(())
    }

    /// Its version, and what it does.
    pub fn mode(&self) -> String {
        let version = self.process.as_ref().and_then(|process| process.line_with("DPDK "));
        // EAL: RTE Version: 'DPDK 22.11.9'
        let version = version.and_then(|line| line.split('\'').nth(1).map(String::from));
        format!("{}, forward mode io, one core", version.unwrap_or_else(|| "DPDK".into()))
    }

    /// Says why, when it has ended.
    ///
    /// # Errors
    /// Its last words.
    pub fn check(&mut self) -> Result<(), String> {
        self.process.as_mut().map_or(Ok(()), Process::check)
    }
}

impl Drop for TestpmdDevice {
    fn drop(&mut self) {
        self.process = None;
        for socket in &self.sockets {
            let _ = std::fs::remove_file(socket);
        }
    }
}
