//! The project's own policy file. What narrows counts at once; what widens counts once the user trusts it.
use std::{
    fs, io,
    path::{Path, PathBuf},
};

use sid_config::{Complaint, Key, Kind, Layer};
use sid_policy::Network;

use crate::{network::network, trust::digest};

/// File names, first that exists.
const FILES: &[&str] = &["sid.toml", "rig.toml", "happy.toml"];

/// Keys of a policy file besides those of [`crate::NETWORK`].
pub const POLICY: &[Key] = &[Key {
    path: "permissions.protected_paths",
    kind: Kind::Texts,
    doc: "paths below the workspace that are protected like sid's own: relative, at most 128, each up to 512 bytes",
}];

/// Whether what a workspace asks for counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The user trusts it as it is.
    Trusted,
    /// Nobody has said so.
    Untrusted,
}

/// What a project says of what may be done in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// The file; `None`: there is none.
    pub file: Option<PathBuf>,
    /// The SHA-256 of its content, in hexadecimal.
    pub digest: String,
    /// More protected paths, below the root.
    pub protected: Vec<String>,
    /// Its `[network]` table.
    pub network: Option<Network>,
    /// What a person should know of it.
    pub notices: Vec<String>,
}

impl Policy {
    /// Reads the policy of a workspace.
    ///
    /// # Errors
    /// Sentences for the person: it can't be read or understood, so nothing may run.
    pub fn load(root: &Path) -> Result<Self, Vec<String>> {
        for name in FILES {
            let file = root.join(name);
            match fs::symlink_metadata(&file) {
                // sid's own placeholder, or as good as one.
                Ok(it) if it.is_file() && it.len() == 0 => continue,
                Ok(it) if it.is_symlink() => {
                    return Err(vec![format!("{}: is a link; a policy has to be a file of the workspace itself", file.display())]);
                }
                Ok(_) => {}
                Err(err) if err.kind() == io::ErrorKind::NotFound => continue,
                Err(err) => return Err(vec![unread(&file, &err)]),
            }
            let text = fs::read_to_string(&file).map_err(|err| vec![unread(&file, &err)])?;
            return Self::parse(file, &text).map_err(|all| all.iter().map(Complaint::to_string).collect());
        }
        Ok(Self::default())
    }

    fn parse(file: PathBuf, text: &str) -> Result<Self, Vec<Complaint>> {
        let keys: Vec<Key> = crate::NETWORK.iter().chain(POLICY).copied().collect();
        let (layer, unknown) = Layer::parse_known(&file, text, &keys)?;
        let network = network(&layer)?;
        let key = POLICY[0].path;
        let protected = layer.texts(key).to_vec();
        let wrong: Vec<Complaint> = protected
            .iter()
            .enumerate()
            .filter_map(|(n, it)| Some(layer.complaint(key, n, format!("`{key}`: \"{}\" {}", it.escape_debug(), bad_path(it, n)?))))
            .collect();
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let notices = unknown.iter().map(|it| format!("{it}; it is ignored: not every key is read from a workspace")).collect();
        Ok(Self { digest: digest(text.as_bytes()), file: Some(file), protected, network, notices })
    }

    /// Whether it wants more than the user gave already.
    #[must_use]
    pub fn widens(&self) -> bool {
        self.network.as_ref().is_some_and(|it| !it.is_closed() || it.local_binding)
    }

    /// What commands may reach, from this and from the user's own settings. A trusted table takes the place of the user's, but
    /// what either denies stays denied.
    #[must_use]
    pub fn reach(&self, user: &Network, standing: Standing) -> Network {
        let Some(project) = &self.network else { return user.clone() };
        let base = if standing == Standing::Trusted { project } else { user };
        let mut it = base.clone();
        it.deny = user.deny.iter().chain(&project.deny).cloned().collect();
        it
    }
}

fn unread(file: &Path, err: &io::Error) -> String {
    format!("{}: {err}; nothing runs while it is unknown what the project protects", file.display())
}

