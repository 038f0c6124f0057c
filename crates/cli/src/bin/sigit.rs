//! The second name of the same program.

fn main() -> std::process::ExitCode {
    sid::main()
}
