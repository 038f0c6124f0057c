use std::os::unix::fs::PermissionsExt as _;

use super::*;

const MANIFEST: &str =
    r#"{"protocol_version": 1, "description": "Formats.", "input_schema": {"type": "object"}, "name": "ignored"}"#;
const TOOLS_OK: &str = "bash_ENABLED=MANUAL\nfmt_ENABLED=YES\nfmt_CONFIRM=YES\nfmt_TIMEOUT=5\nformat_ALIASES=fmt\nformat_INHERIT=YES\ngit_status_ENABLED=YES\n";

struct World(tempfile::TempDir);

impl World {
    fn new(agents: &str, tools: &str) -> Self {
        let it = Self(tempfile::tempdir().unwrap());
        it.file("agents.conf", agents, 0o644).file("tools.conf", tools, 0o644);
        it.file("tools/fmt", "#!/bin/sh\n", 0o755).file("tools/fmt.json", MANIFEST, 0o644);
        it
    }

    fn file(&self, path: &str, text: &str, mode: u32) -> &Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        self
    }

    fn load(&self) -> Result<Setup, String> {
        let said = |all: Vec<Complaint>| all.iter().map(Complaint::to_string).collect::<Vec<_>>().join("\n");
        Setup::load(self.0.path(), &|name| (name == "WHO").then(|| "me".to_owned())).map(Option::unwrap).map_err(said)
    }
}

#[test]
fn agents_and_tools_with_their_fields() {
    let agents = "DEFAULT_AGENT=build\nMODEL=everywhere\nbuild_ENABLED=YES\nbuild_NAME=\"Let's Go $WHO\"\nbuild_TOOLS='bash format git-status bash'\n\
                  build_MAX_TOKENS=8192\nbuild_THINKING=on\nbuild_TEMPERATURE=0.5\nbuild_STOP_SEQUENCES='END \"two words\"'\nbuild_CACHING_ENABLED=NO\n\
                  plan_ENABLED=MANUAL\nplan_MODEL=own\nother_ALIASES=build\n";
    let world = World::new(agents, TOOLS_OK);
    world.file("agents/build.md", "You build.\n", 0o644);
    let it = world.load().unwrap();
    let build = it.agent(None).unwrap();
    assert_eq!(
        (build.id.as_str(), build.name.as_deref(), build.model.as_deref()),
        ("build", Some("Let's Go me"), Some("everywhere"))
    );
    assert_eq!((build.system.as_deref(), build.max_tokens, build.thinking), (Some("You build.\n"), Some(8192), Some(1024)));
    assert_eq!((build.temperature, build.caching, &*build.stop), (Some(0.5), false, &["END".to_owned(), "two words".into()][..]));
    let tools: Vec<(&str, &str)> = build.tools.iter().map(|it| (it.exposed.as_str(), it.service.as_str())).collect();
    assert_eq!(tools, [("bash", "bash"), ("format", "format"), ("git-status", "git_status")]);
    assert_eq!(it.agents.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["build", "other", "plan"]);
    assert_eq!(it.agent(Some("other")).unwrap().system.as_deref(), Some("You build.\n"), "an alias finds the prompt of its target");
    assert_eq!(it.agent(Some("plan")).unwrap().model.as_deref(), Some("own"));
    assert!(it.agent(Some("none")).unwrap_err().contains("there are build, other, plan"));
    let format = it.tool("format").unwrap();
    assert_eq!((format.canonical.as_str(), format.switch, format.confirm), ("fmt", Switch::Yes, true));
    assert_eq!(format.timeout, Some(std::time::Duration::from_secs(5)), "inherited");
    assert_eq!(it.tool("git-status").unwrap().canonical, "git_status");
    assert!(it.tool("bash").unwrap().program.is_none());
}

