//! Perls that this machine does not have, from pictures of their memory (`examples/album.rs`):
//! stacks are what `caller` said, and no memory makes a look panic or go on for ever.

#[path = "support/play.rs"]
mod play;

use std::{fs, path::PathBuf};

use drom_profile::album::Album;
use proptest::prelude::*;

fn albums() -> Vec<Album> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let files = fs::read_dir(folder).expect("data").flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "album")).collect();
    files.sort();
    let read = |path: &PathBuf| Album::read(&fs::read(path).expect("a file")).expect("an album");
    files.iter().map(read).collect()
}

#[test]
fn stacks_of_other_perls_are_what_caller_says() {
    let albums = albums();
    let perls: Vec<&str> = albums.iter().map(|album| album.perl.as_str()).collect();
    assert_eq!(perls, ["v5.32.1", "v5.36.0", "v5.40.1", "v5.42.3"]);
    for album in &albums {
        assert!(album.pictures.len() >= 38, "{} {}", album.perl, album.pictures.len());
        for picture in &album.pictures {
            let seen = album.look(picture).expect("a perl");
            let seen = play::seen(&seen.iter().collect::<Vec<_>>());
            assert_eq!(seen, picture.stack, "{} {}", album.perl, picture.name);
        }
    }
}

#[test]
fn what_is_no_album_is_an_error() {
    assert!(Album::read(b"").is_err() && Album::read(b"\x1f\x8b").is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Each byte may be another one, more and more of them.
    #[test]
    fn no_memory_makes_a_look_fail_badly(
        which in 0..4usize, picture in 0..38usize, seed in 1..u64::MAX, rarity in 3..4_000u64,
    ) {
        let mut album = albums().swap_remove(which);
        let mut state = seed;
        album.spoil(|page| for byte in page {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if state % rarity == 0 {
                *byte = (state >> 32) as u8;
            }
        });
        let _ = album.look(&album.pictures[picture]);
    }
}
