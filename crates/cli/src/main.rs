//! The program.

fn main() -> std::process::ExitCode {
    sid::main()
}
