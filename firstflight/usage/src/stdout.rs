//! Whether standard output was open when the program started.
//!
//! Rust's runtime puts /dev/null in the place of a closed one before `main`, where records would vanish without a word;
//! so the question is asked before the runtime starts, by a function that the loader calls.

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    // SAFETY: fcntl with F_GETFD only reads a flag of a descriptor, which may be closed.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags == -1, Ordering::Relaxed);
}

// SAFETY: the section holds pointers to functions that are called without arguments that `look` would need, before
// main and after libc is ready; `look` uses nothing of Rust's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Whether records written to standard output would reach nobody.
pub fn was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}
