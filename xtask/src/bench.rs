//! What sid costs, as ratios to a bare program in the same run. Writes `docs/bench.md`.
mod network;
mod rc;

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sid_testkit::{Fake, Reply};

pub(crate) use network::{inside, proxy};

use crate::{Done, root, sid};

/// One line of the report.
struct Row {
    what: &'static str,
    budget: &'static str,
    ours: String,
    floor: String,
    ratio: String,
}

impl Row {
    /// Ours beside the floor, both in milliseconds.
    fn beside(what: &'static str, budget: &'static str, ours: f64, floor: f64, ratio: String) -> Self {
        Self { what, budget, ours: ms(ours), floor: ms(floor), ratio }
    }

    /// A figure that has no floor.
    fn alone(what: &'static str, budget: &'static str, ours: String) -> Self {
        Self { what, budget, ours, floor: String::new(), ratio: String::new() }
    }
}

/// A temporary world for one program.
struct World {
    dir: tempfile::TempDir,
    /// In memory, so that what the disk's syncs cost is a row of its own.
    sessions: tempfile::TempDir,
    program: PathBuf,
}

/// What one run showed.
struct Ran {
    /// From start to each request, in milliseconds.
    requests: Vec<f64>,
    total: f64,
    cpu: f64,
    pss_kib: u64,
}

impl Ran {
    fn rounds(&self) -> Vec<f64> {
        self.requests.windows(2).map(|it| it[1] - it[0]).collect()
    }
}

const RUNS: usize = 7;
/// Of two things in turn: enough that a few that something else disturbed do not count.
const PAIRS: usize = 15;

type Part = fn(&Path) -> Result<Vec<Row>, String>;

const PARTS: [(&str, Part); 11] = [
    ("start", start),
    ("shells", shells),
    ("spare", spare),
    ("reads", reads),
    ("stream", stream),
    ("resume", resume),
    ("trees", trees),
    ("journal", journal),
    ("network", network::network),
    ("flood", flood),
    ("rc", rc::rc),
];

/// Prints one part of the report, of this program.
pub(crate) fn one(part: &str, program: &Path) -> Done {
    let names = PARTS.map(|it| it.0).join(", ");
    let (_, part) = PARTS.into_iter().find(|it| it.0 == part).ok_or(format!("there is no part {part}; there are {names}"))?;
    print!("{}", report(&part(program)?, &machine()));
    Ok(())
}

pub(crate) fn bench() -> Done {
    let program = sid()?;
    let mut rows = Vec::new();
    for (_, part) in PARTS {
        rows.extend(part(&program)?);
    }
    let text = report(&rows, &machine());
    print!("{text}");
    fs::write(root().join("docs/bench.md"), text).map_err(|err| err.to_string())
}

fn machine() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{cores} cores, Linux {}", kernel.trim())
}

fn report(rows: &[Row], machine: &str) -> String {
    let mut out = format!(
        "# What sid costs\n\nMeasured by `cargo xtask bench` on {machine}; medians, each row's floor in the same run. The floor is a bare program that \
         sends the requests, reads the answers and runs the commands, and does nothing else. The ratios are what counts; a time alone says little \
         on a shared machine. \
         Sessions are kept in memory here; what a disk adds is the last row.\n\n| what | sid | floor | ratio | budget |\n| --- | --- | --- | --- | --- |\n"
    );
    for it in rows {
        let _infallible = writeln!(out, "| {} | {} | {} | {} | {} |", it.what, it.ours, it.floor, it.ratio, it.budget);
    }
    out
}

impl World {
    fn new(program: &Path) -> Result<Self, String> {
        let dir = tempfile::tempdir_in("/var/tmp").map_err(|err| err.to_string())?;
        fs::create_dir(dir.path().join("work")).map_err(|err| err.to_string())?;
        // What is measured is the length of conversations, not how they are shortened.
        let config = dir.path().join(".config/sid");
        fs::create_dir_all(&config).map_err(|err| err.to_string())?;
        fs::write(config.join("settings.toml"), "[context]\ncompact_at = 0\n").map_err(|err| err.to_string())?;
        let sessions = tempfile::tempdir_in("/dev/shm").map_err(|err| err.to_string())?;
        Ok(Self { dir, sessions, program: program.to_owned() })
    }

    fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    fn sid(&self, fake: &Fake, args: &[&str]) -> Result<Ran, String> {
        let mut command = Command::new(&self.program);
        command.args(["run", "go", "--model", "m", "--output", "jsonl", "--max-tool-rounds", "500"]).args(args);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", self.dir.path());
        command
            .env("OPENAI_BASE_URL", format!("{}/v1", fake.url()))
            .env("OPENAI_API_KEY", "k")
            .env("SID_SESSIONS", self.sessions.path());
        self.run(fake, command)
    }

    fn floor(&self, fake: &Fake, bytes: usize, wrapper: &[&str]) -> Result<Ran, String> {
        let mut command = Command::new(std::env::current_exe().map_err(|err| err.to_string())?);
        let port = fake.url().rsplit(':').next().unwrap_or_default().to_owned();
        command.args(["floor", &port, &bytes.to_string()]).args(wrapper);
        self.run(fake, command)
    }

    fn run(&self, fake: &Fake, mut command: Command) -> Result<Ran, String> {
        let cpu = children_cpu();
        let begun = Instant::now();
        let mut child =
            command.current_dir(self.work()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(|err| err.to_string())?;
        let pss_kib = watch(&mut child)?;
        let total = begun.elapsed().as_secs_f64() * 1e3;
        let requests = fake.requests().iter().map(|it| (it.at - begun).as_secs_f64() * 1e3).collect();
        Ok(Ran { requests, total, cpu: children_cpu() - cpu, pss_kib })
    }
}

/// Waits for a child and returns the most memory it was seen to hold alone.
fn watch(child: &mut Child) -> Result<u64, String> {
    let path = format!("/proc/{}/smaps_rollup", child.id());
    let watcher = thread::spawn(move || {
        let mut most = 0;
        while let Ok(text) = fs::read_to_string(&path) {
            let pss = text.lines().find_map(|it| it.strip_prefix("Pss:")?.split_whitespace().next()?.parse().ok());
            let Some(pss) = pss else { break };
            most = most.max(pss);
            thread::sleep(Duration::from_millis(15));
        }
        most
    });
    let status = child.wait().map_err(|err| err.to_string())?;
    let most = watcher.join().unwrap_or(0);
    if !status.success() {
        let mut said = String::new();
        if let Some(pipe) = &mut child.stderr {
            let _unread = std::io::Read::read_to_string(pipe, &mut said);
        }
        return Err(format!("a run failed: {said}"));
    }
    Ok(most)
}

/// Processor seconds of all children that have ended.
fn children_cpu() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(1).filter_map(|it| it.parse().ok()).collect();
    (fields.get(12).unwrap_or(&0.0) + fields.get(13).unwrap_or(&0.0)) / 100.0
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}

fn several(mut one: impl FnMut() -> Result<f64, String>) -> Result<f64, String> {
    (0..RUNS).map(|_| one()).collect::<Result<Vec<_>, _>>().map(median)
}

/// Two things measured in turn, so that what else the machine does falls on both.
fn pairs(
    count: usize,
    mut ours: impl FnMut() -> Result<f64, String>,
    mut floor: impl FnMut() -> Result<f64, String>,
) -> Result<Vec<(f64, f64)>, String> {
    (0..count).map(|_| Ok((ours()?, floor()?))).collect()
}

/// The medians of both.
fn medians(all: &[(f64, f64)]) -> (f64, f64) {
    (median(all.iter().map(|it| it.0).collect()), median(all.iter().map(|it| it.1).collect()))
}

fn pair(ours: impl FnMut() -> Result<f64, String>, floor: impl FnMut() -> Result<f64, String>) -> Result<(f64, f64), String> {
    Ok(medians(&pairs(PAIRS, ours, floor)?))
}