#[test]
fn a_dash_and_an_underscore_are_one_and_built_in_tools_need_nothing() {
    let agents = "DEFAULT_AGENT=my-agent\nmy_agent_ENABLED=YES\nmy_agent_TOOLS='git-status git_diff bash edit'\nTOP_K=7\n";
    let tools = "git_status_ENABLED=YES\ngit-diff_ENABLED=YES\nbash_ENABLED=YES\nedit_ENABLED=YES\n";
    let it = World::new(agents, tools).load().unwrap();
    let agent = it.agent(None).unwrap();
    assert_eq!((agent.id.as_str(), agent.top_k), ("my_agent", Some(7)));
    let used: Vec<&str> = agent.tools.iter().map(|it| it.service.as_str()).collect();
    assert_eq!(used, ["git_status", "git-diff", "bash", "edit"]);
    assert_eq!(it.tool("git_diff").unwrap().canonical, "git_diff");
    assert!(it.tools.iter().all(|it| it.program.is_none() && it.manifest.is_none()));
    let world = World::new("build_ENABLED=YES\n", TOOLS_OK);
    world.file("tools/fmt.json", r#"{"protocol_version": 1, "description": "x", "input_schema": {}}"#, 0o644);
    let schema = world.load().unwrap().tool("fmt").unwrap().manifest.clone().unwrap().input_schema;
    assert!(schema["type"] == "object" && schema["properties"].is_object(), "what providers want to be told");
}

#[test]
fn every_mistake_is_told_with_its_place() {
    let ok = "build_ENABLED=YES\n";
    for (agents, tools, want) in [
        (
            "DEFAULT_AGENT=none\nbuild_ENABLED=YES\n",
            TOOLS_OK,
            "agents.conf:1: `DEFAULT_AGENT` is \"none\", and there is no such agent",
        ),
        ("DEFAULT_AGENT=build\nbuild_ENABLED=NO\n", TOOLS_OK, "agents.conf:1: `DEFAULT_AGENT` is \"build\", which is switched off"),
        ("build_ENABLED=NO\n", TOOLS_OK, "no agent may start"),
        (
            "build_ENABLED=YES\nbuild_MAX_TOKENS=many\n",
            TOOLS_OK,
            "agents.conf:2: `build_MAX_TOKENS` is \"many\"; it must be a whole number",
        ),
        ("build_ENABLED=YES\nbuild_TEMPERATURE=5\n", TOOLS_OK, "a number from 0 to 1"),
        (
            "build_ENABLED=YES\nbuild_AGENTS_MD=maybe\n",
            TOOLS_OK,
            "agents.conf:2: `build_AGENTS_MD` is \"maybe\"; it must be YES or NO",
        ),
        (
            "build_ENABLED=YES\nbuild_TOOLS='bash nope'\n",
            TOOLS_OK,
            "agents.conf:2: the agent `build` lists `nope`, which is no tool",
        ),
        ("build_ENABLED=YES\nbuild_TOOLS=fmt\n", "fmt_ENABLED=NO\n", "lists `fmt`, which is switched off"),
        ("build_ENABLED=YES\nbuild_MODLE=x\n", TOOLS_OK, "there is no key `MODLE` (in `build_MODLE`); did you mean `MODEL`?"),
        ("build_ENABLED=YES\nbuild_MODEL='${X'\n", TOOLS_OK, "agents.conf:2: `build_MODEL`: `${X` is not closed"),
        ("build_ENABLED=YES\nbuild_USER_INSTRUCTIONS_HOOK=h\n", TOOLS_OK, "agents.conf:2: the hook "),
        (ok, "gone_ENABLED=YES\n", "tools.conf:1: the program "),
        (ok, "a_ALIASES=b\n", "tools.conf:1: `a` is an alias of `b`, which is no tool"),
        (ok, "fmt_ENABLED=YES\nfmt_TIMEOUT=soon\n", "tools.conf:2: `fmt_TIMEOUT` is \"soon\""),
        (ok, "fmt_ENABLED=YES\nfmt_CONFIRM=maybe\n", "tools.conf:2: `fmt_CONFIRM` is \"maybe\""),
        (ok, "fmt_ENABLED=YES\nför_ALIASES=fmt\n", "tools.conf:2: `för` can't be a tool"),
        (ok, "é_ENABLED=YES\n", "tools.conf:1: `é` can't be a tool: 1 to 64 ASCII letters"),
        (
            "build_ENABLED=YES\nbuild_SKILLS=nope\n",
            TOOLS_OK,
            "agents.conf:2: the agent `build` lists the skill `nope`; there are none",
        ),
        (ok, "bash_ENABLED=yes\n", "tools.conf:1: `bash_ENABLED` is \"yes\""),
    ] {
        let said = World::new(agents, tools).load().unwrap_err();
        assert!(said.contains(want), "{want}\n{said}");
    }
    for (manifest, want) in [
        ("{", "fmt.json:1: is no manifest"),
        (r#"{"description": "x", "input_schema": {}}"#, "`protocol_version` is missing"),
        (r#"{"protocol_version": 2, "description": "x", "input_schema": {}}"#, "`protocol_version` is 2"),
        (r#"{"protocol_version": 1, "description": " ", "input_schema": {}}"#, "`description` is missing or empty"),
        (r#"{"protocol_version": 1, "description": "x", "input_schema": []}"#, "`input_schema` must be a JSON object"),
        (
            r#"{"protocol_version": 1, "description": "x", "input_schema": {"type": "array"}}"#,
            "the `type` of `input_schema` is \"array\"; a call's input is an object",
        ),
    ] {
        let world = World::new(ok, TOOLS_OK);
        world.file("tools/fmt.json", manifest, 0o644);
        let said = world.load().unwrap_err();
        assert!(said.contains(want), "{want}\n{said}");
    }
    let world = World::new(ok, TOOLS_OK);
    world.file("tools/fmt", "#!/bin/sh\n", 0o644);
    assert!(world.load().unwrap_err().contains("is not executable; `chmod +x`"));
    fs::remove_file(world.0.path().join("tools/fmt.json")).unwrap();
    assert!(world.load().unwrap_err().contains("the manifest "));
    fs::remove_file(world.0.path().join("tools.conf")).unwrap();
    assert!(world.load().unwrap_err().contains("tools.conf: is missing, and agents.conf is there"));
    fs::remove_file(world.0.path().join("agents.conf")).unwrap();
    assert!(Setup::load(world.0.path(), &|_| None).unwrap().is_none());
}
