//! Finds the word that an operator probably meant.

/// Returns the known word that `word` was probably meant to be; `None` if none is near.
pub(in crate::config) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let plain = |word: &str| word.to_ascii_lowercase().replace('-', "_");
    let word = plain(word);
    let distance = |other: &str| strsim::damerau_levenshtein(&word, &plain(other));
    let near = known.iter().map(|&other| (distance(other), other)).min()?;
    let close = near.0 <= (word.chars().count() / 3).max(1);
    (close && word.len() <= 64).then_some(near.1)
}
