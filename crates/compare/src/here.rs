//! What a plan needs of the machine that it is read on: files that it names, programs, descriptors.
//! Looked at before anything is started, also for a preview. Starts nothing.

use std::path::Path;

use crate::{
    Error,
    plan::{Contestant, Plan},
    schedule::is_there,
};

impl Plan {
    /// Whether it can be run here; `file` is where it was read from. What is wrong has its line.
    pub fn check_here(&self, file: &Path) -> Result<(), Error> {
        for group in &self.groups {
            drom_load::check_connections(group.connections).map_err(Error::Connections)?;
            for (at, contestant) in group.contestants.iter().enumerate() {
                // The control is the baseline again; who lacks a program is skipped later.
                let skipped = contestant.requires.iter().any(|what| !is_there(what));
                let missing =
                    if skipped || contestant.is_control { None } else { lacks(contestant) };
                if let Some((key, message)) = missing {
                    let place = self.place(at, key);
                    let place: Vec<&str> = place.iter().map(String::as_str).collect();
                    return Err(Error::plan(&place, message).locate(&self.source).in_file(file));
                }
            }
        }
        Ok(())
    }

    /// Where the plan says how the variant at this place is started.
    fn place(&self, at: usize, key: &str) -> [String; 3] {
        let written: toml::Table = self.source.parse().unwrap_or_default();
        let tables = |name: &str| written.get(name).and_then(toml::Value::as_array);
        let named = |table: &toml::Value, key: &str| table.get(key)?.as_str().map(str::to_owned);
        let server = tables("variant").and_then(|all| named(all.get(at)?, "server"));
        let shared = server.and_then(|server| {
            let all = tables("server")?;
            all.iter().position(|table| named(table, "name").as_ref() == Some(&server))
        });
        let (table, at) = shared.map_or(("variant", at), |at| ("server", at));
        [table, &at.to_string(), key].map(str::to_owned)
    }
}

/// The key of what its start names and this machine does not have, and words for it.
fn lacks(contestant: &Contestant) -> Option<(&'static str, String)> {
    let (name, launch) = (&contestant.name, &contestant.launch);
    // What is still open belongs to a start.
    let is_fixed = |text: &str| !text.contains('{');
    let program = launch.argv.first().filter(|program| is_fixed(program))?;
    let is_known = Path::new(program).is_absolute()
        || !program.contains('/') && !launch.env.contains_key("PATH");
    if is_known && !is_there(program) {
        return Some(("command", format!("`{name}`: there is no program {program}")));
    }
    let [_, serve, flag, file, ..] = &launch.argv[..] else { return None };
    let is_configuration = serve == "serve" && flag == "-f" && Path::new(file).is_absolute();
    let is_missing = is_configuration && is_fixed(file) && !Path::new(file).exists();
    is_missing.then(|| ("drom", format!("`{name}`: there is no configuration {file}")))
}
