//! The command `nsgate completions`, and the test that keeps the shipped completions and manual pages current.

use crate::cli::Shell;

/// Returns the completions of a shell, as the packages install them.
pub(crate) fn of(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => {
            include_str!(
                "../../../deploy/package/wheel/data/share/bash-completion/completions/nsgate"
            )
        }
        Shell::Zsh => {
            include_str!("../../../deploy/package/wheel/data/share/zsh/site-functions/_nsgate")
        }
        Shell::Fish => {
            include_str!(
                "../../../deploy/package/wheel/data/share/fish/vendor_completions.d/nsgate.fish"
            )
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::{Path, PathBuf};

    use clap::CommandFactory as _;
    use clap_complete::aot::{Bash, Fish, Zsh, generate_to};

    use crate::cli::Cli;

    const FOLDERS: [&str; 4] = [
        "bash-completion/completions",
        "fish/vendor_completions.d",
        "man/man1",
        "zsh/site-functions",
    ];

    fn files(below: &Path) -> BTreeMap<PathBuf, String> {
        let folders = FOLDERS.iter().filter_map(|name| {
            let folder = fs::read_dir(below.join(name)).ok()?;
            Some(folder.map(|entry| Path::new(name).join(entry.unwrap().file_name())))
        });
        let read = |file: PathBuf| (file.clone(), fs::read_to_string(below.join(file)).unwrap());
        folders.flatten().map(read).collect()
    }

    /// Writes what the command line says of itself, in the layout of `/usr/share`.
    fn generate(below: &Path) {
        let [bash, fish, man, zsh] = FOLDERS.map(|name| below.join(name));
        for folder in [&bash, &fish, &man, &zsh] {
            fs::create_dir_all(folder).unwrap();
        }
        // The commit is another one in each build.
        let command = || Cli::command().long_version(None::<&str>);
        let mut cli = command();
        let generated = generate_to(Bash, &mut cli, "nsgate", &bash).unwrap();
        fs::rename(generated, bash.join("nsgate")).unwrap();
        generate_to(Zsh, &mut cli, "nsgate", &zsh).unwrap();
        generate_to(Fish, &mut cli, "nsgate", &fish).unwrap();
        clap_mangen::generate_to(command().disable_help_subcommand(true), &man).unwrap();
    }

    #[test]
    fn shipped_completions_and_manual_pages_are_current() {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/package/wheel/data/share");
        let fresh = tempfile::tempdir().unwrap();
        generate(fresh.path());
        if std::env::var_os("NSGATE_WRITE_EXPECTED").is_some() {
            let _ = fs::remove_dir_all(&shipped);
            generate(&shipped);
        }
        let (shipped, fresh) = (files(&shipped), files(fresh.path()));
        let stale: Vec<_> = fresh
            .keys()
            .chain(shipped.keys())
            .filter(|file| fresh.get(*file) != shipped.get(*file))
            .collect();
        assert!(
            stale.is_empty(),
            "deploy/package/wheel/data/share is not what the command line generates: {stale:?}\n\
             run NSGATE_WRITE_EXPECTED=1 cargo test --bin nsgate completions"
        );
    }
}