fn ms(it: f64) -> String {
    if it < 1.0 { format!("{:.0} µs", it * 1e3) } else { format!("{it:.1} ms") }
}

fn times(ours: f64, floor: f64) -> String {
    format!("{:.1}×", ours / floor)
}

fn over(ours: f64, floor: f64) -> String {
    let sign = if ours < floor { '−' } else { '+' };
    format!("{sign}{}", ms((ours - floor).abs()))
}

fn script(rounds: usize, call: &Value) -> Fake {
    let tool = if call.get("command").is_some() { "run_command" } else { "read_file" };
    Fake::lean((0..rounds).map(|_| Reply::call(tool, call)).chain([Reply::text("done")]))
}

fn start(program: &Path) -> Result<Vec<Row>, String> {
    let hello = || Fake::lean([Reply::text("done")]);
    let world = World::new(program)?;
    let first = |it: Ran| it.requests.first().copied().unwrap_or(f64::NAN);
    let (ours, floor) = pair(
        || {
            let fake = hello();
            Ok(first(world.sid(&fake, &[])?))
        },
        || {
            let fake = hello();
            Ok(first(world.floor(&fake, 0, &[])?))
        },
    )?;
    let ratio = format!("{} ({})", times(ours, floor), over(ours, floor));
    Ok(vec![Row::beside("start → first request", "≤ 4× the floor or + 5 ms", ours, floor, ratio)])
}

const ROUNDS: usize = 40;

/// The median of a round of a script, ours and the floor's in turn; and the most memory ours held.
fn rounds(
    world: &World,
    scripted: impl Fn(&World) -> Fake,
    mode: &str,
    floor: impl Fn(&World) -> Result<Ran, String>,
) -> Result<(f64, f64, u64), String> {
    let mut most = 0;
    let ours = || {
        let fake = scripted(world);
        let ran = world.sid(&fake, &["--mode", mode])?;
        most = most.max(ran.pss_kib);
        Ok(median(ran.rounds()))
    };
    let (ours, floor) = pair(ours, || Ok(median(floor(world)?.rounds())))?;
    Ok((ours, floor, most))
}

const BARE: &[&str] = &[
    "bwrap",
    "--new-session",
    "--die-with-parent",
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
    "--unshare-user",
    "--unshare-pid",
    "--unshare-net",
    "--proc",
    "/proc",
    "--",
];

fn shells(program: &Path) -> Result<Vec<Row>, String> {
    let call = json!({"command": "true"});
    let fake = |_: &World| script(ROUNDS, &call);
    let world = World::new(program)?;
    let (open, bare, _) = rounds(&world, fake, "full_access", |it| it.floor(&fake(it), 0, &[]))?;
    let (walled, bwrap, memory) = rounds(&world, fake, "workspace_write", |it| it.floor(&fake(it), 0, BARE))?;
    let wall = "shell round in the sandbox (floor: bare `bwrap`)";
    Ok(vec![
        Row::beside("shell round without sandbox", "≤ floor + 1 ms", open, bare, over(open, bare)),
        Row::beside(wall, "≤ floor + 1.5 ms", walled, bwrap, over(walled, bwrap)),
        Row::alone("memory of `sid run` (PSS)", "≤ 12 MiB", format!("{:.1} MiB", mib(memory))),
    ])
}

#[expect(clippy::cast_precision_loss, reason = "sizes of a report")]
fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

/// A model that takes its time leaves time to make the next sandbox.
fn spare(program: &Path) -> Result<Vec<Row>, String> {
    let world = World::new(program)?;
    let path = world.work().join("f.txt");
    fs::write(&path, "x").map_err(|err| err.to_string())?;
    let slow = |tool: &'static str, call: Value| {
        let late = |it| Reply::Late(Duration::from_millis(20), Box::new(it));
        Fake::lean((0..20).map(move |_| late(Reply::call(tool, &call))).chain([Reply::text("done")]))
    };
    let command = |_: &World| slow("run_command", json!({"command": "true"}));
    let nothing = |it: &World| it.floor(&slow("read_file", json!({ "path": path })), 0, &[]);
    let (ours, floor, _) = rounds(&world, command, "workspace_write", nothing)?;
    let what = "shell round in a sandbox made while the model answers (20 ms; floor: no command)";
    Ok(vec![Row::beside(what, "≤ floor + 2 ms", ours, floor, over(ours, floor))])
}

