//! The end of a file of lines, which may be long.
use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    path::Path,
};

/// Bytes that are looked at.
const TAIL: u64 = 1 << 20;

/// The last lines of a file, without one that is cut off at the front. None: there is no such file.
pub(crate) fn last_lines(path: &Path) -> Vec<String> {
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let from = length.saturating_sub(TAIL);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>((bytes, from > 0))
    };
    let (bytes, cut) = read().unwrap_or_default();
    let lines = bytes.split(|it| *it == b'\n').skip(usize::from(cut));
    lines.filter(|it| !it.is_empty()).map(|it| String::from_utf8_lossy(it).into_owned()).collect()
}

/// All lines of a file. None: there is no such file.
pub(crate) fn lines(path: &Path) -> Vec<String> {
    File::open(path).map(BufReader::new).into_iter().flat_map(BufReader::lines).map_while(Result::ok).collect()
}

/// Whether a file ends in a line end, or has nothing in it.
pub(crate) fn ends_whole(path: &Path) -> bool {
    let last = || {
        let file = File::open(path)?;
        let Some(at) = file.metadata()?.len().checked_sub(1) else { return Ok(b'\n') };
        let mut last = [0];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut last, at)?;
        Ok::<_, std::io::Error>(last[0])
    };
    last().map_or(true, |it| it == b'\n')
}
