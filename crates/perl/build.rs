//! Builds the C shim into a shared library whose bytes the crate carries, so that `drom` itself needs no
//! libperl to start. Where libperl's headers are missing the bytes are empty and serving Perl says so.
//! Also: the field enums from `shim/methods.def`, and the Perl library as a table of sources.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo:rerun-if-changed=shim");
    println!("cargo:rerun-if-env-changed=DROM_SHIM_CFLAGS"); // shim/hostile.sh
    println!("cargo:rerun-if-changed=../../perl/lib");
    fs::write(out.join("fields.rs"), fields()).expect("OUT_DIR is writable");
    fs::write(out.join("library.rs"), library(Path::new("../../perl/lib")))
        .expect("OUT_DIR is writable");
    println!("cargo:rerun-if-changed=exact");
    let (shim, counter) = (out.join("libdrom_perl.so"), out.join("libdrom_exact.so"));
    let built = build(&shim, &SHIM.map(str::to_owned), &embed("ldopts"))
        // Into a perl that runs already: it has what the library needs of libperl.
        .and_then(|()| build(&counter, &COUNTER.map(str::to_owned), &Ok(String::new())));
    if let Err(why) = built {
        println!("cargo:warning=drom is built without Perl: {why}");
        // A file that does not exist: the next build tries again, libperl-dev may be there by then.
        println!("cargo:rerun-if-changed=shim/try-again-without-perl");
        [shim, counter].iter().for_each(|file| fs::write(file, b"").expect("OUT_DIR is writable"));
    }
}

const SHIM: [&str; 14] = [
    "exact/counter.c",
    "shim/again.c",
    "shim/children.c",
    "shim/counting.c",
    "shim/inc.c",
    "shim/interp.c",
    "shim/io.c",
    "shim/library.c",
    "shim/pages.c",
    "shim/request.c",
    "shim/scarce.c",
    "shim/spoil.c",
    "shim/table.c",
    "shim/zygote.c",
];

const COUNTER: [&str; 2] = ["exact/counter.c", "exact/module.c"];

/// A shared library of these sources.
fn build(
    library: &Path,
    sources: &[String],
    ldopts: &Result<String, String>,
) -> Result<(), String> {
    let ccopts = embed("ccopts")?;
    let ldopts = ldopts.as_ref().map_err(Clone::clone)?;
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let output = Command::new(&compiler)
        .args(["-shared", "-fPIC", "-O2", "-std=gnu11", "-fvisibility=hidden", "-Wall", "-Wextra"])
        .args(["-Wno-unused-parameter", "-Wno-missing-field-initializers", "-o"])
        .arg(library)
        .args(ccopts.split_whitespace())
        .args(env::var("DROM_SHIM_CFLAGS").unwrap_or_default().split_whitespace())
        .args(sources)
        .args(ldopts.split_whitespace())
        .output()
        .map_err(|e| format!("cannot run {compiler}: {e}"))?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        let first = errors.lines().find(|l| l.contains("error") || l.contains("cannot find"));
        let hint = "install libperl-dev";
        return Err(format!("{} ({hint})", first.unwrap_or("the C compiler failed")));
    }
    for line in errors.lines().filter(|l| l.contains("warning:")) {
        println!("cargo:warning={line}");
    }
    Ok(())
}

fn embed(what: &str) -> Result<String, String> {
    let output = Command::new("perl")
        .args(["-MExtUtils::Embed", "-e", what])
        .output()
        .map_err(|e| format!("cannot run perl: {e} (install perl and libperl-dev)"))?;
    if !output.status.success() {
        return Err("perl has no ExtUtils::Embed (install perl and libperl-dev)".to_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `TEXT(ContentType, ...)` lines become `pub enum Text { ContentType, ... }` with `from_index`.
fn fields() -> String {
    let catalogue =
        fs::read_to_string("shim/methods.def").expect("shim/methods.def is in the crate");
    [("TEXT", "Text"), ("NUMBER", "Number"), ("TABLE", "TableKind")]
        .map(|(kind, name)| field_enum(&catalogue, kind, name))
        .concat()
}

fn field_enum(catalogue: &str, kind: &str, name: &str) -> String {
    let start = format!("{kind}(");
    let lines = catalogue.lines().filter_map(|line| line.strip_prefix(&start));
    let (mut variants, mut arms) = (String::new(), String::new());
    for (index, line) in lines.enumerate() {
        let variant = line.split(',').next().expect("a line has fields").trim();
        let doc = line.split('"').nth(1).expect("a line ends with a text");
        variants += &format!("    /// {doc}\n    {variant} = {index},\n");
        arms += &format!("            {index} => Self::{variant},\n");
    }
    format!(
        "#[derive(Clone, Copy, Debug, PartialEq, Eq)]\n#[repr(i32)]\npub enum {name} {{\n{variants}}}\n\
         impl {name} {{\n    pub fn from_index(index: i32) -> Option<Self> {{\n        Some(match index {{\n\
         {arms}            _ => return None,\n        }})\n    }}\n}}\n"
    )
}

fn library(root: &Path) -> String {
    let mut files = Vec::new();
    collect(root, &mut files);
    files.sort();
    let entries: String = files
        .iter()
        .map(|file| {
            let name =
                file.strip_prefix(root).expect("collected under the root").display().to_string();
            let whole = fs::canonicalize(file).expect("the file was just listed");
            format!("    ({name:?}, include_str!({:?})),\n", whole.display().to_string())
        })
        .collect();
    format!("pub const LIBRARY: &[(&str, &str)] = &[\n{entries}];\n")
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "pm") {
            files.push(path);
        }
    }
}