/// What is wrong with a protected path, as the rest of a sentence.
fn bad_path(path: &str, n: usize) -> Option<&'static str> {
    let parts = || Path::new(path).components();
    if n >= 128 {
        return Some("is one too many: 128 are read");
    }
    if path.is_empty() || path.len() > 512 {
        return Some("must have 1 to 512 bytes");
    }
    if path.starts_with(['/', '~']) || parts().any(|it| it == std::path::Component::ParentDir) {
        return Some("must be relative to the workspace and stay in it");
    }
    path.contains(['\\', '\n']).then_some("may hold no backslash and no line break")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sid_policy::{Host, Pattern};

    fn load(files: &[(&str, &str)]) -> Result<Policy, Vec<String>> {
        let dir = tempfile::tempdir().unwrap();
        files.iter().for_each(|(name, text)| fs::write(dir.path().join(name), text).unwrap());
        Policy::load(dir.path())
    }

    #[test]
    fn the_first_file_counts_and_both_spellings_do() {
        let both =
            load(&[("rig.toml", "[network]\nallowedDomains = ['rig.test']\nallowedPorts = [80]\n"), ("happy.toml", "x = ]")]);
        let it = both.unwrap();
        assert_eq!(it.file.as_ref().unwrap().file_name().unwrap(), "rig.toml");
        let network = it.network.as_ref().unwrap();
        assert_eq!((network.allow.clone(), network.ports.clone()), (vec![Pattern::parse("rig.test").unwrap()], vec![80]));
        let other = load(&[("sid.toml", ""), ("happy.toml", "[network]\nallowed_domains = ['h.test']\n")]).unwrap();
        assert!(other.widens(), "an empty file is no file");
        assert_eq!(load(&[]).unwrap(), Policy::default());
    }

    #[test]
    fn mistakes_are_refused_with_file_and_line() {
        for (text, want) in [
            (
                "[network]\nallowed_domains = [\n  'good.test',\n  'https://x',\n]",
                "sid.toml:4: `network.allowed_domains`: \"https://x\" is no host",
            ),
            ("[network]\nallowed_ports = [443, 70000]", "sid.toml:2: `network.allowed_ports`: 70000 is no port"),
            ("[network]\nallowed_loopback_ports = [3128]", "sid's own proxy"),
            ("[network]\nallowed_domains = 'x'", "sid.toml:2: `network.allowed_domains` must be a list of texts"),
            ("[permissions]\nprotected_paths = ['a', '../b']", "stay in it"),
            ("[permissions]\nprotected_paths = ['/etc']", "relative"),
        ] {
            let said = load(&[("sid.toml", text)]).unwrap_err().join("\n");
            assert!(said.contains(want), "{text}: {said}");
        }
        let it = load(&[("sid.toml", "[docker]\nimage = 'x'\n[network]\ndenied_domains = ['d.test']\n")]).unwrap();
        assert!(it.notices[0].contains("sid.toml:1: there is no key `docker`") && !it.widens(), "{:?}", it.notices);
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sid.toml")).unwrap();
        assert!(Policy::load(dir.path()).unwrap_err()[0].contains("nothing runs"));
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/null", dir.path().join("sid.toml")).unwrap();
        assert!(Policy::load(dir.path()).unwrap_err()[0].contains("is a link"));
    }

    #[test]
    fn until_trusted_it_can_only_narrow() {
        let text = "[network]\nallowed_domains = ['p.test']\ndenied_domains = ['u.test']\n";
        let it = load(&[("sid.toml", text)]).unwrap();
        let pattern = |it: &str| Pattern::parse(it).unwrap();
        let user = Network { allow: vec![pattern("u.test"), pattern("v.test")], ports: vec![443], ..Network::default() };
        let reaches = |standing, name: &str| it.reach(&user, standing).judge(&Host::parse(name).unwrap(), 443).is_ok();
        assert_eq!(["u.test", "v.test", "p.test"].map(|name| reaches(Standing::Untrusted, name)), [false, true, false]);
        assert_eq!(["u.test", "v.test", "p.test"].map(|name| reaches(Standing::Trusted, name)), [false, false, true]);
    }
}
