//! What a CGI child costs out of the zygote: `zygote SCRIPT COUNT [MODULE...]` runs a script COUNT times
//! and prints the time of each on stderr. The evidence behind docs/decisions/002-zygote.md.

use std::time::Instant;

use drom_perl::zygote::{Job, Wait};

struct Loop {
    script: String,
    left: u32,
}

impl Wait for Loop {
    fn next(&mut self) -> Option<Job> {
        let count = self.left;
        let start = Instant::now();
        while self.left > 0 {
            self.left -= 1;
            // SAFETY: this process has one thread.
            let child = unsafe { libc::fork() };
            if child == 0 {
                return Some(Job {
                    script: self.script.clone().into_bytes(),
                    env: vec![b"PATH=/usr/bin:/bin".to_vec(), b"REQUEST_METHOD=GET".to_vec()],
                    args: Vec::new(),
                    perl: "/usr/bin/perl".to_owned(),
                });
            }
            let mut status = 0;
            // SAFETY: waits for the child just forked.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
        }
        eprintln!("{:.0} us a child", start.elapsed().as_secs_f64() * 1e6 / f64::from(count));
        None
    }

    fn loaded(&mut self, _entry: &[u8]) {}
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let mut wait = Loop { script: args[1].clone(), left: args[2].parse().expect("a count") };
    match drom_perl::zygote::run(&[], &[], &args[3..], &mut wait) {
        Ok(status) => std::process::exit(status),
        Err(why) => eprintln!("{why}"),
    }
}
