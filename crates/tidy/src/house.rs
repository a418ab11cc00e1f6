//! The files of the project. Reads the folder once; the rules see only what is in memory, so that a
//! test can hand them a planted violation.

use std::{fs, io, path::Path};

/// One file, its path from the project's root with `/` between the parts.
#[derive(Clone, Debug)]
pub struct File {
    pub path: String,
    pub bytes: u64,
    /// Empty when it is no UTF-8 text.
    pub text: String,
}

impl File {
    /// A file that is nowhere but here.
    #[must_use]
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), bytes: text.len() as u64, text: text.to_owned() }
    }

    #[must_use]
    pub fn has_extension(&self, extensions: &[&str]) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, end)| extensions.contains(&end))
    }

    /// The crate's folder name, when the file belongs to a crate.
    #[must_use]
    pub fn room(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// Whether all of it is test code.
    #[must_use]
    pub fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        self.path.contains("/tests/") || name == "tests.rs" || name.ends_with("_tests.rs")
    }

    /// Programs that are started by hand or by cargo, where printing is the purpose.
    #[must_use]
    pub fn is_tool(&self) -> bool {
        self.path.contains("/examples/") || self.path.ends_with("/build.rs")
    }
}

/// All of them, sorted by path.
#[derive(Clone, Debug, Default)]
pub struct House {
    pub files: Vec<File>,
}

impl House {
    /// Reads everything below `root` but build products, kept runs and hidden folders.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut house = Self::default();
        house.collect(root, "")?;
        house.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(house)
    }

    #[must_use]
    pub fn of(files: Vec<File>) -> Self {
        Self { files }
    }

    pub fn with_extension(
        &self,
        extensions: &'static [&'static str],
    ) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |f| f.has_extension(extensions))
    }

    #[must_use]
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|f| f.path == path)
    }

    fn collect(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() && !is_foreign(&path) {
                self.collect(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() {
                let bytes = entry.metadata()?.len();
                let text = String::from_utf8(fs::read(entry.path())?).unwrap_or_default();
                self.files.push(File { path, bytes, text });
            }
        }
        Ok(())
    }
}

/// What lies in the project's folder and is not the project; the same as in `.gitignore`.
fn is_foreign(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    matches!(path, "target" | "runs" | "bench/work")
        || (name.starts_with('.') && path != ".ci")
        || name == "proptest-regressions"
}
