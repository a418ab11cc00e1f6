//! A limit of CPU time for this whole process, as a container has one.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A control group with a quota, and this process in it; it is where it was when this is dropped.
#[derive(Debug)]
pub struct Quota {
    group: PathBuf,
    home: PathBuf,
}

const PERIOD_US: u32 = 100_000;

impl Quota {
    /// This process gets so much of one CPU. An error where control groups may not be changed.
    pub fn start(share: f64) -> io::Result<Self> {
        let (home, is_unified) = home()?;
        let group = home.join(format!("drom-quota-{}", std::process::id()));
        fs::create_dir(&group)?;
        let quota = Self { group, home };
        let quota_us = (share * f64::from(PERIOD_US)) as u32;
        if is_unified {
            fs::write(quota.group.join("cpu.max"), format!("{quota_us} {PERIOD_US}"))?;
        } else {
            fs::write(quota.group.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
            fs::write(quota.group.join("cpu.cfs_quota_us"), quota_us.to_string())?;
        }
        enter(&quota.group)?;
        Ok(quota)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = enter(&self.home);
        let _ = fs::remove_dir(&self.group);
    }
}

fn enter(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), std::process::id().to_string())
}

/// The group of this process that limits CPU time, and whether it is of version 2.
fn home() -> io::Result<(PathBuf, bool)> {
    let text = fs::read_to_string("/proc/self/cgroup")?;
    let own = |wanted: &str| {
        let groups = text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        let mut paths = groups.filter(|(names, _)| names.split(',').any(|name| name == wanted));
        paths.next().map(|(_, path)| path.trim_start_matches('/').to_owned())
    };
    match (own("cpu"), own("")) {
        (Some(path), _) => Ok((Path::new("/sys/fs/cgroup/cpu").join(path), false)),
        (None, Some(path)) => Ok((Path::new("/sys/fs/cgroup").join(path), true)),
        (None, None) => Err(io::ErrorKind::NotFound.into()),
    }
}
