//! What a shell that stays writes of itself, and what of that is kept.

/// Variables that every shell has of its own, or that are sid's.
const OWN: &[&str] = &[
    "DIRSTACK",
    "EUID",
    "UID",
    "PPID",
    "GROUPS",
    "HOSTNAME",
    "HOSTTYPE",
    "MACHTYPE",
    "OSTYPE",
    "IFS",
    "LINENO",
    "PIPESTATUS",
    "PWD",
    "OLDPWD",
    "RANDOM",
    "SECONDS",
    "SRANDOM",
    "SHELLOPTS",
    "SHLVL",
    "_",
    "FUNCNAME",
    "PS0",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    "COLUMNS",
    "LINES",
    "FUNCNEST",
    "MAILCHECK",
];
/// And the beginnings of the names of more.
const OWN_PREFIXES: &[&str] = &["__sid_", "BASH", "OPT", "EPOCH", "HIST", "COMP_", "SID_"];

/// What a shell wrote of itself, as pieces of script: the folder, each variable, the functions, the aliases, each option that is on.
pub(crate) fn pieces(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut out, mut options): (Vec<Vec<u8>>, Vec<Vec<u8>>) = (Vec::new(), Vec::new());
    for (n, part) in bytes.split(|it| *it == 0).enumerate() {
        if n == 4 {
            // Of a shell that has no variable for them.
            options.extend(part.split(|it| *it == b'\n').map(<[u8]>::to_vec));
            continue;
        }
        if n != 1 {
            out.push(part.to_vec());
            continue;
        }
        for it in statements(part) {
            match defines(it).as_deref() {
                Some("BASHOPTS") => options.extend(listed(it, SHOPT)),
                Some("SHELLOPTS") => options.extend(listed(it, SET)),
                Some(name) if !is_own(name) => out.push(it.to_vec()),
                _ => {}
            }
        }
    }
    out.extend(options);
    out
}

/// How an option is switched on, and off.
const SHOPT: [&str; 2] = ["shopt -s ", "shopt -u "];
const SET: [&str; 2] = ["set -o ", "set +o "];
/// Options that would end or silence the shell at the next command.
const ENDS: [&str; 4] = ["errexit", "noexec", "onecmd", "nounset"];

/// The options of a variable that lists them, as they are switched on.
fn listed(statement: &[u8], how: [&str; 2]) -> Vec<Vec<u8>> {
    let text = String::from_utf8_lossy(statement);
    let all = text.split('"').nth(1).unwrap_or_default();
    all.split(':').filter(|it| !it.is_empty()).map(|it| format!("{}{it}", how[0]).into_bytes()).collect()
}

/// The script that makes a fresh shell what this one is, without secrets and without what would end it.
pub(crate) fn script(now: &[Vec<u8>], fresh: &[Vec<u8>]) -> Vec<u8> {
    let ends = |it: &[u8]| ENDS.iter().any(|name| it.ends_with(name.as_bytes()) && it.starts_with(SET[0].as_bytes()));
    let kept = now.iter().filter(|it| !it.is_empty() && !fresh.contains(it) && !is_secret(it) && !ends(it)).cloned();
    let off = |it: &Vec<u8>| {
        let [on, off] = [SHOPT, SET].into_iter().find(|how| it.starts_with(how[0].as_bytes()))?;
        Some([off.as_bytes(), &it[on.len()..]].concat())
    };
    let gone = fresh.iter().filter(|it| !now.contains(it)).filter_map(off);
    kept.chain(gone).fold(Vec::new(), |mut out, it| {
        out.extend(it);
        out.push(b'\n');
        out
    })
}

/// Statements of `declare -p`, which end in a line end outside of quotes.
fn statements(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut out, mut begin, mut at) = (Vec::new(), 0, 0);
    let mut quote = None;
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(b'"' | b'$') | None, b'\\') => at += 1,
            (None, b'$') if bytes.get(at + 1) == Some(&b'\'') => {
                quote = Some(b'$');
                at += 1;
            }
            (None, it @ (b'"' | b'\'')) => quote = Some(it),
            (Some(b'"'), b'"') | (Some(b'\'' | b'$'), b'\'') => quote = None,
            (None, b'\n') => {
                out.push(&bytes[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    out
}

/// The variable that a piece of state defines.
fn defines(piece: &[u8]) -> Option<String> {
    let rest = piece.strip_prefix(b"declare ")?;
    let name = rest.split(|it| *it == b' ').nth(1)?;
    Some(String::from_utf8_lossy(name.split(|it| *it == b'=').next()?).into_owned())
}

fn is_own(name: &str) -> bool {
    OWN.contains(&name) || OWN_PREFIXES.iter().any(|start| name.starts_with(start))
}

/// A piece of state that defines a variable whose name says it is a secret.
fn is_secret(piece: &[u8]) -> bool {
    let Some(name) = defines(piece).map(|it| it.to_ascii_uppercase()) else { return false };
    ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "COOKIE"].iter().any(|it| name.contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_told_apart_whatever_they_hold() {
        let text = concat!(
            "declare -x A=\"one\"\n",
            "declare -- B=$'a\\'b\\nc\\\\'\n",
            "declare -- C=\"line\ndeclare -x MY_TOKEN=\\\"x\\\"\nend\"\n",
            "declare -a D=([0]=\"1\" [1]=\"two\n words\")\n",
            "declare -x E\n",
            "declare -- MY_TOKEN=\"hush\"\n",
            "declare -i RANDOM=\"7\"\n",
            "declare -- __sid_x=\"\"\n",
        );
        let all = pieces(format!("builtin cd -- /x\0{text}\0f () \n{{ \n}}\n\0").as_bytes());
        let names: Vec<_> = all.iter().map(|it| defines(it).unwrap_or_default()).collect();
        assert_eq!(names, ["", "A", "B", "C", "D", "E", "MY_TOKEN", "", ""]);
        assert!(all[3].ends_with(b"end\"") && all[4].ends_with(b"words\")"), "{:?}", all[4]);
        let secrets: Vec<bool> = all.iter().map(|it| is_secret(it)).collect();
        assert_eq!(secrets.iter().filter(|it| **it).count(), 1);
        let shell = |options: &str, more: &str| {
            let set = format!("declare -r SHELLOPTS=\"{options}\"\n");
            pieces(
                format!("builtin cd -- /x\0declare -r BASHOPTS=\"extglob:cmdhist\"\n{set}{more}\0\0alias q='x'\n\0shopt -u old\n")
                    .as_bytes(),
            )
        };
        let now = shell("pipefail:errexit:braceexpand", "declare -- X=\"1\"\ndeclare -- A_KEY=\"2\"\n");
        let fresh = shell("hashall:braceexpand", "");
        let said = String::from_utf8(script(&now, &fresh)).unwrap();
        assert_eq!(said, "declare -- X=\"1\"\nset -o pipefail\nset +o hashall\n");
        assert!(is_secret(b"declare -x API_KEY=\"x\"") && !is_secret(b"declare -x EDITOR=\"vi\""));
    }
}
