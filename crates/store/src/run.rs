//! Writing a run block by block, opening one, listing them all.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use drom_stats::Latency;
use serde::{Serialize, de::DeserializeOwned};

use crate::{Block, Dropped, End, Error, Manifest, SCHEMA, Slice, utc};

/// Blocks that do not count, one a line; only there when there are any.
const DROPPED: &str = "dropped.jsonl";

/// A run that is being measured.
#[derive(Debug)]
pub struct Writer {
    folder: PathBuf,
    blocks: File,
}

/// A run as it was read.
#[derive(Clone, Debug)]
pub struct Run {
    pub folder: PathBuf,
    pub manifest: Manifest,
    pub blocks: Vec<Block>,
    pub dropped: Vec<Dropped>,
    /// The last record was cut off in the middle of writing; it does not count.
    pub torn: bool,
    /// `None`: the run was cut off.
    pub end: Option<End>,
    latencies: BTreeMap<String, Latency>,
}

/// Folders that were made for a run, innermost first. Those still empty go when it is dropped.
#[derive(Debug)]
pub struct Made(Vec<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        // A folder that holds something is refused, and so are those around it.
        self.0.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    }
}

/// One line of `drom report`.
#[derive(Clone, Debug)]
pub struct Listed {
    pub name: String,
    pub folder: PathBuf,
    pub manifest: Manifest,
    pub blocks: usize,
    pub dropped: usize,
    pub torn: bool,
    /// `None`: the run was cut off.
    pub end: Option<End>,
}

/// `$DROM_RUNS`, or `runs/` in the current folder.
#[must_use]
pub fn root() -> PathBuf {
    env::var_os("DROM_RUNS").map_or_else(|| PathBuf::from("runs"), PathBuf::from)
}

impl Writer {
    /// A new folder under `root`, named after the plan and the time.
    pub fn create_in(root: &Path, manifest: &Manifest) -> Result<Self, Error> {
        let stamp = utc(manifest.started_unix_s).replace([':', '-'], "");
        let base = format!("{}-{}", manifest.name, stamp.trim_end_matches('Z'));
        let free = (1..1_000)
            .map(|n| root.join(if n == 1 { base.clone() } else { format!("{base}-{n}") }))
            .find(|folder| !folder.exists());
        let folder = free.unwrap_or_else(|| root.join(base));
        Self::create(&folder, manifest)
    }

    /// Finds out before an hour of measuring whether a run can be kept there; what it made for
    /// that is gone again unless a run comes into it.
    pub fn check(folder: &Path) -> Result<Made, Error> {
        if folder.join("manifest.json").exists() {
            return Err(Error::Exists { path: folder.to_owned() });
        }
        let missing = folder.ancestors().take_while(|f| !f.as_os_str().is_empty() && !f.exists());
        let made = Made(missing.map(Path::to_owned).collect());
        fs::create_dir_all(folder).map_err(|e| write_error(folder, e))?;
        probe(folder).map_err(|e| write_error(folder, e))?;
        Ok(made)
    }

    /// The same for a folder that is to be the run's own.
    pub fn check_own(folder: &Path) -> Result<Made, Error> {
        vacant(folder)?;
        Self::check(folder)
    }

