//! Makes an album of a perl's scenes for `tests/albums.rs`, in this crate's folder:
//! `DROM_TEST_ROOT=FOLDER cargo run --example album -- tests/data/perl-5.40.1.album` (see
//! `scripts/perls.sh`).

#[path = "../tests/support/play.rs"]
mod play;

use std::io::BufRead;

use drom_profile::album::Album;

fn main() {
    let into = std::env::args().nth(1).expect("the file to write");
    let mut album = Album::of(version());
    let (_play, mut said) = play::perl(&[]);
    let mut scenes = String::new();
    said.read_line(&mut scenes).expect("a list");
    for scene in scenes.split_whitespace() {
        let (player, mut said) = play::perl(&[scene]);
        let expected = play::expected(&mut said);
        stop(player.0.id() as i32);
        match album.take(player.0.id() as i32, scene, expected.clone()) {
            Ok(seen) => {
                let seen = play::seen(&seen.iter().collect::<Vec<_>>());
                let word = if seen == expected { "as caller says" } else { "NOT as caller says" };
                println!("{scene}: {word}");
                if seen != expected {
                    println!("  {seen:?}\n  {expected:?}");
                }
            }
            Err(error) => println!("{scene}: {error}"),
        }
    }
    let bytes = album.write().expect("memory");
    std::fs::write(&into, &bytes).expect("written");
    println!("{}: {} pictures, {} bytes", album.perl, album.pictures.len(), bytes.len());
}

fn version() -> String {
    let (_play, mut said) = play::perl(&["version"]);
    let mut version = String::new();
    said.read_line(&mut version).expect("text");
    version.trim().to_owned()
}

fn stop(pid: i32) {
    // SAFETY: no pointers; the process is ours and not waited for.
    unsafe { libc::kill(pid, libc::SIGSTOP) };
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    while !stat().contains(") T ") {}
}
