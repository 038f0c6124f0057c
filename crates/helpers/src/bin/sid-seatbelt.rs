//! `sid-seatbelt`: any command in sid's sandbox.

fn main() -> std::process::ExitCode {
    let why = match sid_helpers::parse(std::env::args_os().skip(1)) {
        Ok(it) if it.print == sid_helpers::Print::Policy => match sid_helpers::macos_policy(&it.writable) {
            Ok(text) => {
                print!("{text}");
                return std::process::ExitCode::SUCCESS;
            }
            Err(why) => why,
        },
        Ok(command) => sid_helpers::run(command),
        Err(why) => why,
    };
    eprintln!("sid-seatbelt: {why}");
    std::process::ExitCode::FAILURE
}