    /// The folder may exist but must be empty.
    pub fn create(folder: &Path, manifest: &Manifest) -> Result<Self, Error> {
        vacant(folder)?;
        let histograms = folder.join("latency");
        fs::create_dir_all(&histograms).map_err(|e| write_error(&histograms, e))?;
        write_json(&folder.join("manifest.json"), manifest)?;
        let path = folder.join("blocks.jsonl");
        let blocks = OpenOptions::new().create_new(true).append(true).open(&path);
        Ok(Self { folder: folder.to_owned(), blocks: blocks.map_err(|e| write_error(&path, e))? })
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends a finished block and the histograms of its slices, in the order of the slices.
    pub fn block(&mut self, block: &Block, latencies: &[Latency]) -> Result<(), Error> {
        assert_eq!(block.slices.len(), latencies.len(), "one histogram per slice");
        let written = self.write_block(block, latencies);
        if written.is_err() {
            // Room for the words that say so; what is no block must not look like one.
            let files = block.slices.iter().map(|slice| histogram_path(&self.folder, &slice.id));
            files.for_each(|path| drop(fs::remove_file(path)));
        }
        written
    }

    fn write_block(&mut self, block: &Block, latencies: &[Latency]) -> Result<(), Error> {
        for (slice, latency) in block.slices.iter().zip(latencies) {
            let path = histogram_path(&self.folder, &slice.id);
            fs::write(&path, latency.to_bytes()).map_err(|e| write_error(&path, e))?;
        }
        let whole = self.blocks.metadata().map(|metadata| metadata.len());
        let mut line = serde_json::to_string(block).expect("plain data is always JSON");
        line.push('\n');
        let written = self.blocks.write_all(line.as_bytes());
        if let (Err(_), Ok(whole)) = (&written, whole) {
            // Where it cannot be cut the line is torn, and a reader sees that.
            let _ = self.blocks.set_len(whole);
        }
        written.map_err(|e| write_error(&self.folder.join("blocks.jsonl"), e))
    }

    /// Notes a block that does not count.
    pub fn dropped(&mut self, dropped: &Dropped) -> Result<(), Error> {
        let path = self.folder.join(DROPPED);
        let mut line = serde_json::to_string(dropped).expect("plain data is always JSON");
        line.push('\n');
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.map_err(|e| write_error(&path, e))
    }

    pub fn end(self, end: &End) -> Result<PathBuf, Error> {
        write_json(&self.folder.join("end.json"), end)?;
        Ok(self.folder)
    }
}

impl Run {
    /// Opens a folder, or a run of `root` by its name or the beginning of it.
    pub fn find(root: &Path, name: &str) -> Result<Self, Error> {
        let path = Path::new(name);
        if path.join("manifest.json").exists() {
            return Self::open(path);
        }
        if Path::new(name).components().count() == 1 && is_run(&root.join(name)) {
            return Self::open(&root.join(name));
        }
        let named: Vec<Listed> = read_all(root, listed)?
            .0
            .into_iter()
            .filter(|run| run.name.starts_with(name))
            .collect();
        match &named[..] {
            [] => match damaged(root, name) {
                Some(folder) => Self::open(&folder),
                None => Err(Error::NoSuchRun { name: name.to_owned(), root: root.to_owned() }),
            },
            [one] => Self::open(&one.folder),
            several => Err(ambiguous(name, several)),
        }
    }

    pub fn open(folder: &Path) -> Result<Self, Error> {
        let manifest = read_manifest(folder)?;
        let ((blocks, torn), dropped) = (read_blocks(folder)?, read_dropped(folder)?);
        let end = read_end(folder)?;
        let mut latencies = BTreeMap::new();
        for slice in blocks.iter().flat_map(|block| &block.slices) {
            latencies.insert(slice.id.clone(), read_latency(&histogram_path(folder, &slice.id))?);
        }
        Ok(Self { folder: folder.to_owned(), manifest, blocks, dropped, torn, end, latencies })
    }

    /// The folder's name.
    #[must_use]
    pub fn name(&self) -> String {
        folder_name(&self.folder)
    }

