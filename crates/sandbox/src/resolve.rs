//! From a path as it was spelled to the place on disk it names.
use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

use sid_policy::{Access, Bounds, Fence, Kind, PathUse, Resolved, ResolvedPath, Touch};

use crate::{
    Host,
    docker::{Docker, Wall},
};

impl Host {
    /// Looks once at the place that commands run in, for all paths of an access: at this machine's disk, or, for what is in no
    /// root, at the container's, as commands with these bounds see it.
    #[must_use]
    pub fn resolve(&self, access: Access, fence: &Fence, bounds: Bounds) -> Resolved {
        let mut out = resolve(access);
        if let Some(docker) = &self.docker {
            for (it, path) in out.paths.iter_mut().zip(&out.access.paths) {
                if it.canonical.as_deref().is_none_or(|it| !is_here(it, fence)) {
                    *it = resolve_inside(docker, path, fence, bounds);
                }
            }
        }
        out
    }

    /// The container, for a path that is to be looked up there.
    pub(crate) fn elsewhere(&self, path: &Path, fence: &Fence) -> Option<&Docker> {
        self.docker.as_deref().filter(|_| !is_here(path, fence))
    }
}

/// Whether a canonical path is this machine's although commands run in a container: in a root, or one of the user's skills.
fn is_here(path: &Path, fence: &Fence) -> bool {
    fence.roots.iter().chain(&fence.readable).any(|dir| path.starts_with(dir))
}

fn resolve_inside(docker: &Docker, it: &PathUse, fence: &Fence, bounds: Bounds) -> ResolvedPath {
    let spelled = docker.inside(&it.path).unwrap_or_else(|| it.path.clone());
    let plain = lexical(&spelled);
    let Ok((found, kind)) = docker.look(Wall::of(fence, bounds), &spelled, it.touch) else {
        return ResolvedPath { lexical: plain, canonical: None, touch: it.touch, kind: Kind::Missing };
    };
    let found = lexical(&found);
    // A link of the container may lead back into a root.
    match docker.outside(&found).filter(|it| is_here(it, fence)) {
        Some(path) => resolve_path(&PathUse { path, touch: it.touch }),
        None => ResolvedPath { lexical: plain, canonical: Some(found), touch: it.touch, kind },
    }
}

/// Looks at the disk once, for all paths of an access.
#[must_use]
pub fn resolve(access: Access) -> Resolved {
    let paths = access.paths.iter().map(resolve_path).collect();
    Resolved { access, paths }
}

fn resolve_path(it: &PathUse) -> ResolvedPath {
    let lexical = lexical(&it.path);
    let canonical = match (it.touch, it.path.parent(), it.path.file_name()) {
        (Touch::Remove, Some(parent), Some(name)) => canonical(parent).map(|it| it.join(name)),
        _ => canonical(&it.path),
    };
    let kind = canonical.as_ref().map_or(Kind::Missing, |it| kind(it));
    ResolvedPath { lexical, canonical: canonical.ok(), touch: it.touch, kind }
}

fn kind(path: &Path) -> Kind {
    match fs::symlink_metadata(path) {
        Err(_) => Kind::Missing,
        Ok(it) if it.is_dir() => Kind::Folder,
        Ok(it) if it.is_file() || it.is_symlink() => Kind::File,
        Ok(_) => Kind::Special,
    }
}

/// `path` without `.` and `..`, by spelling alone.
fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// How many links a path may go through (the kernel's own limit).
const LINKS: u32 = 40;

/// `path` with every link followed. From the first missing component on, the rest is kept as spelled, `..` applied.
pub(crate) fn canonical(path: &Path) -> io::Result<PathBuf> {
    if let Ok(found) = fs::canonicalize(path) {
        return Ok(found);
    }
    let mut out = PathBuf::from("/");
    let mut todo: Vec<PathBuf> = reversed(path);
    let mut links = 0;
    while let Some(part) = todo.pop() {
        if part == Path::new("/") {
            out = part;
        } else if part == Path::new("..") {
            out.pop();
        } else if part != Path::new(".") {
            out.push(&part);
            match fs::symlink_metadata(&out) {
                Ok(it) if it.is_symlink() => {
                    links += 1;
                    if links > LINKS {
                        return Err(io::Error::other("too many links"));
                    }
                    let target = fs::read_link(&out)?;
                    out.pop();
                    todo.extend(reversed(&target));
                }
                Ok(_) => {}
                Err(err) if err.kind() == io::ErrorKind::NotFound => {}
                Err(err) => return Err(err),
            }
        }
    }
    Ok(out)
}

fn reversed(path: &Path) -> Vec<PathBuf> {
    let mut parts: Vec<PathBuf> = path.components().map(|it| PathBuf::from(it.as_os_str())).collect();
    parts.reverse();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn spellings_and_links() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        symlink("a/b", root.join("rel")).unwrap();
        symlink("/nowhere/else", root.join("dangling")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        fs::write(root.join("f"), "").unwrap();
        for (spelled, want) in [
            ("a/./b/../b", Some(root.join("a/b"))),
            ("rel/../x", Some(root.join("a/x"))),
            ("rel/new/deep", Some(root.join("a/b/new/deep"))),
            ("dangling", Some(PathBuf::from("/nowhere/else"))),
            ("dangling/../../x", Some(PathBuf::from("/x"))),
            ("loop", None),
            ("f/x", None),
        ] {
            assert_eq!(canonical(&root.join(spelled)).ok(), want, "{spelled}");
        }
        assert_eq!(lexical(Path::new("/w/a/../../x/./y")), Path::new("/x/y"));
    }

    #[test]
    fn removing_a_link_names_the_link() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        symlink("/etc/hosts", root.join("l")).unwrap();
        let of = |touch| resolve_path(&PathUse { path: root.join("l"), touch }).canonical;
        assert_eq!(of(Touch::Remove), Some(root.join("l")));
        assert_eq!(of(Touch::Write), Some(fs::canonicalize("/etc/hosts").unwrap()));
    }
}
