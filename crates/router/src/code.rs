//! Codes of errors: what programs compare, where people read a text.

/// Why an operation was refused. Its text is for people; programs compare its code.
pub trait Coded: std::error::Error + Send + Sync + 'static {
    /// Names the reason. It begins with what the error is about, and never changes.
    fn code(&self) -> &'static str;
}

/// Gives each reason of an error its code: `codes! { SpanError { ToItself => "span-to-itself", } }`.
#[macro_export]
macro_rules! codes {
    ($error:ident { $($reason:ident => $code:literal,)* }) => {
        impl $crate::code::Coded for $error {
            fn code(&self) -> &'static str {
                match self {
                    $($error::$reason { .. } => $code,)*
                }
            }
        }

        $crate::codes! { all of $error: $($code,)* }
    };
    // One reason has codes of its own: it is an error of another kind.
    ($error:ident, or its own of $other:ident { $($reason:ident => $code:literal,)* }) => {
        impl $error {
            /// Names the reason for programs. A code never changes, and always means the same; texts become clearer.
            pub fn code(&self) -> &'static str {
                match self {
                    $($error::$reason { .. } => $code,)*
                    $error::$other(other) => other.code(),
                }
            }
        }

        $crate::codes! { all of $error: $($code,)* }
    };
    (all of $error:ident: $($code:literal,)*) => {
        impl $error {
            /// The codes of all reasons.
            pub const CODES: &[&str] = &[$($code),*];
        }
    };
}
