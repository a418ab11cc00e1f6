//! `drom profile show` and `diff`: profiles that were kept. And what makes some: `module`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use drom_profile::{By, Profile, diff, read, text};
use drom_report::format::number_of;

use super::{
    Failure,
    form::{Form, Watched, write},
    module::Module,
};
use crate::exit::Exit;

#[derive(clap::Subcommand)]
pub enum Stored {
    Show(Show),
    Diff(Compared),
    Module(Module),
}

/// Write a profile in another form; of several, all together
#[derive(clap::Args)]
pub struct Show {
    /// Written by --format json; or tmon.out, nytprof.out, drom.out, folded stacks
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    form: Form,
}

/// Which subs have another share of the time than before, beyond chance
#[derive(clap::Args)]
pub struct Compared {
    /// The profile before: written by --format json, or folded stacks
    before: PathBuf,
    /// And the one after
    after: PathBuf,
    /// Compare subs with all that they called
    #[arg(short = 'I', long)]
    inclusive: bool,
    /// Rows of the table
    #[arg(short = 'O', long, default_value_t = text::ROWS, value_name = "N")]
    rows: usize,
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Stored {
    pub fn run(&self) -> Result<ExitCode, Failure> {
        match self {
            Self::Show(show) => show.run(),
            Self::Diff(compared) => compared.run(),
            Self::Module(module) => module.run(),
        }
        .map(|()| Exit::Done.into())
    }
}

impl Show {
    fn run(&self) -> Result<(), Failure> {
        self.form.usable()?;
        let mut all = Profile::default();
        let mut names = Vec::new();
        for path in &self.files {
            let (profile, name) = profile(path)?;
            all.merge(&profile);
            names.push(name);
        }
        names.dedup();
        let name = match &names[..] {
            [name] => name.clone(),
            names => number_of(names.len(), "profile"),
        };
        let base = env::current_dir().unwrap_or_default();
        self.form.write(&all, &Watched { name: &name, base: &base })
    }
}

impl Compared {
    fn run(&self) -> Result<(), Failure> {
        let (before, after) = (profile(&self.before)?, profile(&self.after)?);
        let counted = |profile: &Profile| profile.taken.counted.is_some();
        if counted(&before.0) || counted(&after.0) {
            return Err(Failure {
                message:
                    "counts have no chance in them: `diff` compares samples, `show` each count"
                        .to_owned(),
                exit: Exit::Usage,
            });
        }
        let by = if self.inclusive { By::Inclusive } else { By::Exclusive };
        let diff = diff(&before.0, &after.0, by);
        let report = match self.json {
            true => diff.json(by),
            false => text::diff(&diff, by, self.rows),
        };
        write(None, report.as_bytes())
    }
}

/// And the name of what it is of.
fn profile(path: &Path) -> Result<(Profile, String), Failure> {
    let file = path.display();
    let bytes = fs::read(path).map_err(|error| Failure {
        message: format!("{file} cannot be read: {error}"),
        exit: Exit::Failed,
    })?;
    let (profile, name) = read(&bytes).map_err(|error| Failure {
        message: format!("{file} is no profile: {error}"),
        exit: Exit::Usage,
    })?;
    Ok((profile, name.unwrap_or_else(|| file.to_string())))
}
