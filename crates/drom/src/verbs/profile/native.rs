//! `drom profile --native`: which functions of its compiled code a process spends its CPU time in.

use std::process::ExitCode;

use drom_profile::{Ended, Native, NativeError, NativePlan};
use drom_report::format::time;

use super::{Args, Failure, tell, watch_interrupts};
use crate::{exit::Exit, say};

impl From<NativeError> for Failure {
    fn from(error: NativeError) -> Self {
        Self { message: error.to_string(), exit: Exit::Failed }
    }
}

pub fn run(args: &Args, pid: i32) -> Result<ExitCode, Failure> {
    let stop = watch_interrupts();
    let (with_children, with_callers) = (args.follow_forks, args.callers);
    let mut native =
        Native::attach(NativePlan { pid, with_children, with_callers, rate_hz: args.rate })?;
    let ended = native.run(args.duration, stop);
    let notices = native.notices();
    let profile = native.into_profile();
    let mut words = notices;
    if profile.taken.samples == 0 {
        let wall = time(profile.taken.wall.as_secs_f64());
        words.push(format!("no samples: process {pid} had no CPU in {wall} (it waited)"));
    }
    words.iter().for_each(|words| say::line(format!("drom profile: {words}")));
    tell(args, &profile, "/".as_ref())?;
    Ok(if ended == Ended::Stopped { Exit::Interrupted } else { Exit::Done }.into())
}
