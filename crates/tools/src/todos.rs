use serde::Deserialize;
use sid_core::Outcome;
use sid_policy::Access;

use crate::{Plan, Tool, View, args};

/// Replaces the list of tasks, which lives in the conversation itself.
pub(crate) struct WriteTodos;

#[derive(Deserialize)]
struct Args {
    todos: Vec<Todo>,
}

#[derive(Deserialize)]
struct Todo {
    content: String,
    #[serde(default)]
    status: String,
}

impl Tool for WriteTodos {
    fn name(&self) -> &'static str {
        "write_todos"
    }
    fn description(&self) -> &'static str {
        "Replaces the task list that the user sees. For work of several steps: write it first, keep one task in_progress, update it as you go."
    }
    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"todos":{"type":"array","items":{"type":"object","properties":{"content":{"type":"string"},"status":{"type":"string","enum":["pending","in_progress","completed"]}},"required":["content","status"],"additionalProperties":false}}},"required":["todos"],"additionalProperties":false}"#
    }
    fn plan(&self, raw: &str, _: &View) -> Result<Plan, String> {
        let Args { todos } = args::parse(raw)?;
        if todos.iter().any(|it| it.content.trim().is_empty()) {
            return Err("a task has no content".to_owned());
        }
        let text = render(&todos);
        Ok(Plan {
            label: format!("{} tasks", todos.len()),
            access: Access::none(self.name(), "todos"),
            action: Box::new(move |_, _| Box::pin(async move { Outcome::ok(text) })),
        })
    }
}

fn render(todos: &[Todo]) -> String {
    if todos.is_empty() {
        return "Task list cleared.".to_owned();
    }
    let done = todos.iter().filter(|it| it.status == "completed").count();
    let mut out = format!("Task list updated ({done}/{} done):", todos.len());
    for it in todos {
        let mark = match it.status.as_str() {
            "completed" => "[x]",
            "in_progress" => "[~]",
            _ => "[ ]",
        };
        out.push_str(&format!("\n{mark} {}", it.content.trim()));
    }
    out
}
