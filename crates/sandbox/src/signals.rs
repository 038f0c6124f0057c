//! Reaching the processes of a child.
use std::{fs, path::Path};

use rustix::process::{Pid, Signal, kill_process_group};

/// Signals the group that `pid` leads. Gone already is fine.
pub(crate) fn signal_group(pid: u32, signal: Signal) {
    let Some(pid) = i32::try_from(pid).ok().filter(|it| *it > 1).and_then(Pid::from_raw) else { return };
    let _gone = kill_process_group(pid, signal);
}

/// Signals one process.
pub(crate) fn signal_one(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().filter(|it| *it > 1).and_then(Pid::from_raw) {
        let _gone = rustix::process::kill_process(pid, signal);
    }
}

/// Signals the group that `pid` is in.
pub(crate) fn signal_group_of(pid: u32, signal: Signal) {
    let group = i32::try_from(pid).ok().and_then(Pid::from_raw).and_then(|it| rustix::process::getpgid(Some(it)).ok());
    if let Some(group) = group {
        signal_group(group.as_raw_nonzero().get().unsigned_abs(), signal);
    }
}

/// The children of a process, from `/proc`.
pub(crate) fn children_of(pid: u32) -> Vec<u32> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_ascii_whitespace().filter_map(|it| it.parse().ok()).collect()
}

/// Kills every process of the session that `leader` began. A session outlives its leader, and a pid is not given out again
/// while a session bears it.
pub(crate) fn kill_session(leader: u32) {
    let Some(leader) = i32::try_from(leader).ok().filter(|it| *it > 1) else { return };
    for entry in fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok) {
        let Some(pid) = entry.file_name().to_str().and_then(|it| Pid::from_raw(it.parse().ok()?)) else { continue };
        // SAFETY: a plain system call. That of `rustix` has no form for the session of the kernel's own threads, which is 0.
        if unsafe { libc::getsid(pid.as_raw_nonzero().get()) } == leader {
            let _gone = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

/// Kills sandboxes that an earlier sid left behind when it was killed while they were being set up: Bubblewrap dies with its
/// parent, but its child only learns of that later, and waits for ever. `marker` is an argument that only ours have.
pub(crate) fn sweep(marker: &Path) {
    for entry in fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok) {
        let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse::<i32>().ok()) else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = line.split(|it| *it == 0);
        let ours =
            words.next().is_some_and(|it| it.ends_with(b"bwrap")) && words.any(|it| it == marker.as_os_str().as_encoded_bytes());
        if let Some(pid) = Pid::from_raw(pid).filter(|_| ours && is_left_half(&entry.path())) {
            let _gone = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

/// Whether this is the inner half of a sandbox, the first process of a namespace of its own, without its outer half.
fn is_left_half(proc: &Path) -> bool {
    let status = fs::read_to_string(proc.join("status")).unwrap_or_default();
    let field =
        |name: &str| status.lines().find_map(|it| it.strip_prefix(name)).map(|it| it.split_whitespace().collect::<Vec<_>>());
    let (Some(pids), Some(parent)) = (field("NSpid:"), field("PPid:")) else { return false };
    let inner = pids.len() > 1 && pids.last() == Some(&"1");
    // The outer half lives as long as its sid does; where the parent can't be read, nothing is done.
    let parent = fs::read_to_string(format!("/proc/{}/comm", parent.concat()));
    inner && parent.is_ok_and(|it| it.trim_end() != "bwrap")
}