/// A round takes a tenth of a millisecond, and processes differ by more than 5 % of that.
const FLOODS: usize = 61;

/// Reads beside a background command that prints as fast as it can, and the same without.
fn flood(program: &Path) -> Result<Vec<Row>, String> {
    let world = World::new(program)?;
    fs::write(world.work().join("f.txt"), "x").map_err(|err| err.to_string())?;
    let with = |line: &str| {
        let call = json!({"command": line, "run_in_background": true});
        let reads = (0..200).map(|_| Reply::call("read_file", &json!({"path": "f.txt"})));
        Fake::lean([Reply::call("run_command", &call)].into_iter().chain(reads).chain([Reply::text("done")]))
    };
    let (mut flooded, mut quiet) = (0, 0);
    let one = |line: &str, most: &mut u64| -> Result<f64, String> {
        let fake = with(line);
        let ran = world.sid(&fake, &["--mode", "workspace_write"])?;
        *most = (*most).max(ran.pss_kib);
        Ok(median(ran.rounds().into_iter().skip(20).collect()))
    };
    let flood = || one("exec yes a-line-of-a-flood", &mut flooded);
    let all = pairs(FLOODS, flood, || one("exec sleep 60", &mut quiet))?;
    let (ours, floor) = medians(&all);
    let held = format!("{:.1} MiB", mib(flooded.saturating_sub(quiet)));
    // Of each pair: from one to the next the rounds themselves differ by more than the flood.
    let ratio = format!("{:+.0} %", (median(all.iter().map(|it| it.0 / it.1).collect()) - 1.0) * 100.0);
    Ok(vec![
        Row {
            what: "a read round beside a flood in the background (floor: beside a quiet one)",
            budget: "≤ 5 % slower",
            ours: ms(ours),
            floor: ms(floor),
            ratio,
        },
        Row::alone("memory that the flood adds (PSS)", "≤ 4 MiB", held),
    ])
}

fn reads(program: &Path) -> Result<Vec<Row>, String> {
    let world = World::new(program)?;
    let path = world.work().join("f.txt");
    fs::write(&path, "line of a small file\n".repeat(20)).map_err(|err| err.to_string())?;
    let call = json!({ "path": path });
    let fake = |_: &World| script(ROUNDS, &call);
    let (ours, bare, _) = rounds(&world, fake, "read_only", |it| it.floor(&fake(it), 0, &[]))?;
    Ok(vec![Row::beside("file read round", "≤ 0.5 ms", ours, bare, over(ours, bare))])
}

fn stream(program: &Path) -> Result<Vec<Row>, String> {
    let world = World::new(program)?;
    let words = || Fake::lean([Reply::Text((0..20_000).map(|it| format!("word{it} ")).collect())]);
    let (mut cpu, mut most) = (Vec::new(), 0);
    let ours = || {
        let fake = words();
        let ran = world.sid(&fake, &[])?;
        cpu.push(ran.cpu);
        most = most.max(ran.pss_kib);
        Ok(ran.total)
    };
    let floor = || {
        let fake = words();
        Ok(world.floor(&fake, 0, &[])?.total)
    };
    let (ours, floor) = pair(ours, floor)?;
    Ok(vec![
        Row::beside("20,000 deltas → exit, JSON lines", "≤ 1.2× the floor", ours, floor, times(ours, floor)),
        Row::alone("the same: processor time", "≤ 0.25 s", format!("{:.2} s", median(cpu))),
        Row::alone("the same: memory (PSS)", "flat, ≤ 12 MiB", format!("{:.1} MiB", mib(most))),
    ])
}

