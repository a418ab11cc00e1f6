//! What a CGI child costs out of the zygote: `zygote SCRIPT COUNT [MODULE...]` runs a script COUNT
//! times and prints the time and the page faults of each on stderr. The evidence behind
//! docs/decisions/002-zygote.md.

use std::time::Instant;

use drom_perl::zygote::{Job, Runner, Wait};

struct Loop {
    script: String,
    left: u32,
}

impl Wait for Loop {
    fn next(&mut self, _runner: Runner) -> Option<Job> {
        let count = self.left;
        let start = Instant::now();
        while self.left > 0 {
            self.left -= 1;
            let env = ["PATH=/usr/bin:/bin", "REQUEST_METHOD=GET"];
            let job = Job::new(self.script.as_bytes(), "/usr/bin/perl", &env, &[]);
            // SAFETY: this process has one thread.
            let child = unsafe { libc::fork() };
            if child == 0 {
                return Some(job);
            }
            let mut status = 0;
            // SAFETY: waits for the child just forked.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
        }
        let each = |sum: f64| sum / f64::from(count);
        let us = each(start.elapsed().as_secs_f64() * 1e6);
        eprintln!("{us:.0} us and {:.0} page faults a child", each(faults_of_children()));
        None
    }

    fn loaded(&mut self, _entry: &[u8]) {}
}

fn faults_of_children() -> f64 {
    // SAFETY: the record is a local, for which zero is valid.
    let used = unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut used);
        used
    };
    used.ru_minflt as f64
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let mut wait = Loop { script: args[1].clone(), left: args[2].parse().expect("a count") };
    match drom_perl::zygote::run(&[], &[], &args[3..], &mut wait) {
        // SAFETY: perl has ended and flushed; the parent's exit handlers are not this child's.
        Ok((status, _)) => unsafe { libc::_exit(status) },
        Err(why) => eprintln!("{why}"),
    }
}
