//! The kernel's keys: tickets and tokens that a session hands down from process to process, past every namespace.
use std::{os::unix::process::CommandExt as _, process::Command};

/// Operations of `keyctl(2)`.
const JOIN: libc::c_long = 1;
const DESCRIBE: libc::c_long = 6;
const READ: libc::c_long = 11;
/// The keyring of the session.
const SESSION: i32 = -3;
/// Keyrings within keyrings that are looked through.
const DEPTH: u32 = 4;

/// The child begins with an empty keyring, if there is a key that it could find. (Where there is none it is started in the quicker way,
/// which leaves no time for this.)
pub(crate) fn without_keys(child: &mut Command) {
    if !holds_a_key(SESSION, DEPTH) {
        return;
    }
    // SAFETY: one system call without pointers of ours, which is safe between fork and exec.
    unsafe {
        child.pre_exec(|| {
            let _unsupported = libc::syscall(libc::SYS_keyctl, JOIN, std::ptr::null::<libc::c_char>());
            Ok(())
        });
    }
}

/// Whether there is anything but keyrings in a keyring. What can't be looked at may hold one.
fn holds_a_key(ring: i32, depth: u32) -> bool {
    let mut serials = [0_i32; 64];
    let room = size_of_val(&serials);
    // SAFETY: the kernel writes at most `room` bytes into the array, which lives as long as the call.
    let bytes = unsafe { libc::syscall(libc::SYS_keyctl, READ, ring, serials.as_mut_ptr(), room) };
    let Ok(bytes) = usize::try_from(bytes) else {
        return std::io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS);
    };
    bytes > room
        || serials[..bytes / size_of::<i32>()].iter().any(|it| !is_keyring(*it) || depth == 0 || holds_a_key(*it, depth - 1))
}

fn is_keyring(key: i32) -> bool {
    let mut text = [0_u8; 256];
    // SAFETY: the kernel writes at most as many bytes as the array has, which lives as long as the call.
    let len = unsafe { libc::syscall(libc::SYS_keyctl, DESCRIBE, key, text.as_mut_ptr(), text.len()) };
    len > 0 && text.starts_with(b"keyring;")
}
