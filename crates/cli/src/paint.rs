//! Colours of what is said to a person: on a terminal, unless somebody asked for none.
use std::{
    io::{IsTerminal as _, Write as _},
    sync::atomic::{AtomicU8, Ordering},
};

use anstyle::{AnsiColor, Style};

use crate::paths::var;

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// What goes on, for who wants to know.
    Quiet,
    /// Something went wrong, or goes.
    Bad,
    /// Something is added.
    Good,
    /// Something to be answered.
    Asked,
}

/// 0: as the terminal and the environment have it, 1: yes, 2: no.
static WANTED: AtomicU8 = AtomicU8::new(0);

/// From now on with colours, without, or as it would be otherwise. What is not a terminal never gets any.
pub(crate) fn want(it: Option<bool>) {
    WANTED.store(it.map_or(0, |it| if it { 1 } else { 2 }), Ordering::Relaxed);
}

fn coloured() -> bool {
    let wanted = match WANTED.load(Ordering::Relaxed) {
        0 => std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty()) && var("TERM").is_some_and(|it| it != "dumb"),
        it => it == 1,
    };
    wanted && std::io::stderr().is_terminal()
}

/// Says a line on standard error.
pub(crate) fn say_as(tone: Tone, text: &str) {
    let text = sid_core::inert(text);
    let style = match tone {
        Tone::Quiet => Style::new().dimmed(),
        Tone::Bad => AnsiColor::Red.on_default(),
        Tone::Good => AnsiColor::Green.on_default(),
        Tone::Asked => Style::new().bold(),
    };
    let style = if coloured() { style } else { Style::new() };
    let _closed = writeln!(std::io::stderr(), "{style}{text}{style:#}");
}