/// A journal of one turn with that many rounds.
fn old_session(world: &World, rounds: usize) -> Result<u64, String> {
    let dir = world.sessions.path().join("old");
    fs::create_dir_all(&dir).map_err(|err| err.to_string())?;
    let mut lines = vec![
        json!({"opened": {"v": 1, "at": 1, "id": "old", "cwd": "/", "model": "m", "mode": "manual", "sid": "0"}}),
        json!({"user": {"at": 1, "text": "go"}}),
    ];
    for n in 0..rounds {
        let id = format!("call_{n}");
        let call = json!({"id": id, "tool": "run_command", "args": "{\"command\":\"cat some/file.txt\"}"});
        lines.push(
            json!({"assistant": {"at": 1, "parts": [{"text": "Looking at the next file now."}, {"call": call}], "stop": "end"}}),
        );
        lines.push(json!({"started": {"at": 1, "call": id, "label": "cat some/file.txt", "bounds": "workspace"}}));
        lines.push(json!({"finished": {"at": 1, "call": id, "outcome": {"status": "ok", "text": "a line of output\n".repeat(8)}}}));
    }
    lines.push(json!({"assistant": {"at": 1, "parts": [{"text": "done"}], "stop": "end"}}));
    let text: String = lines.iter().map(|it| format!("{it}\n")).collect();
    fs::write(dir.join("events.jsonl"), &text).map_err(|err| err.to_string())?;
    Ok(text.len() as u64)
}

fn resume(program: &Path) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    let first = |it: &Ran| it.requests.first().copied().unwrap_or(f64::NAN);
    for (rounds, what, budget) in
        [(400, "resume of 400 rounds → first request", "≤ 20 ms"), (10_000, "resume of 10,000 rounds → first request", "≤ 200 ms")]
    {
        let world = World::new(program)?;
        let mut body = 0;
        let mut most = 0;
        let ours = several(|| {
            old_session(&world, rounds)?;
            let fake = Fake::lean([Reply::text("done")]);
            let ran = world.sid(&fake, &["--resume", "old"])?;
            body = fake.bytes().first().copied().unwrap_or(0);
            most = most.max(ran.pss_kib);
            Ok(first(&ran))
        })?;
        let floor = several(|| {
            let fake = Fake::lean([Reply::text("done")]);
            Ok(first(&world.floor(&fake, body, &[])?))
        })?;
        rows.push(Row {
            what,
            budget,
            ours: ms(ours),
            floor: format!("{} (sends the same {} kB)", ms(floor), body / 1000),
            ratio: times(ours, floor),
        });
        if rounds == 10_000 {
            let (bytes, records) = (old_session(&world, rounds)?, 3 * rounds as u64);
            let over = (most.saturating_sub(7 * 1024) * 1024).saturating_sub(bytes) / records;
            let ours = format!("{:.1} MiB, {over} B a record", mib(most));
            rows.push(Row::alone("memory after it (PSS), beyond the records' bytes", "≤ 1 KiB a record", ours));
            rows.push(late_rounds(&world, body)?);
        }
    }
    Ok(rows)
}

/// What a round costs after 10,000 others, beyond what sending the same bytes costs.
fn late_rounds(world: &World, body: usize) -> Result<Row, String> {
    let path = world.work().join("f.txt");
    fs::write(&path, "x\n").map_err(|err| err.to_string())?;
    let call = json!({ "path": path });
    let args = ["--mode", "read_only"];
    let early = several(|| {
        let fake = script(20, &call);
        Ok(median(world.sid(&fake, &args)?.rounds()))
    })?;
    let floor_early = several(|| {
        let fake = script(20, &call);
        Ok(median(world.floor(&fake, 8000, &[])?.rounds()))
    })?;
    let late = several(|| {
        old_session(world, 10_000)?;
        let fake = script(20, &call);
        Ok(median(world.sid(&fake, &["--mode", "read_only", "--resume", "old"])?.rounds()))
    })?;
    let floor_late = several(|| {
        let fake = script(20, &call);
        Ok(median(world.floor(&fake, body, &[])?.rounds()))
    })?;
    let ratio =
        format!("{} more than the floor, {} at the start", ms((late - floor_late).max(0.0)), ms((early - floor_early).max(0.0)));
    Ok(Row {
        what: "a read round after 10,000 rounds",
        budget: "≤ 1.3× the first, less the floor",
        ours: ms(late),
        floor: ms(floor_late),
        ratio,
    })
}

