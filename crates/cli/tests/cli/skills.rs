//! Skills of rc configurations (sid's manual, SKILLS; the notes' behaviours 40 and 45).
use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::json;
use sid_testkit::{Reply, Test};

use crate::{Script as _, sid};

fn world(agents: &str) -> Test {
    sid()
        .args(["use $rust and $nosuch", "--output", "jsonl", "--mode", "auto"])
        .file("../home/.config/sid/agents.conf", agents)
        .file("../home/.config/sid/tools.conf", "edit_ENABLED=YES\nread_ENABLED=YES\n")
        .file("../home/.config/sid/skills/rust/SKILL.md", "Write Rust well.\n")
        .file("../home/.config/sid/skills/rust/more.md", "More of it.\n")
        .file("../home/.config/sid/skills/other/SKILL.md", "Another.\n")
        .file("../home/.config/sid/skills/empty/README.md", "none")
}

const EDITOR: &str = "str_replace_based_edit_tool";

#[test]
fn skills_are_seen_by_name_read_and_never_written() {
    let it = world("a_ENABLED=YES\na_TOOLS='edit read'\na_SKILLS=rust\n").rounds([
        (EDITOR, json!({"command": "view", "path": "/skills/rust/SKILL.md"})),
        ("read", json!({"path": "/skills/rust/more.md"})),
        (EDITOR, json!({"command": "str_replace", "path": "/skills/rust/SKILL.md", "old_str": "well", "new_str": "badly"})),
        (EDITOR, json!({"command": "create", "path": "/skills/rust/new.md", "file_text": "x"})),
        ("read", json!({"path": "/skills/other/SKILL.md"})),
        ("read", json!({"path": "/skills/rust/../../agents.conf"})),
    ]);
    let ran = it.run().status(0);
    assert_eq!(ran.result(0), "     1\tWrite Rust well.\n");
    assert_eq!(ran.result(1), "     1\tMore of it.\n");
    for n in [2, 3] {
        assert_eq!(ran.result(n), "Error: skills can be viewed and not changed");
    }
    assert!(ran.result(4).contains("not found"), "what the agent has not is a path of the workspace: {}", ran.result(4));
    assert!(ran.result(5).contains(".."), "{}", ran.result(5));
    let system = it.fake().requests()[0].json()["messages"][0]["content"].to_string();
    assert!(system.contains("- /skills/rust/SKILL.md") && !system.contains("/skills/other"), "{system}");
}

#[test]
fn all_skills_another_folder_and_one_that_is_not_there() {
    let it = world("a_ENABLED=YES\na_TOOLS=read\na_SKILLS='*'\n").reply(Reply::text("hi"));
    let _ran = it.run().status(0);
    let system = it.fake().requests()[0].json()["messages"][0]["content"].to_string();
    assert!(system.contains("/skills/other/SKILL.md") && system.contains("/skills/rust/") && !system.contains("/skills/empty"));
    let it = it.file("../mine/rust/SKILL.md", "Mine.\n").file("../mine/third/SKILL.md", "3");
    let path = format!("{}:{}:/nonexistent", it.beside("mine").display(), it.beside("home/.config/sid/skills").display());
    let it = it.env("SID_SKILLS_PATH", &path).rounds([("read", json!({"path": "/skills/rust/SKILL.md"}))]);
    assert_eq!(it.run().status(0).result(0), "     1\tMine.\n", "the earlier folder wins");
    let it = world("a_ENABLED=YES\na_TOOLS=read\na_SKILLS='rust rusty'\n");
    let ran = it.run().status(1);
    let said = ran.of_type("error")[0]["message"].to_string();
    assert!(said.contains("agents.conf:3") && said.contains("lists the skill `rusty`; there are other, rust"), "{said}");
}

#[test]
fn a_program_in_place_of_the_editor_sees_them_too() {
    let tool = helper("sid-editor-tool");
    let script = format!(
        "#!/bin/sh\nP=$RCVAR_ARGV0\nall='REQUEST_FILE RESULT_FILE WORKSPACE_ROOT SKILLS_MANIFEST_FILE'\n\
         if [ $1 = rcvar ]; then for it in $all; do echo ${{P}}_$it; done; exit; fi\n\
         for it in $all; do eval export $it=\\$${{P}}_$it; done\nexec '{tool}' \"$1\"\n"
    );
    let it = world("a_ENABLED=YES\na_TOOLS=edit\na_SKILLS=rust\n").file("../home/.config/sid/tools/edit", script);
    fs::set_permissions(it.beside("home/.config/sid/tools/edit"), fs::Permissions::from_mode(0o755)).unwrap();
    let it = it.rounds([
        (EDITOR, json!({"command": "view", "path": "/skills/rust/SKILL.md"})),
        (EDITOR, json!({"command": "create", "path": "/skills/rust/new.md", "file_text": "x"})),
        (EDITOR, json!({"command": "view", "path": "/skills/other/SKILL.md"})),
    ]);
    let ran = it.run().status(0);
    assert_eq!(ran.result(0), "     1\tWrite Rust well.\n");
    assert_eq!(ran.result(1), "skills can be viewed and not changed");
    assert!(ran.result(2).contains("does not exist"), "{}", ran.result(2));
}

/// A program of the helpers, built if it is not there.
pub(crate) fn helper(name: &str) -> String {
    let tool = fs::canonicalize(env!("CARGO_BIN_EXE_sid")).unwrap().with_file_name(name);
    if !tool.exists() {
        let built =
            std::process::Command::new(env!("CARGO")).args(["build", "-q", "-p", "sid-helpers", "--bins"]).status().unwrap();
        assert!(built.success() && tool.exists(), "{} is not built", tool.display());
    }
    tool.display().to_string()
}

#[test]
fn a_hook_adds_the_skills_that_a_message_names() {
    let tool = helper("sid-skill-inject");
    let it = world("a_ENABLED=YES\na_TOOLS=read\na_SKILLS='*'\na_USER_INSTRUCTIONS_HOOK=skill-inject\n");
    let it = it.file("../home/.config/sid/agents/skill-inject", format!("#!/bin/sh\nexec '{tool}' \"$@\"\n"));
    fs::set_permissions(it.beside("home/.config/sid/agents/skill-inject"), fs::Permissions::from_mode(0o755)).unwrap();
    let it = it.reply(Reply::text("hi"));
    let ran = it.run().status(0);
    let said = it.fake().requests()[0].json()["messages"].to_string();
    let block = "<skill>\\n<name>rust</name>\\n<path>/skills/rust/SKILL.md</path>\\nWrite Rust well.\\n</skill>";
    assert!(said.contains(block) && !said.contains("Another."), "{said} {}", ran.stderr);
    assert!(said.contains("# User instructions from hook skill-inject"), "{said}");
}
