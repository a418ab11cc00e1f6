//! `drom profile module`: Devel::Drom as files, so that any script can be counted by its perl
//! alone.

use std::path::PathBuf;

use drom_perl::write_counter;

use super::Failure;

/// Write Devel::Drom, the module that counts, for `perl -d:Drom`
#[derive(clap::Args)]
pub struct Module {
    /// A folder of perl's library for this machine, such as that of `perl -V:sitearch`
    folder: PathBuf,
}

impl Module {
    pub fn run(&self) -> Result<(), Failure> {
        let folder = self.folder.display();
        write_counter(&self.folder).map_err(Failure::of)?.map_err(|error| {
            Failure::of(format!("{folder}: Devel::Drom cannot be written: {error}"))
        })
    }
}
