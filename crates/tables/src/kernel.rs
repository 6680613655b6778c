//! Which instruction set looks up batches.

use std::sync::OnceLock;

/// A way to look up batches. All give the same leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Any processor: plain loads and software prefetch.
    Scalar,
    /// Vectors of 32 bytes.
    Avx2,
    /// Vectors of 64 bytes.
    Avx512,
}

impl Kernel {
    /// All kernels, the best last.
    pub const ALL: [Kernel; 3] = [Kernel::Scalar, Kernel::Avx2, Kernel::Avx512];

    /// Whether this processor can run it.
    pub fn supported(self) -> bool {
        match self {
            Kernel::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => is_x86_feature_detected!("avx2") && scalar_extensions(),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => {
                is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") && scalar_extensions()
            }
            #[cfg(not(target_arch = "x86_64"))]
            Kernel::Avx2 | Kernel::Avx512 => false,
        }
    }

    /// The best that the processor supports, or the one that the environment chooses with
    /// `QUIVER_SIMD=scalar|sse4.2|avx2|avx512` as far as the processor supports it. Read once.
    pub fn chosen() -> Kernel {
        static CHOSEN: OnceLock<Kernel> = OnceLock::new();
        *CHOSEN.get_or_init(|| {
            let limit = match std::env::var("QUIVER_SIMD").as_deref() {
                // There are none for SSE4.2.
                Ok("scalar" | "sse4.2" | "sse42") => 1,
                Ok("avx2") => 2,
                _ => Kernel::ALL.len(),
            };
            let best = Kernel::ALL[..limit].iter().rev().find(|k| k.supported());
            *best.expect("scalar runs anywhere")
        })
    }
}

/// Other extensions of every processor with AVX2; a hypervisor may hide them from its guest.
#[cfg(target_arch = "x86_64")]
fn scalar_extensions() -> bool {
    is_x86_feature_detected!("popcnt") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2")
}