    #[must_use]
    pub fn latency(&self, slice: &Slice) -> &Latency {
        &self.latencies[&slice.id]
    }
}

/// Every run under `root`, oldest first, and what is wrong with those that cannot be read. Folders
/// that hold no run are passed over.
pub fn list(root: &Path) -> Result<(Vec<Listed>, Vec<Error>), Error> {
    read_all(root, |folder| {
        // Whatever cannot be rendered is no good run: its histograms count.
        Run::open(&folder)?;
        listed(folder)
    })
}

fn read_all(
    root: &Path,
    read: impl Fn(PathBuf) -> Result<Listed, Error>,
) -> Result<(Vec<Listed>, Vec<Error>), Error> {
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), Vec::new())),
        Err(source) => return Err(Error::Read { path: root.to_owned(), source }),
    };
    let (mut runs, mut damaged) = (Vec::new(), Vec::new());
    for folder in entries.flatten().map(|entry| entry.path()) {
        if folder.join("manifest.json").exists() {
            match read(folder) {
                Ok(run) => runs.push(run),
                Err(error) => damaged.push(error),
            }
        }
    }
    runs.sort_by(|a, b| {
        (a.manifest.started_unix_s, &a.name).cmp(&(b.manifest.started_unix_s, &b.name))
    });
    Ok((runs, damaged))
}

/// Plan and blocks of the last `most` runs of the plan of this name, without their histograms;
/// what cannot be read is no history.
#[must_use]
pub fn earlier(root: &Path, plan: &str, most: usize) -> Vec<(Manifest, Vec<Block>)> {
    let Ok((runs, _)) = read_all(root, listed) else { return Vec::new() };
    let of_plan = runs.into_iter().rev().filter(|run| run.manifest.name == plan);
    let with_blocks = |run: Listed| Some((run.manifest, read_blocks(&run.folder).ok()?.0));
    of_plan.filter_map(with_blocks).take(most).collect()
}

fn is_run(folder: &Path) -> bool {
    folder.join("manifest.json").exists()
}

/// A folder of this beginning whose run cannot be listed.
fn damaged(root: &Path, name: &str) -> Option<PathBuf> {
    let folders = fs::read_dir(root).ok()?.flatten().map(|entry| entry.path());
    let mut named =
        folders.filter(|folder| is_run(folder) && folder_name(folder).starts_with(name));
    named.next()
}

fn listed(folder: PathBuf) -> Result<Listed, Error> {
    let manifest = read_manifest(&folder)?;
    let (blocks, torn) = read_blocks(&folder)?;
    let blocks = blocks.len();
    let dropped = read_dropped(&folder)?.len();
    let end = read_end(&folder)?;
    Ok(Listed { name: folder_name(&folder), folder, manifest, blocks, dropped, torn, end })
}

fn folder_name(folder: &Path) -> String {
    folder.file_name().map_or_else(|| ".".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn ambiguous(name: &str, runs: &[Listed]) -> Error {
    let matches = runs.iter().map(|run| run.name.as_str()).collect::<Vec<_>>().join(", ");
    Error::Ambiguous { name: name.to_owned(), matches }
}

fn read_manifest(folder: &Path) -> Result<Manifest, Error> {
    #[derive(serde::Deserialize)]
    struct Version {
        schema: u32,
    }
    let path = folder.join("manifest.json");
    let Version { schema } = read_json(&path)?;
    if schema > SCHEMA {
        return Err(Error::NewerSchema { path, found: schema, known: SCHEMA });
    }
    read_json(&path)
}

fn read_end(folder: &Path) -> Result<Option<End>, Error> {
    let path = folder.join("end.json");
    if path.exists() { read_json(&path).map(Some) } else { Ok(None) }
}

/// And whether the last one is torn.
fn read_blocks(folder: &Path) -> Result<(Vec<Block>, bool), Error> {
    read_records(&folder.join("blocks.jsonl"))
}

/// The file is only there when a block was dropped.
fn read_dropped(folder: &Path) -> Result<Vec<Dropped>, Error> {
    let path = folder.join(DROPPED);
    if path.exists() { Ok(read_records(&path)?.0) } else { Ok(Vec::new()) }
}

/// A last line without its end was cut off in the middle of writing: it is no record.
fn read_records<T: DeserializeOwned>(path: &Path) -> Result<(Vec<T>, bool), Error> {
    let text =
        fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let record = |(index, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|e| Error::Damaged {
            path: path.to_owned(),
            reason: format!("record {}: {e}", index + 1),
        })
    };
    let records = whole.lines().enumerate().map(record).collect::<Result<_, _>>()?;
    Ok((records, whole.len() < text.len()))
}

fn read_latency(path: &Path) -> Result<Latency, Error> {
    let bytes = fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    Latency::from_bytes(&bytes)
        .map_err(|e| Error::Damaged { path: path.to_owned(), reason: e.to_string() })
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let bytes = fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    parse(path, &bytes)
}

fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes)
        .map_err(|e| Error::Damaged { path: path.to_owned(), reason: e.to_string() })
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("plain data is always JSON");
    bytes.push(b'\n');
    fs::write(path, bytes).map_err(|e| {
        // Half a file would be a damaged one.
        let _ = fs::remove_file(path);
        write_error(path, e)
    })
}