fn trees(program: &Path) -> Result<Vec<Row>, String> {
    let world = World::new(program)?;
    for n in 0..100_000 {
        let dir = world.work().join(format!("d{:02}/e{:02}", n / 1000, n / 100 % 10));
        if n % 100 == 0 {
            fs::create_dir_all(&dir).map_err(|err| err.to_string())?;
        }
        let needle = if n % 5000 == 0 { "the needle\n" } else { "" };
        fs::write(dir.join(format!("file{n}.txt")), format!("some words of file {n}\n{needle}more words\n"))
            .map_err(|err| err.to_string())?;
    }
    let rg = |args: &[&str]| -> Result<f64, String> {
        several(|| {
            let begun = Instant::now();
            let done =
                Command::new("rg").args(["--hidden", "-g", "!.git", "--no-config"]).args(args).current_dir(world.work()).output();
            done.map_err(|err| format!("rg: {err} (package ripgrep)"))?;
            Ok(begun.elapsed().as_secs_f64() * 1e3)
        })
    };
    let ours = |tool: &str, args: &Value| -> Result<f64, String> {
        several(|| {
            let fake = Fake::lean([Reply::call(tool, args), Reply::text("done")]);
            Ok(median(world.sid(&fake, &["--mode", "read_only"])?.rounds()))
        })
    };
    let (search, search_rg) =
        (ours("search_files", &json!({"pattern": "the needle", "max_results": 1000}))?, rg(&["-n", "the needle", "."])?);
    let (glob, glob_rg) = (ours("glob", &json!({"pattern": "**/*777.txt"}))?, rg(&["--files", "-g", "**/*777.txt"])?);
    let (searching, listing) = ("search of 100,000 files (floor: `rg`)", "glob of 100,000 files (floor: `rg --files`)");
    Ok(vec![
        Row::beside(searching, "≤ 1.2× rg", search, search_rg, times(search, search_rg)),
        Row::beside(listing, "≤ 1.2× rg", glob, glob_rg, times(glob, glob_rg)),
    ])
}

fn journal(program: &Path) -> Result<Vec<Row>, String> {
    let world = World::new(program)?;
    let fake = script(100, &json!({"command": "seq 100"}));
    world.sid(&fake, &["--mode", "workspace_write"])?;
    let sent = fake.bytes().last().copied().unwrap_or(1);
    let session = fs::read_dir(world.sessions.path()).map_err(|err| err.to_string())?.flatten().next().ok_or("no session")?;
    let disk: u64 = fs::read_dir(session.path())
        .map_err(|err| err.to_string())?
        .flatten()
        .filter_map(|it| Some(it.metadata().ok()?.len()))
        .sum();
    let probe = fs::File::create(world.work().join("sync")).map_err(|err| err.to_string())?;
    let sync = several(|| {
        let begun = Instant::now();
        std::io::Write::write_all(&mut &probe, b"a record\n").and_then(|()| probe.sync_data()).map_err(|err| err.to_string())?;
        Ok(begun.elapsed().as_secs_f64() * 1e3)
    })?;
    #[expect(clippy::cast_precision_loss, reason = "sizes of a report")]
    let ratio = disk as f64 / sent as f64;
    Ok(vec![
        Row {
            what: "bytes on disk (floor: bytes of the conversation)",
            budget: "≤ 1.5×",
            ours: format!("{} kB", disk / 1000),
            floor: format!("{} kB", sent / 1000),
            ratio: format!("{ratio:.2}×"),
        },
        Row::alone("one `fdatasync` on this disk; a shell round waits for one", "reported", ms(sync)),
    ])
}
