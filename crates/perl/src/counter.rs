//! Devel::Drom, which counts the calls and statements of any perl that loads it: a module and its
//! library, carried by this program.

use std::{fs, io, path::Path};

use crate::shim::Unavailable;

const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libdrom_exact.so"));
const MODULE: &str = include_str!("../exact/Drom.pm");

/// Writes both into a folder for `perl -I`.
///
/// # Errors
/// That this program was built without Perl, or what cannot be written.
pub fn write_counter(folder: &Path) -> Result<io::Result<()>, Unavailable> {
    if LIBRARY.is_empty() {
        return Err(Unavailable::BuiltWithout);
    }
    let (devel, auto) = (folder.join("Devel"), folder.join("auto/Devel/Drom"));
    let written = fs::create_dir_all(&devel)
        .and_then(|()| fs::create_dir_all(&auto))
        .and_then(|()| fs::write(devel.join("Drom.pm"), MODULE))
        .and_then(|()| fs::write(auto.join("Drom.so"), LIBRARY));
    Ok(written)
}
