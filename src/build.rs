//! The build: version, commit, features and compiler, as the build script of the crate found them.

/// The version of the crate, such as `0.1.0`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The first digits of the commit, with `-dirty` if the source was changed after it; `unknown` in a build for debugging
/// and where there was no checkout. `NSGATE_REVISION` at build time sets it.
pub const REVISION: &str = env!("NSGATE_REVISION");

/// The cargo features, sorted and separated by commas; `none` if there are none.
pub const FEATURES: &str = env!("NSGATE_FEATURES");

/// The version of the compiler, such as `1.95.0`.
pub const RUSTC: &str = env!("NSGATE_RUSTC");

/// All of it, as `nsgate --version` prints it after the program's name.
pub const DESCRIPTION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\nrevision ",
    env!("NSGATE_REVISION"),
    "\nfeatures ",
    env!("NSGATE_FEATURES"),
    "\ncompiler rustc ",
    env!("NSGATE_RUSTC"),
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_says_what_it_is_made_of() {
        assert_eq!(VERSION, env!("CARGO_PKG_VERSION"));
        assert!(
            !REVISION.is_empty() && !REVISION.contains(char::is_whitespace),
            "{REVISION:?}"
        );
        let features: Vec<_> = FEATURES.split(',').filter(|name| *name != "none").collect();
        let known = [
            ("dir", cfg!(feature = "dir")),
            ("jemalloc", cfg!(feature = "jemalloc")),
            ("otlp", cfg!(feature = "otlp")),
        ];
        let expected: Vec<_> = known
            .iter()
            .filter(|known| known.1)
            .map(|known| known.0)
            .collect();
        assert_eq!(features, expected);
        assert!(RUSTC.starts_with("1."), "{RUSTC:?}");
    }
}
