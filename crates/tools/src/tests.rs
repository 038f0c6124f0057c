//! Scenario folders are the spec of each tool: `NNN_name/{input/,call.json,expected/,outcome.txt}`. `call.json` is a list of
//! calls of one session; `expected/` is the tree after them (as before, if absent); `{D}` stands for the workspace.
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use sid_policy::{Answer, Fence, Mode, Refusal, Rules, Verdict};
use sid_sandbox::{Environment, Host, resolve};

use super::*;

fn scenarios() -> Vec<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let below = |dir: &Path| fs::read_dir(dir).unwrap().map(|it| it.unwrap().path()).collect::<Vec<_>>();
    let mut out: Vec<PathBuf> = below(&root).iter().flat_map(|it| below(it)).collect();
    out.sort();
    out
}

fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut out = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            out.extend(tree(&entry.path()).into_iter().map(|(path, bytes)| (Path::new(&entry.file_name()).join(path), bytes)));
        } else {
            out.insert(entry.file_name().into(), fs::read(entry.path()).unwrap());
        }
    }
    out
}

fn copy(from: &Path, to: &Path) {
    for (path, bytes) in tree(from) {
        let path = to.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = fs::File::create(path).unwrap();
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        // Glob sorts by age; what is as old is sorted by name.
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    }
}

struct World {
    tools: Vec<Box<dyn Tool>>,
    rules: Rules,
    host: Host,
    view: View,
    known: HashMap<String, String>,
}

impl World {
    fn new(work: &Path) -> Self {
        let protected = vec!["sid.toml".to_owned()];
        let fence = Arc::new(Fence { roots: vec![work.to_owned()], protected, ..Fence::default() });
        let (tools, allow, deny) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let rules = Rules { mode: Mode::WorkspaceWrite, fence, allow, deny, default: None, tools };
        let environment = Environment::new([("PATH".into(), "/usr/bin:/bin".into())], &[], &[]);
        let host = Host::new(environment, work.with_file_name("before"));
        Self {
            tools: sigit(),
            rules,
            host,
            view: View { cwd: work.to_owned(), places: Vec::new(), skills: Vec::new() },
            known: HashMap::new(),
        }
    }

    async fn call(&mut self, name: &str, args: &str) -> Outcome {
        let tool = self.tools.iter().find(|it| it.name() == name).unwrap();
        let plan = match tool.plan(args, &self.view) {
            Ok(it) => it,
            Err(why) => return Outcome::failed(format!("Error: {why}")),
        };
        let permit = match self.rules.judge(resolve(plan.access)) {
            Verdict::Allow(permit) => permit,
            Verdict::Fault(why) => return Outcome::failed(why),
            Verdict::Deny(Refusal(why)) => return Outcome::denied(why),
            Verdict::Review(request) => return Outcome::denied(request.why),
            Verdict::Ask(question) => return Outcome::denied(question.answer(Answer::Nobody).unwrap_err().0),
        };
        let outcome = (plan.action)(&Confined::enter(&self.host, permit), Arc::new(self.known.clone())).await;
        self.known.extend(outcome.seen.iter().map(|it| (it.path.clone(), it.stamp.clone())));
        outcome
    }
}

fn play(scenario: &Path) {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let work = fs::canonicalize(dir.path()).unwrap().join("work");
    fs::create_dir(&work).unwrap();
    copy(&scenario.join("input"), &work);
    let calls: Vec<serde_json::Value> = serde_json::from_slice(&fs::read(scenario.join("call.json")).unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let said = runtime.block_on(async {
        let mut world = World::new(&work);
        let mut said = String::new();
        for call in calls {
            let outcome = world.call(call["tool"].as_str().unwrap(), &call["args"].to_string()).await;
            let text =
                outcome.text.replace(&*work.to_string_lossy(), "{D}").replace(&*work.parent().unwrap().to_string_lossy(), "{D}/..");
            said.push_str(&format!("== {:?}\n{text}\n", outcome.status));
        }
        world.host.shut_down(std::time::Duration::from_millis(100)).await;
        said
    });
    let outcome = scenario.join("outcome.txt");
    if option_env!("UPDATE_DATA").is_some() {
        fs::File::create(&outcome).and_then(|mut it| std::io::Write::write_all(&mut it, said.as_bytes())).unwrap();
    }
    assert_eq!(said, fs::read_to_string(&outcome).unwrap_or_default(), "{}", scenario.display());
    let expected = scenario.join("expected");
    let want = tree(&if expected.is_dir() { expected } else { scenario.join("input") });
    assert!(tree(&work) == want, "{}: the tree is {:?}", scenario.display(), tree(&work).keys());
    assert!(!dir.path().join("out").exists(), "{}", scenario.display());
}

#[test]
fn every_scenario_plays_as_written() {
    for scenario in scenarios() {
        play(&scenario);
    }
}

#[test]
fn every_tool_has_scenarios_and_a_schema_that_fits_its_arguments() {
    let folders: BTreeSet<String> =
        scenarios().iter().map(|it| it.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned()).collect();
    for tool in sigit() {
        assert!(folders.contains(tool.name()), "{} has no scenario folder", tool.name());
        let schema: serde_json::Value = serde_json::from_str(tool.schema()).unwrap();
        let required: Vec<&str> = schema["required"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        let fill = |name: &str| match schema["properties"][name]["type"].as_str().unwrap() {
            "string" => serde_json::json!("x"),
            "integer" => serde_json::json!(1),
            "array" if name == "edits" => serde_json::json!([{"old_text": "a", "new_text": "b"}]),
            "array" => serde_json::json!([]),
            other => panic!("{other}"),
        };
        let view = View { cwd: "/w".into(), places: Vec::new(), skills: Vec::new() };
        let args: serde_json::Map<_, _> = required.iter().map(|it| ((*it).to_owned(), fill(it))).collect();
        assert!(tool.plan(&serde_json::to_string(&args).unwrap(), &view).is_ok(), "{}", tool.name());
        for name in required {
            let mut less = args.clone();
            less.remove(name);
            let Err(said) = tool.plan(&serde_json::to_string(&less).unwrap(), &view) else {
                panic!("{} needs no {name}", tool.name())
            };
            assert!(said.contains(name), "{said}");
        }
    }
}
