//! `sid-editor-tool`: the editor of rc configurations, asked by a file.

fn main() -> std::process::ExitCode {
    match sid_helpers::edit(std::env::args_os().skip(1), std::env::vars_os().collect()) {
        Ok(text) => {
            print!("{text}");
            std::process::ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("sid-editor-tool: {why}");
            std::process::ExitCode::FAILURE
        }
    }
}
