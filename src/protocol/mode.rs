//! The `mode` of a create.

/// True if a create with this mode may overwrite what exists. Servers read it in upper and lower case, and have modes of
/// their own.
pub fn overwrites(mode: &str) -> bool {
    let harmless = ["create", "exist_ok", "existok"];
    !harmless.iter().any(|it| mode.eq_ignore_ascii_case(it))
}

#[cfg(test)]
mod tests {
    use super::overwrites;

    #[test]
    fn only_known_modes_are_harmless() {
        for mode in ["create", "Create", "EXIST_OK", "ExistOk"] {
            assert!(!overwrites(mode), "{mode}");
        }
        for mode in ["overwrite", "Overwrite", "append", ""] {
            assert!(overwrites(mode), "{mode}");
        }
    }
}
