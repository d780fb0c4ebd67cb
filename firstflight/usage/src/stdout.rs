//! Whether standard output was open when the program started.
//!
//! Before `main`, Rust's runtime replaces a closed standard output by /dev/null, where records would be lost silently.
//! So a function that the loader calls before the runtime starts makes the check.

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    // SAFETY: fcntl with F_GETFD only reads a flag of a descriptor, which may be closed.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags == -1, Ordering::Relaxed);
}

// SAFETY: the section contains pointers to functions, which are called before main and after libc is ready. `look`
// needs no arguments and uses nothing from Rust's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Whether standard output was closed at the start, so that records written to it would be lost.
pub fn was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}