/// A file comes and goes: permissions alone do not tell whether a folder can be written to.
fn probe(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".drom-{}", std::process::id()));
    fs::write(&path, b"")?;
    fs::remove_file(&path)
}

/// What somebody else keeps there must not be mixed with a run.
fn vacant(folder: &Path) -> Result<(), Error> {
    if is_run(folder) {
        return Err(Error::Exists { path: folder.to_owned() });
    }
    match fs::read_dir(folder).ok().and_then(|mut entries| entries.next()) {
        Some(_) => Err(Error::NotEmpty { path: folder.to_owned() }),
        None => Ok(()),
    }
}

fn write_error(path: &Path, source: io::Error) -> Error {
    Error::Write { path: path.to_owned(), source }
}

fn histogram_path(folder: &Path, slice: &str) -> PathBuf {
    folder.join("latency").join(format!("{slice}.hdr"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LoadFacts;

    #[test]
    fn what_is_written_is_read_back() {
        let root = tempfile::tempdir().expect("scratch");
        let mut writer = Writer::create_in(root.path(), &manifest()).expect("new");
        let mut latency = Latency::default();
        latency.record_ns(123_456);
        writer.block(&block(0), std::slice::from_ref(&latency)).expect("written");
        writer.block(&block(1), &[latency]).expect("written");
        writer
            .dropped(&Dropped { block: 1, reason: "its server ended".into(), ..Dropped::default() })
            .expect("written");
        writer.end(&End { reason: "done".into(), ..End::default() }).expect("end");

        let (runs, _) = list(root.path()).expect("listed");
        assert_eq!((runs.len(), runs[0].blocks, runs[0].end.is_some()), (1, 2, true));
        let run = Run::find(root.path(), "race").expect("by the beginning of its name");
        assert_eq!(run.manifest, manifest());
        assert_eq!(run.blocks, [block(0), block(1)]);
        assert_eq!((run.dropped.len(), runs[0].dropped, run.dropped[0].block), (1, 1, 1));
        assert_eq!(run.latency(&run.blocks[0].slices[0]).count(), 1);
    }

    #[test]
    fn a_run_that_was_cut_off_is_a_shorter_run() {
        let root = tempfile::tempdir().expect("scratch");
        let mut writer = Writer::create_in(root.path(), &manifest()).expect("new");
        writer.block(&block(0), &[Latency::default()]).expect("written");
        writer.blocks.write_all(b"{\"index\":1,\"gro").expect("torn line");
        let run = Run::open(writer.folder()).expect("opens");
        assert_eq!((run.blocks.len(), run.torn, run.end), (1, true, None));
        let (runs, _) = list(root.path()).expect("listed");
        assert_eq!((runs[0].blocks, runs[0].torn), (1, true));
    }

    #[test]
    fn a_damaged_run_is_named_and_hides_no_other() {
        let root = tempfile::tempdir().expect("scratch");
        Writer::create(&root.path().join("good"), &manifest()).expect("new");
        let mut writer = Writer::create(&root.path().join("bad"), &manifest()).expect("new");
        writer.blocks.write_all(b"{}\n").expect("written");
        let (runs, damaged) = list(root.path()).expect("listed");
        assert_eq!((runs.len(), runs[0].name.as_str(), damaged.len()), (1, "good", 1));
        assert!(damaged[0].to_string().contains("record 1"), "{}", damaged[0]);
        assert!(Run::find(root.path(), "good").is_ok());
        let mut writer = Writer::create(&root.path().join("lost"), &manifest()).expect("new");
        writer.block(&block(0), &[Latency::default()]).expect("written");
        fs::remove_file(root.path().join("lost/latency/b0.hdr")).expect("removed");
        let (runs, damaged) = list(root.path()).expect("listed");
        assert_eq!((runs.len(), damaged.len()), (1, 2), "one has lost a histogram");
        assert!(damaged.iter().any(|error| error.to_string().contains("b0.hdr")), "{damaged:?}");
        let found = Run::find(root.path(), "lost").expect_err("cannot be read").to_string();
        assert!(found.contains("b0.hdr"), "{found}");
    }

    #[test]
    fn where_no_run_can_be_kept_is_known_before_the_first_block() {
        let root = tempfile::tempdir().expect("scratch");
        let writer = Writer::create_in(root.path(), &manifest()).expect("new");
        assert!(matches!(Writer::check(writer.folder()), Err(Error::Exists { .. })));
        fs::write(root.path().join("file"), "").expect("written");
        let below_a_file = Writer::check(&root.path().join("file/run"));
        assert!(matches!(below_a_file, Err(Error::Write { .. })));
        let made = Writer::check(&root.path().join("new/below")).expect("can be made");
        assert!(root.path().join("new/below").exists());
        drop(made);
        assert!(!root.path().join("new").exists(), "nothing came into it");
        fs::create_dir(root.path().join("mine")).expect("made");
        drop(Writer::check(&root.path().join("mine")).expect("is there"));
        assert!(root.path().join("mine").exists(), "it was there before");
        let made = Writer::check(&root.path().join("kept")).expect("can be made");
        Writer::create(&root.path().join("kept"), &manifest()).expect("new");
        drop(made);
        assert!(root.path().join("kept/manifest.json").exists());
    }

    #[test]
    fn a_newer_schema_is_refused_and_a_finished_run_is_not_overwritten() {
        let root = tempfile::tempdir().expect("scratch");
        let newer = Manifest { schema: SCHEMA + 1, ..manifest() };
        let writer = Writer::create_in(root.path(), &newer).expect("new");
        assert!(matches!(Run::open(writer.folder()), Err(Error::NewerSchema { .. })));
        let again = Writer::create(writer.folder(), &manifest());
        assert!(matches!(again, Err(Error::Exists { .. })));
    }

    fn manifest() -> Manifest {
        Manifest {
            schema: SCHEMA,
            tool: "drom 0".into(),
            name: "race".into(),
            title: "Race".into(),
            started_unix_s: 1_772_874_301,
            seed: u64::MAX,
            quick: false,
            mode: "interleave".into(),
            placement: "shared".into(),
            effect: 0.02,
            budget_s: 10.0,
            pilot_blocks: 8,
            load: LoadFacts {
                connections: 8,
                threads: 1,
                slice_s: 1.0,
                warmup_s: 0.1 + 0.2,
                rounds: 1,
                keepalive: true,
            },
            client_ceiling_rps: Some(123_456.789_012_345_67),
            machine: vec![],
            groups: vec![],
            skipped: vec![],
            flags: vec![],
            plan_toml: String::new(),
        }
    }

    fn block(index: usize) -> Block {
        let slice = Slice { id: format!("b{index}"), mean_ns: 1.0 / 3.0, ..Slice::default() };
        let slices = vec![slice];
        Block { index, group: "g".into(), begin_s: 0.1, end_s: 0.7, starts: vec![], slices }
    }
}
