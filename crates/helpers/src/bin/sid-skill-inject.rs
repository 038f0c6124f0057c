//! `sid-skill-inject`: a hook for rc configurations that adds the skills which a message names by `$`.

fn main() -> std::process::ExitCode {
    let subcommand = std::env::args().nth(1);
    match sid_helpers::inject(subcommand.as_deref(), &|name| std::env::var_os(name)) {
        Ok(Some(text)) => {
            print!("{text}");
            std::process::ExitCode::SUCCESS
        }
        Ok(None) => {
            eprintln!("usage: sid-skill-inject [rcvar|run]");
            std::process::ExitCode::from(129)
        }
        Err(why) => {
            eprintln!("sid-skill-inject: {why}");
            std::process::ExitCode::FAILURE
        }
    }
}
